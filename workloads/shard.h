// Shard: the widths and token counts that one rank works on: of tensor-parallel groups (Korthikanti 2022, section 4.2)
// and, for experts, of the expert grid (Megatron-Core's "parallel folding").
#pragma once

#include <algorithm>
#include <cmath>

#include "workloads/plan.h"

namespace foretrain {

struct Shard {
  std::int64_t heads = 0;      ///< query heads
  std::int64_t kv_heads = 0;   ///< at least one: where TP exceeds the KV heads, ranks hold copies
  std::int64_t query = 0;      ///< width of Q
  std::int64_t key = 0;        ///< of K
  std::int64_t value = 0;      ///< of V
  std::int64_t attention = 0;  ///< of the attention output, which goes into the projection
  std::int64_t ffn = 0;        ///< width between the MLP's matrices
  std::int64_t ffn_in = 0;     ///< width out of the first: gate and up side by side, or `ffn`
  std::int64_t shared_ffn = 0;
  std::int64_t expert_ffn = 0;       ///< of one routed expert
  std::int64_t experts = 0;          ///< routed experts on this rank
  std::int64_t vocabulary = 0;       ///< columns of the output layer, padded
  std::int64_t tokens = 0;           ///< of one microbatch, inside the tensor-parallel part
  std::int64_t sequence_tokens = 0;  ///< outside it, where norms and residuals are: a share with sequence parallel
  std::int64_t sent_copies = 0;      ///< of its tokens, that a rank sends to their experts: `topk` of each
  std::int64_t expert_rows = 0;      ///< rows of one routed expert's products, on the busiest rank

  [[nodiscard]] std::int64_t qkv() const { return query + key + value; }
  [[nodiscard]] std::int64_t expert_copies() const { return experts * expert_rows; }
};

/// Copies of tokens on the busiest expert rank over the mean: all of them at most. With a capacity every expert's
/// products have that many rows, padded where fewer came (GShard, arXiv 2006.16668, section 2.2).
[[nodiscard]] inline double expert_load(const Plan& plan) {
  if (plan.expert_capacity > 0) return plan.expert_capacity;
  return std::min(plan.expert_imbalance, static_cast<double>(plan.ep));
}

/// Width out of an MLP's first matrix: gate and up side by side, or `ffn`.
[[nodiscard]] inline std::int64_t first_width(const Model& model, std::int64_t ffn) {
  return model.gated() ? 2 * ffn : ffn;
}

/// Widths alone, as parameters need them.
[[nodiscard]] inline Shard shard_widths(const Model& model, const Plan& plan) {
  Shard s;
  s.heads = model.heads / plan.tp;
  s.kv_heads = std::max<std::int64_t>(model.kv_heads / plan.tp, 1);
  s.query = s.heads * model.qk_dim();
  s.key = s.kv_heads * model.qk_dim();
  s.value = s.kv_heads * model.value_dim();
  s.attention = s.heads * model.value_dim();
  s.ffn = model.ffn_hidden / plan.tp;
  s.ffn_in = first_width(model, s.ffn);
  s.vocabulary = padded_vocabulary(model, plan) / plan.tp;
  if (model.experts) {
    s.shared_ffn = model.experts->shared_ffn_hidden / plan.tp;
    s.expert_ffn = model.experts->ffn_hidden / plan.etp;
    s.experts = model.experts->count / plan.ep;
  }
  return s;
}

[[nodiscard]] inline Shard shard_of(const Model& model, const Plan& plan, const Training& training) {
  Shard s = shard_widths(model, plan);
  s.tokens = training.microbatch * training.sequence_length / plan.cp;
  s.sequence_tokens = plan.sequence_parallel ? s.tokens / plan.tp : s.tokens;
  if (model.experts) {
    s.sent_copies = s.sequence_tokens * model.experts->topk;
    // Each rank sends its share of T topk / tp copies; ETP ranks work on the same ones, gathered among them.
    const auto copies = static_cast<double>(s.tokens * model.experts->topk * plan.etp) / static_cast<double>(plan.tp);
    s.expert_rows = static_cast<std::int64_t>(std::ceil(copies * expert_load(plan) / static_cast<double>(s.experts)));
  }
  return s;
}

/// Into how many pieces of the tokens `overlap.tp` cuts a product beside the gather of its input, which goes around a
/// ring, and beside the scatter of its output (Transformer Engine's userbuffers, where a pipelined scatter has 4
/// splits). A longer ring is played in as many pieces too, to bound the number of operations.
struct ProductPieces {
  std::int64_t gather = 1, scatter = 1;
};
[[nodiscard]] inline ProductPieces product_pieces(const Plan& plan) {
  constexpr std::int64_t splits = 4;
  if (!plan.overlap.tp || !plan.sequence_parallel || plan.tp == 1) return {};
  return {.gather = std::min(plan.tp, splits), .scatter = splits};
}

/// Whether `module` is made again in backward instead of kept.
[[nodiscard]] inline bool recomputes(const Training& training, RecomputeModule module) {
  const auto& modules = training.recompute_modules;
  return training.recompute == Recompute::selective &&
         std::find(modules.begin(), modules.end(), module) != modules.end();
}

/// Whether recompute of a whole layer or its MLP ends before the MLP's second product: its output is kept elsewhere, as
/// the next layer's input, so that only a norm behind the block would read it. Groups of layers are played whole, and
/// experts: the gradient of their probabilities reads their outputs.
[[nodiscard]] inline bool prunes_last_product(const Model& model, const Training& training, LayerKind kind) {
  const bool alone = training.recompute != Recompute::full || training.recompute_method == RecomputeMethod::block ||
                     training.recompute_layers == 1;
  return training.stack.prunes_recompute && alone && !kind.experts && !model.post_norms;
}

}  // namespace foretrain
