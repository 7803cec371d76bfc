#include "workloads/memory/states.h"

#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// Bytes a parameter.
struct Recipe {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
};

Recipe recipe_of(const Plan& plan, const Training& training) {
  const bool whole = training.precision == Precision::fp32;
  const std::int64_t moments = training.moments == Precision::fp32 ? 8 : 4;
  const std::int64_t gradients = gradient_bytes(training);
  // PyTorch's FSDP keeps fp32 parameters and casts what it gathers: no master copy, gradients as the parameters.
  if (training.stack.framework == Framework::fsdp || whole)
    return {.parameters = 4, .gradients = 4, .optimizer = moments};
  // Two moments and an fp32 master copy (Rajbhandari 2020, section 3.1). fp8 weights are 1 byte in either orientation;
  // fp4 weights half a byte, beside the half-precision ones that they are cast from.
  Recipe recipe{
      .parameters = training.precision == Precision::fp4 ? 2 + 1 : 2, .gradients = gradients, .optimizer = 4 + moments};
  if (training.stack.framework == Framework::megatron) return recipe;
  // DeepSpeed and nanotron accumulate in fp32 beside the half-precision gradients that the products make. Nanotron
  // frees these at once, but for the buckets of PyTorch's DDP, which it needs with more than one replica.
  const bool half_stay = training.stack.framework == Framework::deepspeed || plan.replicas() > 1;
  if (gradients == 4 && half_stay) recipe.gradients = 4 + 2;
  // DeepSpeed's optimizer holds fp32 gradients, too (DeepSpeed pull 5099: 4 + 16/d).
  if (training.stack.framework == Framework::deepspeed) recipe.optimizer += 4;
  return recipe;
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Of all parameters of a rank, those whose state it holds.
std::int64_t owned(const RankParameters& parameters, const Plan& plan) {
  return divided_up(parameters.dense, plan.shard_ranks()) + divided_up(parameters.expert, plan.expert_shard_ranks());
}

}  // namespace

StateBytes state_bytes(const RankParameters& parameters, const Plan& plan, const Training& training) {
  const Recipe recipe = recipe_of(plan, training);
  const std::int64_t all = parameters.total();
  const std::int64_t share = owned(parameters, plan);
  return {.parameters = bytes(recipe.parameters * (plan.zero >= 3 ? share : all)),
          .gradients = bytes(recipe.gradients * (plan.zero >= 2 ? share : all)),
          .optimizer = bytes(recipe.optimizer * (plan.zero >= 1 ? share : all))};
}

Bytes step_temporaries(const RankParameters& parameters, const Plan& plan, const Training& training) {
  if (training.stack.framework == Framework::fsdp || training.precision == Precision::fp32) return {};
  const bool half_gradients = gradient_bytes(training) == 2 && training.stack.framework != Framework::deepspeed;
  if (!half_gradients && training.moments == Precision::fp32) return {};
  return bytes(4 * (plan.zero >= 1 ? owned(parameters, plan) : parameters.total()));
}

}  // namespace foretrain
