#include "workloads/cost/shapes.h"

namespace foretrain {
namespace {

/// Of flash attention that adds a learned logit to each row's sum, over the same without (fitted on GPT-OSS, kernels of
/// 2025: 1.7 times the time of full causal attention).
constexpr double sinks_rate = 1 / 1.7;

MlpShape mlp_shape(const Model& model, std::int64_t tokens, std::int64_t ffn, std::int64_t count = 1) {
  return {.in = {.tokens = tokens, .in = model.hidden, .out = first_width(model, ffn), .count = count},
          .out = {.tokens = tokens, .in = ffn, .out = model.hidden, .count = count}};
}

/// Ring: a step's block is one chunk of own queries against another rank's keys. The zig-zag gives every rank the same
/// part of each block, and of all blocks 1/cp of what the sequence needs (Megatron-Core, context_parallel).
CoreShape core_shape(const Model& model, const Plan& plan, const Training& training, const Shard& s, LayerKind kind) {
  const std::int64_t length = training.sequence_length;
  const std::int64_t share = length / plan.cp;
  const double keys = keys_worked(model, training, kind);
  CoreShape core{.kernel = {.batch = training.microbatch,
                            .query_length = share,
                            .key_length = length,
                            .keys_met = keys,
                            .heads = s.heads,
                            .kv_heads = s.kv_heads,
                            .qk_dim = model.qk_dim(),
                            .value_dim = model.value_dim(),
                            .kernel = training.attention,
                            .dropout = model.dropout,
                            .rate = training.stack.attention_rate * (model.attention_sinks ? sinks_rate : 1)}};
  if (plan.cp == 1) return core;
  Attention& a = core.kernel;
  switch (plan.context) {
    case ContextExchange::ring:
      a.key_length = share;
      a.keys_met = keys / static_cast<double>(plan.cp);
      core.kernels = plan.cp;
      core.sums = true;
      return core;
    case ContextExchange::all_gather:
      a.query_length = share / 2;
      core.kernels = 2;
      return core;
    case ContextExchange::all_to_all:
      a.query_length = length;
      a.heads = s.heads / plan.cp;
      a.kv_heads = std::max<std::int64_t>(s.kv_heads / plan.cp, 1);
      return core;
  }
  return core;
}

/// DeepSeek-V2, section 2.1. The down-projections are whole on every rank and work on its share of the sequence; the
/// up-projections are split by heads (Megatron-Core, multi_latent_attention).
void add_latent_products(const Model& model, const LatentAttention& a, const Shard& s, AttentionShape& shape) {
  if (a.query_rank > 0) {
    shape.down.push_back({.tokens = s.sequence_tokens, .in = model.hidden, .out = a.query_rank});
    shape.qkv.push_back({.tokens = s.tokens, .in = a.query_rank, .out = s.query});
  } else {
    shape.qkv.push_back({.tokens = s.tokens, .in = model.hidden, .out = s.query});
  }
  shape.down.push_back({.tokens = s.sequence_tokens, .in = model.hidden, .out = a.kv_rank + a.rope_dim});
  shape.qkv.push_back({.tokens = s.tokens, .in = a.kv_rank, .out = s.heads * (a.nope_dim + a.value_dim)});
}

AttentionShape attention_shape(const Model& model, const Plan& plan, const Training& training, const Shard& s,
                               LayerKind kind) {
  AttentionShape shape{.core = core_shape(model, plan, training, s, kind),
                       .projection = {.tokens = s.tokens, .in = s.attention, .out = model.hidden}};
  if (model.latent) {
    add_latent_products(model, *model.latent, s, shape);
  } else {
    shape.qkv.push_back({.tokens = s.tokens, .in = model.hidden, .out = s.qkv()});
  }
  return shape;
}

ExpertShape expert_shape(const Model& model, const Shard& s) {
  const Experts& e = *model.experts;
  ExpertShape shape{.router = {.tokens = s.sequence_tokens, .in = model.hidden, .out = e.count},
                    .routed = mlp_shape(model, s.expert_rows, s.expert_ffn, s.experts)};
  if (e.shared_gate) shape.gate = Linear{.tokens = s.sequence_tokens, .in = model.hidden, .out = 1};
  if (e.shared_ffn_hidden > 0) shape.shared = mlp_shape(model, s.tokens, s.shared_ffn);
  return shape;
}

/// A product into several outputs side by side, as one for each.
void add_apart(const Linear& l, std::initializer_list<std::int64_t> widths, std::vector<Linear>& to) {
  for (const std::int64_t width : widths) to.push_back({.tokens = l.tokens, .in = l.in, .out = width});
}

void add_apart(const Model& model, const MlpShape& mlp, std::vector<Linear>& to) {
  if (model.gated()) {
    add_apart(mlp.in, {mlp.out.in, mlp.out.in}, to);
  } else {
    to.push_back(mlp.in);
  }
  to.push_back(mlp.out);
}

std::vector<Linear> attention_apart(const AttentionShape& shape, const Model& model, const Shard& s) {
  std::vector<Linear> all;
  if (!model.latent) {
    add_apart(shape.qkv.front(), {s.query, s.key, s.value}, all);
  } else {  // query down, query up, keys and values down, up
    std::size_t down = 0;
    for (const Linear& up : shape.qkv) {
      const bool from_latent = up.in != model.hidden || model.latent->query_rank > 0;
      if (from_latent) all.push_back(shape.down[down++]);
      all.push_back(up);
    }
  }
  all.push_back(shape.projection);
  return all;
}

std::vector<Linear> mlp_apart(const LayerShape& shape, const Model& model) {
  std::vector<Linear> all;
  if (shape.mlp) add_apart(model, *shape.mlp, all);
  if (shape.experts && shape.experts->shared) add_apart(model, *shape.experts->shared, all);
  return all;
}

}  // namespace

double Linear::flops() const {
  return 2 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out) *
         static_cast<double>(count);
}

double keys_worked(const Model& model, const Training& training, LayerKind kind) {
  const auto length = static_cast<double>(training.sequence_length);
  if (training.attention == AttentionKernel::unfused) return length;
  return keys_met(model, model.attention_sinks ? LayerKind{} : kind, length, AttentionFlops::causal);
}

double CoreShape::flops() const { return static_cast<double>(kernels) * kernel.flops(); }

LayerShape layer_shape(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const Shard s = shard_of(model, plan, training);
  LayerShape shape{.attention = attention_shape(model, plan, training, s, kind)};
  if (kind.experts) {
    shape.experts = expert_shape(model, s);
  } else {
    shape.mlp = mlp_shape(model, s.tokens, s.ffn);
  }
  return shape;
}

Linear output_shape(const Model& model, const Shard& shard) {
  return {.tokens = shard.tokens, .in = model.hidden, .out = shard.vocabulary};
}

Linear mtp_projection_shape(const Model& model, const Plan& plan, const Shard& shard) {
  return {.tokens = shard.tokens, .in = 2 * model.hidden, .out = model.hidden / plan.tp};
}

EverySecond every_second_product(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const LayerShape shape = layer_shape(model, plan, training, kind);
  const std::vector<Linear> attention = attention_apart(shape.attention, model, shard_of(model, plan, training));
  const std::vector<Linear> mlp = mlp_apart(shape, model);
  EverySecond again;
  for (std::size_t i = 1; i < attention.size(); i += 2) again.attention.push_back(attention[i]);
  for (std::size_t i = attention.size() % 2 == 0 ? 1 : 0; i + 1 < mlp.size(); i += 2) again.mlp.push_back(mlp[i]);
  if (shape.experts) again.mlp.push_back(shape.experts->router);
  return again;
}

}  // namespace foretrain
