// Shard: the widths and token counts that one rank of a tensor-parallel group works on (Korthikanti 2022, section 4.2).
#pragma once

#include <algorithm>

#include "workloads/plan.h"

namespace foretrain {

struct Shard {
  std::int64_t heads = 0;            ///< query heads
  std::int64_t kv_heads = 0;         ///< at least one: where TP exceeds the KV heads, ranks hold copies
  std::int64_t query = 0;            ///< width of Q, and of the attention output
  std::int64_t kv = 0;               ///< width of K, and of V
  std::int64_t ffn = 0;              ///< width between the MLP's matrices
  std::int64_t ffn_in = 0;           ///< width out of the first: gate and up side by side, or `ffn`
  std::int64_t vocabulary = 0;       ///< columns of the output layer, padded
  std::int64_t tokens = 0;           ///< of one microbatch, inside the tensor-parallel part
  std::int64_t sequence_tokens = 0;  ///< outside it, where norms and residuals are: a share with sequence parallel
};

/// Widths alone, as parameters need them.
[[nodiscard]] inline Shard shard_widths(const Model& model, const Plan& plan) {
  Shard s;
  s.heads = model.heads / plan.tp;
  s.kv_heads = std::max<std::int64_t>(model.kv_heads / plan.tp, 1);
  s.query = s.heads * model.qk_dim();
  s.kv = s.kv_heads * model.qk_dim();
  s.ffn = model.ffn_hidden / plan.tp;
  s.ffn_in = model.gated() ? 2 * s.ffn : s.ffn;
  s.vocabulary = padded_vocabulary(model, plan) / plan.tp;
  return s;
}

[[nodiscard]] inline Shard shard_of(const Model& model, const Plan& plan, const Training& training) {
  Shard s = shard_widths(model, plan);
  s.tokens = training.microbatch * training.sequence_length / plan.cp;
  s.sequence_tokens = plan.sequence_parallel ? s.tokens / plan.tp : s.tokens;
  return s;
}

/// Whether `module` is made again in backward instead of kept.
[[nodiscard]] inline bool recomputes(const Training& training, RecomputeModule module) {
  const auto& modules = training.recompute_modules;
  return training.recompute == Recompute::selective &&
         std::find(modules.begin(), modules.end(), module) != modules.end();
}

}  // namespace foretrain
