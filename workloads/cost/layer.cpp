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

/// The parts that both blocks have: norm before, residual after, two linear layers `in` and `out`. The core between
/// them is the caller's.
LayerCost::Block block_around(const Context& c, const Linear& in, const Linear& out) {
  const Precision precision = c.training.precision;
  const std::int64_t residual = c.shard.sequence_tokens * c.model.hidden;
  LayerCost::Block b;
  b.forward_before = norm_forward(c.gpu, c.model, c.shard, precision);
  b.forward = linear_forward(c.gpu, in, precision) + linear_forward(c.gpu, out, precision);
  b.forward_after = elementwise(c.gpu, residual, residual_bytes, precision);
  b.backward_before = elementwise(c.gpu, residual, backward_traffic * residual_bytes, precision);
  b.backward_input = linear_backward_input(c.gpu, out, precision) + linear_backward_input(c.gpu, in, precision);
  b.backward_weight_out = linear_backward_weight(c.gpu, out, precision, c.training.gradients);
  b.backward_weight_in = linear_backward_weight(c.gpu, in, precision, c.training.gradients);
  b.backward_after = norm_backward(c.gpu, c.model, c.shard, precision);
  if (recomputes(c.training, RecomputeModule::norm)) b.recompute += b.forward_before;
  return b;
}

LayerCost::Block attention_block(const Context& c) {
  const Shard& s = c.shard;
  const std::int64_t qkv = s.query + 2 * s.kv;
  LayerCost::Block b = block_around(c, {.tokens = s.tokens, .in = c.model.hidden, .out = qkv},
                                    {.tokens = s.tokens, .in = s.query, .out = c.model.hidden});
  const Attention core{.batch = c.training.microbatch,
                       .query_length = s.tokens / c.training.microbatch,
                       .key_length = c.training.sequence_length,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .head_dim = c.model.head_dim,
                       .kernel = c.training.attention,
                       .dropout = c.model.dropout};
  const Duration core_forward = attention_forward_time(c.gpu, core);
  b.forward += elementwise(c.gpu, s.tokens * qkv, qkv_bytes, c.training.precision) + core_forward;
  b.backward_input += elementwise(c.gpu, s.tokens * qkv, backward_traffic * qkv_bytes, c.training.precision) +
                      attention_backward_time(c.gpu, core);
  if (recomputes(c.training, RecomputeModule::attention)) b.recompute += core_forward;
  return b;
}

LayerCost::Block mlp_block(const Context& c) {
  const Shard& s = c.shard;
  LayerCost::Block b = block_around(c, {.tokens = s.tokens, .in = c.model.hidden, .out = s.ffn_in},
                                    {.tokens = s.tokens, .in = s.ffn, .out = c.model.hidden});
  const double bytes = c.model.gated() ? swiglu_bytes : gelu_bytes;
  const Duration activation = elementwise(c.gpu, s.tokens * s.ffn, bytes, c.training.precision);
  b.forward += activation;
  b.backward_input += elementwise(c.gpu, s.tokens * s.ffn, backward_traffic * bytes, c.training.precision);
  if (recomputes(c.training, RecomputeModule::activation)) b.recompute += activation;
  return b;
}

Duration forward_of(const LayerCost::Block& b) { return b.forward_before + b.forward + b.forward_after; }

Duration backward_of(const LayerCost::Block& b) {
  return b.backward_before + b.backward_input + b.backward_weight_out + b.backward_weight_in + b.backward_after;
}

}  // namespace

Duration LayerCost::forward() const { return forward_of(attention) + forward_of(mlp); }

Duration LayerCost::backward() const { return backward_of(attention) + backward_of(mlp); }

LayerCost layer_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training) {
  const Context context{gpu, model, training, shard_of(model, plan, training)};
  return {.attention = attention_block(context), .mlp = mlp_block(context)};
}

}  // namespace foretrain
