// States: parameters, gradients and optimizer state that a rank holds from step to step, by the recipe of its stack.
//
//   state_bytes(stage_rank_parameters(model, plan, 0), plan, training).optimizer;
#pragma once

#include "workloads/parameters.h"
#include "workloads/plan.h"

namespace foretrain {

struct StateBytes {
  Bytes parameters, gradients, optimizer;
  [[nodiscard]] Bytes total() const { return parameters + gradients + optimizer; }
  friend bool operator==(const StateBytes&, const StateBytes&) = default;
};

/// Adam in the recipe of `training.stack` (docs/memory.md has the table). ZeRO 1 shares out the optimizer's part, ZeRO
/// 2 the gradients as well, ZeRO 3 everything (Rajbhandari 2020, section 5): dense parameters over
/// `plan.shard_ranks()`, experts over `plan.expert_shard_ranks()`, each share rounded up.
[[nodiscard]] StateBytes state_bytes(const RankParameters& parameters, const Plan& plan, const Training& training);

/// What the update takes on top while it runs, with no activations alive: the fp32 copy of half-precision gradients,
/// and of half-precision moments.
[[nodiscard]] Bytes step_temporaries(const RankParameters& parameters, const Plan& plan, const Training& training);

}  // namespace foretrain
