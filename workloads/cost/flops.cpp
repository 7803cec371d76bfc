#include "workloads/cost/flops.h"

#include <algorithm>
#include <span>

#include "workloads/cost/shapes.h"

namespace foretrain {
namespace {

double sum(std::span<const Linear> products) {
  double flops = 0;
  for (const Linear& l : products) flops += l.flops();
  return flops;
}

double sum(const MlpShape& mlp) { return mlp.in.flops() + mlp.out.flops(); }

double attention_linear(const AttentionShape& a) { return sum(a.down) + sum(a.qkv) + a.projection.flops(); }

double experts_linear(const ExpertShape& e) {
  return e.router.flops() + sum(e.routed) + (e.shared ? sum(*e.shared) : 0) + (e.gate ? e.gate->flops() : 0);
}

RankFlops flops_of(const LayerShape& shape) {
  return {.linear = attention_linear(shape.attention) + (shape.mlp ? sum(*shape.mlp) : 0) +
                    (shape.experts ? experts_linear(*shape.experts) : 0),
          .attention = shape.attention.core.flops()};
}

/// Layers that recompute plays again, of one kind, over all stages.
std::int64_t recomputed_layers(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const bool some = training.recompute == Recompute::full && training.recompute_method == RecomputeMethod::block;
  std::int64_t count = 0;
  std::int64_t layer = 0;
  for (const std::int64_t layers : layers_by_stage(model, plan)) {
    const std::int64_t again = some ? std::min(layers, training.recompute_layers) : layers;
    for (std::int64_t i = 0; i < again; ++i) count += model.kind_of(layer + i) == kind ? 1 : 0;
    layer += layers;
  }
  const bool mtp = !some && kind == model.kind_of(model.layers - 1);  // their layers are of the last one's kind
  return mtp ? count + model.mtp_layers : count;
}

}  // namespace

RankFlops layer_flops(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  return flops_of(layer_shape(model, plan, training, kind));
}

double output_flops(const Model& model, const Plan& plan, const Training& training) {
  return output_shape(model, shard_of(model, plan, training)).flops();
}

double mtp_flops(const Model& model, const Plan& plan, const Training& training) {
  return mtp_projection_shape(model, plan, shard_of(model, plan, training)).flops();
}

RankFlops recomputed_layer_flops(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const LayerShape shape = layer_shape(model, plan, training, kind);
  if (training.recompute == Recompute::full) {
    RankFlops again = flops_of(shape);
    if (prunes_last_product(model, training, kind)) again.linear -= shape.mlp->out.flops();
    return again;
  }
  RankFlops again;
  if (recomputes(training, RecomputeModule::attention)) again.attention = shape.attention.core.flops();
  if (recomputes(training, RecomputeModule::matmul)) {
    const EverySecond products = every_second_product(model, plan, training, kind);
    again.linear = sum(products.attention) + sum(products.mlp);
    return again;
  }
  if (recomputes(training, RecomputeModule::latent) && model.latent) again.linear += sum(shape.attention.qkv);
  if (recomputes(training, RecomputeModule::projection)) again.linear += shape.attention.projection.flops();
  if (recomputes(training, RecomputeModule::mlp) && shape.mlp) {
    const bool pruned = prunes_last_product(model, training, kind);
    again.linear += pruned ? shape.mlp->in.flops() : sum(*shape.mlp);
  }
  if (recomputes(training, RecomputeModule::experts) && shape.experts) again.linear += experts_linear(*shape.experts);
  return again;
}

double recomputed_flops(const Model& model, const Plan& plan, const Training& training) {
  const auto length = static_cast<double>(training.sequence_length);
  double flops = 0;
  for (const LayerKind kind : all_layer_kinds) {
    const std::int64_t layers = recomputed_layers(model, plan, training, kind);
    if (layers == 0) continue;
    const RankFlops again = recomputed_layer_flops(model, plan, training, kind);
    const double executed = keys_worked(model, training, kind);
    const double counted = keys_met(model, kind, length, training.attention_flops);
    flops += static_cast<double>(layers) * (again.linear + again.attention * counted / executed);
  }
  // Every layer is on tp x cp ranks of each of the dp replicas.
  return flops * static_cast<double>(plan.tp * plan.cp * plan.dp * microbatches(plan, training));
}

}  // namespace foretrain
