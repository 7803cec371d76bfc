// GPU kinds: a job whose ranks run on different GPUs.
//
// What a rank does depends on the plan; how long an operation takes, on its GPU. So a workload is generated for every
// kind, with that kind's costs, and each rank takes its program from its own.
//
//   Workload w = generate(..., h100, cost_on_h100, true);
//   take_programs(w, generate(..., a100, cost_on_a100, true), on_a100);
#pragma once

#include <vector>

#include "workloads/generate.h"

namespace foretrain {

/// Ranks with `theirs[rank]` run the program that they have in `other`: the same model, plan and training on another
/// GPU. Throws std::invalid_argument when the numbers of ranks differ.
void take_programs(Workload& workload, Workload other, const std::vector<bool>& theirs);

}  // namespace foretrain
