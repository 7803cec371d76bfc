#include "workloads/cost/layer.h"

#include "workloads/cost/pieces.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

// Traffic of the memory-bound parts, bytes an element in half precision, forward (fitted together as 24 a hidden
// element and layer: two norms of 4 and twice the 8 here); backward moves twice as much.
constexpr double residual_bytes = 8;  ///< bias, dropout and residual: read both, write, mask
constexpr double qkv_bytes = 6;       ///< bias or rotary positions, and the split into heads
constexpr double swiglu_bytes = 6;    ///< gate and up read, product written
constexpr double gelu_bytes = 4;
constexpr double backward_traffic = 2;

/// What every block needs to know.
struct Context {
  const Gpu& gpu;
  const Model& model;
  const Training& training;
  Shard shard;
};

/// Behind a block: bias, dropout and residual.
PartCost residual_part(const Context& c) {
  const std::int64_t elements = c.shard.sequence_tokens * c.model.hidden;
  return {.forward = elementwise(c.gpu, elements, residual_bytes, c.training.precision),
          .backward_input = elementwise(c.gpu, elements, backward_traffic * residual_bytes, c.training.precision)};
}

PartCost norm_part(const Context& c) {
  return {.forward = norm_forward(c.gpu, c.model, c.shard, c.training.precision),
          .backward_input = norm_backward(c.gpu, c.model, c.shard, c.training.precision)};
}

PartCost linear_part(const Context& c, const Linear& l) {
  const Precision precision = c.training.precision;
  return {.forward = linear_forward(c.gpu, l, precision),
          .backward_input = linear_backward_input(c.gpu, l, precision),
          .backward_weight = linear_backward_weight(c.gpu, l, precision, c.training.gradients)};
}

PartCost elementwise_part(const Context& c, std::int64_t elements, double bytes) {
  return {.forward = elementwise(c.gpu, elements, bytes, c.training.precision),
          .backward_input = elementwise(c.gpu, elements, backward_traffic * bytes, c.training.precision)};
}

PartCost core_part(const Context& c) {
  const Attention core{.batch = c.training.microbatch,
                       .query_length = c.shard.tokens / c.training.microbatch,
                       .key_length = c.training.sequence_length,
                       .heads = c.shard.heads,
                       .kv_heads = c.shard.kv_heads,
                       .head_dim = c.model.qk_dim(),
                       .kernel = c.training.attention,
                       .dropout = c.model.dropout};
  return {.forward = attention_forward_time(c.gpu, core), .backward_input = attention_backward_time(c.gpu, core)};
}

void add_attention(const Context& c, LayerCost& cost) {
  const Shard& s = c.shard;
  const std::int64_t qkv = s.query + 2 * s.kv;
  cost.attention_norm = norm_part(c);
  cost.qkv = linear_part(c, {.tokens = s.tokens, .in = c.model.hidden, .out = qkv}) +
             elementwise_part(c, s.tokens * qkv, qkv_bytes);
  cost.core = core_part(c);
  cost.projection = linear_part(c, {.tokens = s.tokens, .in = s.query, .out = c.model.hidden});
  cost.attention_residual = residual_part(c);
  if (recomputes(c.training, RecomputeModule::norm)) cost.attention_recompute += cost.attention_norm.forward;
  if (recomputes(c.training, RecomputeModule::attention)) cost.attention_recompute += cost.core.forward;
}

void add_mlp(const Context& c, LayerCost& cost) {
  const Shard& s = c.shard;
  const PartCost activation = elementwise_part(c, s.tokens * s.ffn, c.model.gated() ? swiglu_bytes : gelu_bytes);
  cost.mlp_norm = norm_part(c);
  cost.mlp_in = linear_part(c, {.tokens = s.tokens, .in = c.model.hidden, .out = s.ffn_in}) + activation;
  cost.mlp_out = linear_part(c, {.tokens = s.tokens, .in = s.ffn, .out = c.model.hidden});
  cost.mlp_residual = residual_part(c);
  if (recomputes(c.training, RecomputeModule::norm)) cost.mlp_recompute += cost.mlp_norm.forward;
  if (recomputes(c.training, RecomputeModule::activation)) cost.mlp_recompute += activation.forward;
}

}  // namespace

Duration LayerCost::forward() const {
  Duration sum;
  for_each_part(*this, [&](const PartCost& p) { sum += p.forward; });
  return sum;
}

Duration LayerCost::backward() const {
  Duration sum;
  for_each_part(*this, [&](const PartCost& p) { sum += p.backward(); });
  return sum;
}

LayerCost layer_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  static_cast<void>(kind);  // experts and windows are refused by `check`
  const Context context{gpu, model, training, shard_of(model, plan, training)};
  LayerCost cost;
  add_attention(context, cost);
  add_mlp(context, cost);
  return cost;
}

}  // namespace foretrain
