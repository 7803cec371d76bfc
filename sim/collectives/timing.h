// The fitted form of a call's time, shared by the algorithms: latencies and the rates that a shape allows.
// What each term means and where it comes from: docs/collectives.md.
#pragma once

#include "sim/collectives/collective.h"

namespace foretrain::timing {

/// Steps of a ring: all of them, and those between nodes.
struct RingSteps {
  double all = 0;
  double between = 0;
};
[[nodiscard]] RingSteps ring_steps(Collective op, const GroupShape& shape);
/// Steps of a pass up a tree of nodes and back: 2 log2 N.
[[nodiscard]] double tree_hops(const GroupShape& shape);

/// Fixed cost of a call.
[[nodiscard]] Duration launch(const GroupShape& shape, const Transport& transport);
/// Latency of LL and LL128 with `hops` steps between nodes.
[[nodiscard]] Duration low_latency(Collective op, Protocol protocol, double hops, const GroupShape& shape,
                                   const Transport& transport);

/// Part of the node's NVLink that the rings of a group fill: less than 1 for some GPUs of a mesh.
[[nodiscard]] double ring_part(const GroupShape& shape, const Transport& transport);
/// Bus bandwidth of rings inside a node, for groups of this shape.
[[nodiscard]] Bandwidth ring_rate(const GroupShape& shape, const Transport& transport);
/// Message bytes a second of the Simple protocol's best algorithm, on links of the shape's nominal rates.
[[nodiscard]] double best_simple_rate(Collective op, const GroupShape& shape, const Transport& transport);
/// The same of one algorithm. What the usage vector gives on a fabric whose links are the shape's and nothing else.
[[nodiscard]] double simple_rate(Collective op, Algorithm algorithm, const GroupShape& shape,
                                 const Transport& transport);
/// What LL and LL128 move at most; nothing for Simple.
[[nodiscard]] std::optional<double> protocol_cap(Collective op, Protocol protocol, const GroupShape& shape,
                                                 const Transport& transport);

/// NVLS goodput of the NVLink line rate: less when trees between nodes share the GPUs' work.
[[nodiscard]] double nvls_goodput(const GroupShape& shape, const Transport& transport);
/// Wire bytes per message byte on each NVLink of an NVLS call: S out to be reduced and S/g out as owner of a part.
[[nodiscard]] double nvls_wire(const GroupShape& shape);
/// Time to fill the NVLS pipeline.
[[nodiscard]] Duration nvls_fill(Bytes size, const GroupShape& shape, const Transport& transport);
/// PAT: time of its steps, and its part of the links' goodput.
[[nodiscard]] Duration pat_steps(const GroupShape& shape, const Transport& transport);
inline constexpr double pat_part = 0.75;  ///< NCCL's own factor (src/graph/tuning.cc, 2.30); no log
[[nodiscard]] bool has_nvls(const GroupShape& shape, const Transport& transport);

/// A whole number of picoseconds from a sum made in double.
[[nodiscard]] Duration rounded(double picoseconds);

}  // namespace foretrain::timing
