// All calls of a job of many GPUs, for the expansion: the rings and all-to-alls of a mixture of experts with 8
// tensor-parallel ranks.
#pragma once

#include <cstdint>

#include "sim/program.h"
#include "topology/fabric.h"
#include "topology/routing/router.h"

namespace foretrain::bench {

/// Servers of 8 GPUs under a full-bisection fat-tree of three tiers, 64 ports a switch.
[[nodiscard]] Fabric servers_on_fat_tree(std::uint32_t gpus);

/// Every rank calls a ring all-gather with the 8 of its server, a ring reduce-scatter with all ranks of its position
/// in their servers, and an all-to-all with 64 neighbours; `gpus` is a multiple of 64, or 16.
[[nodiscard]] Job expert_job(std::uint32_t gpus);

/// Calls planned and shapes registered by `expand`, to be sure that the job is what it says.
struct Expanded {
  std::size_t calls = 0;
  std::size_t shapes = 0;
  std::size_t resources = 0;
};
[[nodiscard]] Expanded expand_expert_job(const Fabric& fabric, const Job& job, Routing routing);

}  // namespace foretrain::bench
