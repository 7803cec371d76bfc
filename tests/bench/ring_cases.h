// One all-reduce around a ring of many hosts.
#pragma once

#include <cstdint>

#include "sim/simulate.h"

namespace foretrain::bench {

/// All ranks, one a GPU, call one all-reduce.
[[nodiscard]] Job one_all_reduce(std::uint32_t ranks, Bytes size);

/// Played with the algorithm ring, on a non-blocking fat-tree, paths spread.
[[nodiscard]] Measured play_ring_all_reduce(const Fabric& fabric, const Job& job, Fidelity fidelity);

}  // namespace foretrain::bench
