#include "workloads/memory/buffers.h"

#include "workloads/memory/layer_table.h"
#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// Elements of the matrices of attention on one rank, one of each shape.
std::int64_t attention_matrices(const Model& model, const Plan& plan) {
  const AttentionWidths w = attention_widths(model, plan);
  const std::int64_t projection = w.output * model.hidden;
  if (!model.latent) return model.hidden * w.qkv() + projection;
  const LatentAttention& a = *model.latent;
  const std::int64_t query =
      a.query_rank > 0 ? model.hidden * a.query_rank + a.query_rank * w.query : model.hidden * w.query;
  const std::int64_t heads = model.heads / plan.tp;
  return query + model.hidden * (a.kv_rank + a.rope_dim) + a.kv_rank * heads * (a.nope_dim + a.value_dim) + projection;
}

std::int64_t mlp_matrices(const Model& model, std::int64_t ffn) { return (model.gated() ? 3 : 2) * model.hidden * ffn; }

/// Of embedding and output together.
RankParameters ends_parameters(const Model& model, const Plan& plan, std::int64_t stage) {
  RankParameters ends;
  if (stage == 0) ends += embedding_rank_parameters(model, plan);
  if (stage == plan.stages() - 1) ends += output_rank_parameters(model, plan);
  return ends;
}

}  // namespace

bool accumulates_in_product(const Training& training) {
  // Unfused attention: a stack older than Transformer Engine.
  return training.stack.framework == Framework::megatron && training.attention == AttentionKernel::flash &&
         training.gradients == Precision::fp32 && training.precision != Precision::fp32;
}

Bytes throw_away_gradients(const Model& model, const Plan& plan, const Training& training) {
  if (!accumulates_in_product(training)) return {};
  std::int64_t elements = attention_matrices(model, plan);
  const bool dense = !model.experts || model.experts->first_dense > 0 || model.experts->every > 1;
  if (dense) elements += mlp_matrices(model, model.ffn_hidden / plan.tp);
  if (model.experts) {
    const Experts& x = *model.experts;
    elements += mlp_matrices(model, x.ffn_hidden / plan.etp) + mlp_matrices(model, x.shared_ffn_hidden / plan.tp);
  }
  return bytes(2 * elements);
}

Bytes gathered_unit_bytes(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  return bytes(activation_bytes(training.precision) * layer_rank_parameters(model, plan, kind).total());
}

Bytes gathered_ends_bytes(const Model& model, const Plan& plan, const Training& training, std::int64_t stage) {
  return bytes(activation_bytes(training.precision) * ends_parameters(model, plan, stage).total());
}

Bytes unit_gradient_bytes(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  // What the products make, and the input of the reduce-scatter if that is fp32.
  const std::int64_t made = activation_bytes(training.precision);
  const std::int64_t reduced = gradient_bytes(training) > made ? gradient_bytes(training) : 0;
  return bytes((made + reduced) * layer_rank_parameters(model, plan, kind).total());
}

Bytes pipelined_shard_bytes(const Model& model, const Plan& plan, const Training& training, std::int64_t stage) {
  if (plan.zero < 3 || plan.stages() == 1) return {};
  const std::int64_t bytes_each = activation_bytes(training.precision) + gradient_bytes(training);
  return bytes(bytes_each * stage_rank_parameters(model, plan, stage).total());
}

}  // namespace foretrain
