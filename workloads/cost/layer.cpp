#include "workloads/cost/layer.h"

#include "workloads/cost/host.h"
#include "workloads/cost/pieces.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

// Traffic of the memory-bound parts, bytes an element in half precision, forward (fitted together as 24 a hidden
// element and layer: two norms of 4 and twice the 8 here).
constexpr double residual_bytes = 8;  ///< bias, dropout and residual: read both, write, mask
constexpr double qkv_bytes = 6;       ///< bias or rotary positions, and the split into heads
constexpr double sum_bytes = 6;       ///< one array added to another: two reads, a write

/// One layer's shape, and what its parts are made of.
struct Layer {
  const Plan& plan;
  LayerKind kind;
  Pieces pieces;
  Shard shard;
  LayerShape shape;
  ProductPieces cuts;

  [[nodiscard]] const Model& model() const { return pieces.model; }
  [[nodiscard]] const Training& training() const { return pieces.training; }
  [[nodiscard]] std::int64_t sequence_elements() const { return shard.sequence_tokens * model().hidden; }
};

/// Behind a block: bias, dropout and residual, and before it a norm of the block's output.
PartCost residual_part(const Layer& l) {
  const PartCost residual = l.pieces.pass(l.sequence_elements(), residual_bytes);
  return l.model().post_norms ? l.pieces.norm(l.sequence_elements()) + residual : residual;
}

/// A product that a gather feeds.
PartCost gathered(const Layer& l, const Linear& product) { return l.pieces.linear(product, l.cuts.gather, 1); }

/// One whose sum over ranks is scattered; in backward the gather of the output's gradient feeds it.
PartCost scattered(const Layer& l, const Linear& product) {
  return l.pieces.linear(product, l.cuts.scatter, l.cuts.gather);
}

PartCost down_part(const Layer& l) {
  PartCost cost;
  for (const Linear& product : l.shape.attention.down) cost = cost + l.pieces.linear(product);
  if (!l.model().latent) return cost;
  const LatentAttention& a = *l.model().latent;
  if (a.query_rank > 0) cost = cost + l.pieces.norm(l.shard.sequence_tokens * a.query_rank);
  return cost + l.pieces.norm(l.shard.sequence_tokens * a.kv_rank);
}

/// Between the product and attention: rotary positions or bias, the norms of heads.
PartCost heads_part(const Layer& l) {
  const Shard& s = l.shard;
  PartCost cost = l.pieces.pass(s.tokens * s.qkv(), qkv_bytes);
  if (l.model().qk_norm) cost = cost + l.pieces.norm(s.tokens * s.query) + l.pieces.norm(s.tokens * s.key);
  return cost;
}

PartCost qkv_part(const Layer& l) {
  PartCost cost = heads_part(l);
  for (const Linear& product : l.shape.attention.qkv) cost = cost + gathered(l, product);
  return cost;
}

/// Adding a kernel's output to that of the kernels before, with both scaled to a common maximum (fp32 log-sum-exp, a
/// value a head, read twice and written); in backward its gradients of Q, K and V.
PartCost core_sum(const Layer& l) {
  const Shard& s = l.shard;
  const auto tokens = static_cast<double>(s.tokens);
  const double output = sum_bytes * static_cast<double>(s.attention) + 3 * 4 * static_cast<double>(s.heads);
  return {.forward = l.pieces.moved(output * tokens),
          .backward_input = l.pieces.moved(sum_bytes * static_cast<double>(s.qkv()) * tokens)};
}

PartCost core_part(const Layer& l) {
  const CoreShape& core = l.shape.attention.core;
  const PartCost kernel{.forward = attention_forward_time(l.pieces.gpu, core.kernel),
                        .backward_input = attention_backward_time(l.pieces.gpu, core.kernel)};
  PartCost cost = kernel;
  for (std::int64_t i = 1; i < core.kernels; ++i) {
    cost = cost + kernel;
    if (core.sums) cost = cost + core_sum(l);
  }
  return cost;
}

void add_attention(const Layer& l, LayerCost& cost) {
  cost.attention_norm = l.pieces.norm(l.sequence_elements());
  cost.down = down_part(l);
  cost.qkv = qkv_part(l);
  cost.core = core_part(l);
  cost.projection = scattered(l, l.shape.attention.projection);
  if (!l.model().single_norm) cost.attention_residual = residual_part(l);  // else one sum for both blocks
}

void add_mlp(const Layer& l, LayerCost& cost) {
  if (!l.model().single_norm) cost.mlp_norm = l.pieces.norm(l.sequence_elements());
  if (l.shape.experts) {
    cost.experts = expert_cost(l.pieces, l.plan, l.shard, *l.shape.experts);
  } else {
    cost.mlp_in = gathered(l, l.shape.mlp->in) + l.pieces.activation(l.shard.tokens * l.shard.ffn);
    cost.mlp_out = scattered(l, l.shape.mlp->out);
  }
  cost.mlp_residual = residual_part(l);
}

Duration activations_forward(const Layer& l) {
  const Shard& s = l.shard;
  if (!l.shape.experts) return l.pieces.activation(s.tokens * s.ffn).forward;
  const Duration routed = l.pieces.for_experts().activation(s.expert_copies() * s.expert_ffn).forward;
  return l.shape.experts->shared ? routed + l.pieces.activation(s.tokens * s.shared_ffn).forward : routed;
}

/// `matmul`: everything memory-bound as well, up to what the last kept output needs.
void add_every_second_product(const Layer& l, LayerCost& cost) {
  const auto again = every_second_product(l.model(), l.plan, l.training(), l.kind);
  cost.attention_recompute += cost.attention_norm.forward + heads_part(l).forward + cost.attention_residual.forward;
  for (const Linear& product : again.attention) cost.attention_recompute += l.pieces.linear(product).forward;
  cost.mlp_recompute += cost.mlp_norm.forward + activations_forward(l);
  for (const Linear& product : again.mlp) cost.mlp_recompute += l.pieces.linear(product).forward;
}

void add_recompute(const Layer& l, LayerCost& cost) {
  const auto again = [&](RecomputeModule module) { return recomputes(l.training(), module); };
  if (again(RecomputeModule::attention)) cost.attention_recompute += cost.core.forward;
  if (again(RecomputeModule::matmul)) return add_every_second_product(l, cost);
  if (again(RecomputeModule::norm)) {
    cost.attention_recompute += cost.attention_norm.forward;
    cost.mlp_recompute += cost.mlp_norm.forward;
  }
  if (again(RecomputeModule::latent) && l.model().latent) cost.attention_recompute += cost.qkv.forward;
  if (again(RecomputeModule::activation)) cost.mlp_recompute += activations_forward(l);
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
  const Layer layer{.plan = plan,
                    .kind = kind,
                    .pieces = {gpu, model, training},
                    .shard = shard_of(model, plan, training),
                    .shape = layer_shape(model, plan, training, kind),
                    .cuts = product_pieces(plan)};
  LayerCost cost;
  add_attention(layer, cost);
  add_mlp(layer, cost);
  add_recompute(layer, cost);
  stretch_for_host(cost, host_time(gpu, model, training, kind));
  return cost;
}

}  // namespace foretrain
