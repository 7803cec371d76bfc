// NCCL's tuning model as plain functions: the table of latencies and bandwidths that `choose` compares.
// Source of every number: NVIDIA/nccl 2.30.7, src/graph/tuning.cc, src/graph/search.cc and src/graph/topo.h.
// What is simplified: docs/collectives.md, "The choice".
#pragma once

#include <optional>

#include "sim/collectives/tuner.h"

namespace foretrain::nccl {

/// Rings or trees that the graph search lays: GB/s of each inside a node and between nodes.
struct Channels {
  int count = 1;
  double intra = 0;
  double inter = 0;
};
[[nodiscard]] Channels ring_channels(const GroupShape& shape, const Transport& transport);
[[nodiscard]] Channels nvls_channels(const GroupShape& shape, const Transport& transport);

/// Microseconds, size-dependent corrections included.
[[nodiscard]] double latency_us(Collective op, Choice choice, Bytes size, const GroupShape& shape,
                                const Transport& transport);
/// Algorithm bandwidth in GB/s, size-dependent corrections included; 0 where NCCL does not have the combination.
[[nodiscard]] double bandwidth(Collective op, Choice choice, Bytes size, const GroupShape& shape,
                               const Transport& transport);

}  // namespace foretrain::nccl
