#include "workloads/parameters.h"

#include <algorithm>

#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

/// This rank's part of a linear layer. The caller divides `out` (columns, with their bias) or `in` (rows: the bias is
/// added behind the sum over ranks, and whole on each).
std::int64_t linear_share(std::int64_t in, std::int64_t out, bool bias) { return in * out + (bias ? out : 0); }

/// This rank's share of an MLP that `ranks` split.
std::int64_t mlp_share(const Model& m, std::int64_t ffn, std::int64_t ranks) {
  const std::int64_t share = ffn / ranks;
  return linear_share(m.hidden, m.gated() ? 2 * share : share, m.biases.mlp) +
         linear_share(share, m.hidden, m.biases.mlp);
}

/// The products into MLA's latents, and the latents' norms.
std::int64_t latent_whole(const Model& m, const LatentAttention& a) {
  const std::int64_t query = a.query_rank > 0 ? m.hidden * a.query_rank + m.norm_parameters(a.query_rank) : 0;
  return query + m.hidden * (a.kv_rank + a.rope_dim) + m.norm_parameters(a.kv_rank);
}

std::int64_t latent_share(const Model& m, const LatentAttention& a, std::int64_t tp) {
  const std::int64_t query = (a.query_rank > 0 ? a.query_rank : m.hidden) * m.query_width() / tp;
  return latent_whole(m, a) + query + a.kv_rank * m.heads / tp * (a.nope_dim + a.value_dim);
}

std::int64_t attention_share(const Model& m, std::int64_t tp) {
  const std::int64_t heads = m.heads / tp;
  const std::int64_t kv_heads = std::max<std::int64_t>(m.kv_heads / tp, 1);
  const std::int64_t in =
      m.latent ? latent_share(m, *m.latent, tp)
               : linear_share(m.hidden, heads * m.qk_dim() + kv_heads * (m.qk_dim() + m.value_dim()), m.biases.qkv);
  return in + linear_share(heads * m.value_dim(), m.hidden, m.biases.projection) + m.head_norm_parameters() +
         (m.attention_sinks ? heads : 0);
}

std::int64_t vocabulary_share(const Model& m, const Plan& plan) {
  return padded_vocabulary(m, plan) / plan.tp * m.hidden;
}

}  // namespace

bool ends_on_one_rank(const Plan& plan) { return plan.pp == 1 || placement_of(plan.schedule) != Placement::loop; }

std::int64_t whole_layer_parameters(const Model& model, LayerKind kind) {
  std::int64_t whole = model.layer_norms() * model.norm_parameters(model.hidden) + model.head_norm_parameters();
  if (model.biases.projection) whole += model.hidden;
  if (model.latent) whole += latent_whole(model, *model.latent);
  if (kind.experts) whole += model.router_parameters();
  const bool split_mlp = !kind.experts || model.experts->shared_ffn_hidden > 0;
  if (split_mlp && model.biases.mlp) whole += model.hidden;
  return whole;
}

RankParameters layer_rank_parameters(const Model& model, const Plan& plan, LayerKind kind) {
  RankParameters sum{.dense =
                         attention_share(model, plan.tp) + model.layer_norms() * model.norm_parameters(model.hidden)};
  if (!kind.experts) {
    sum.dense += mlp_share(model, model.ffn_hidden, plan.tp);
    return sum;
  }
  const Experts& e = *model.experts;
  sum.dense += model.router_parameters();
  if (e.shared_ffn_hidden > 0) sum.dense += mlp_share(model, e.shared_ffn_hidden, plan.tp);
  sum.expert = e.count / plan.ep * mlp_share(model, e.ffn_hidden, plan.etp);
  return sum;
}

RankParameters embedding_rank_parameters(const Model& model, const Plan& plan) {
  const std::int64_t whole = model.embedding_parameters() - model.hidden * model.vocabulary;
  return {.dense = vocabulary_share(model, plan) + whole};
}

RankParameters output_rank_parameters(const Model& model, const Plan& plan) {
  const bool has_head = !model.tied_embeddings || !ends_on_one_rank(plan);
  return {.dense = model.norm_parameters(model.hidden) + (has_head ? vocabulary_share(model, plan) : 0)};
}

RankParameters mtp_rank_parameters(const Model& model, const Plan& plan) {
  if (model.mtp_layers == 0) return {};
  RankParameters module = layer_rank_parameters(model, plan, model.kind_of(model.layers - 1));
  module.dense +=
      3 * model.norm_parameters(model.hidden) + linear_share(2 * model.hidden, model.hidden / plan.tp, false);
  RankParameters sum = model.mtp_layers * module;
  if (!ends_on_one_rank(plan) && !model.tied_embeddings) sum.dense += vocabulary_share(model, plan);
  return sum;
}

RankParameters stage_rank_parameters(const Model& model, const Plan& plan, std::int64_t stage) {
  const std::vector<std::int64_t> layers = layers_by_stage(model, plan);
  std::int64_t layer = 0;
  for (std::int64_t before = 0; before < stage; ++before) layer += layers[static_cast<std::size_t>(before)];
  const std::int64_t end = layer + layers[static_cast<std::size_t>(stage)];
  RankParameters sum;
  for (; layer < end; ++layer) sum += layer_rank_parameters(model, plan, model.kind_of(layer));
  if (stage == 0) sum += embedding_rank_parameters(model, plan);
  if (stage == plan.stages() - 1) {
    sum += output_rank_parameters(model, plan);
    sum += mtp_rank_parameters(model, plan);
  }
  return sum;
}

std::int64_t stage_parameters(const Model& model, const Plan& plan, std::int64_t stage) {
  return stage_rank_parameters(model, plan, stage).total();
}

}  // namespace foretrain
