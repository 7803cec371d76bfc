#include "workloads/memory/layer_table.h"

#include <algorithm>
#include <cmath>

#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

std::int64_t attention_core_bytes(const Model& model, const Shard& s, const Training& training) {
  if (training.attention == AttentionKernel::flash) return 4 * s.heads * s.tokens;  // log-sum-exp, fp32
  // Korthikanti 2022, section 4.1: softmax output 2 bytes a score, and with dropout its mask 1 and its output 2.
  const std::int64_t e = activation_bytes(training.precision);
  return (model.dropout ? 2 * e + 1 : e) * s.heads * training.sequence_length * s.tokens;
}

void add_attention(LayerTable& t, const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const AttentionWidths w = attention_widths(model, plan);
  const std::int64_t e = activation_bytes(training.precision);
  t.attention_norm_input = e * model.hidden * s.sequence_tokens;
  // Nanotron saves what it gathered for the product, not the shard.
  const bool gathered = training.stack.framework == Framework::nanotron;
  t.attention_norm_output = product_input(training.precision, model.hidden * (gathered ? s.tokens : s.sequence_tokens));
  t.qkv = e * (w.qkv() + (model.qk_norm ? w.query + w.key : 0)) * s.tokens;
  if (model.latent) {
    const LatentAttention& a = *model.latent;
    t.latents = e * (2 * a.query_rank + (a.kv_rank + a.rope_dim) + a.kv_rank) * s.tokens;
  }
  // Attention's backward wants its output in half precision; a quantised projection keeps its cast copy beside it.
  t.attention_output = e * w.output * s.tokens;
  if (quantised(training.precision)) t.attention_output += product_input(training.precision, w.output * s.tokens);
  t.attention_core = attention_core_bytes(model, s, training);
}

void add_dense_mlp(LayerTable& t, const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const std::int64_t e = activation_bytes(training.precision);
  const std::int64_t inputs = model.gated() && unfused_gate(training) ? 3 * s.ffn : s.ffn_in;
  t.activation_input = e * inputs * s.tokens;
  t.activation_output = product_input(training.precision, s.ffn * s.tokens);
}

void add_experts(LayerTable& t, const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const Experts& x = *model.experts;
  const std::int64_t e = activation_bytes(training.precision);
  const std::int64_t tokens = expert_tokens(model, plan, training);
  const std::int64_t ffn = x.ffn_hidden / plan.etp;
  const std::int64_t inputs = model.gated() ? (unfused_gate(training) ? 3 : 2) : 1;
  t.activation_input = e * inputs * ffn * tokens;
  t.activation_output = product_input(training.precision, ffn * tokens);
  // Scores and probabilities in fp32 and a mask for every expert; 16 bytes for each token sent (SimuMax).
  t.router = 9 * x.count * s.sequence_tokens + 16 * tokens;
  t.permuted = product_input(training.precision, model.hidden * tokens);
  const std::int64_t shared = x.shared_ffn_hidden / plan.tp * s.tokens;
  t.shared = e * inputs * shared + product_input(training.precision, shared);
}

/// FSDP's policy "selective per operator" (torchtitan): the block's input, every second product (Q, V, gate; not K, the
/// projection, up) and attention's output are kept. The product before the block's end, down, is kept as well, unless a
/// compiler sees that nobody reads it.
LayerTable every_second_product(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const LayerTable whole = whole_table(model, plan, training, kind);
  const Shard s = shard_of(model, plan, training);
  const AttentionWidths w = attention_widths(model, plan);
  const std::int64_t e = activation_bytes(training.precision);
  LayerTable t;
  t.attention_norm_input = whole.attention_norm_input;
  t.qkv = e * (w.query + w.value) * s.tokens;
  t.attention_output = whole.attention_output;
  t.attention_core = whole.attention_core;
  t.activation_input = e * (kind.experts ? model.experts->ffn_hidden / plan.etp * expert_tokens(model, plan, training)
                                         : s.ffn * s.tokens);
  if (!training.compiled) t.activation_output = e * model.hidden * s.sequence_tokens;
  return t;
}

}  // namespace

std::int64_t product_input(Precision precision, std::int64_t elements) {
  if (precision == Precision::fp8) return elements;
  if (precision == Precision::fp4) return elements / 2 + elements / 16;  // a scale of a byte for 16 elements
  return activation_bytes(precision) * elements;
}

AttentionWidths attention_widths(const Model& model, const Plan& plan) {
  const Shard s = shard_widths(model, plan);
  return {.query = s.heads * model.qk_dim(),
          .key = s.kv_heads * model.qk_dim(),
          .value = s.kv_heads * model.value_dim(),
          .output = s.heads * model.value_dim()};
}

std::int64_t expert_tokens(const Model& model, const Plan& plan, const Training& training) {
  const std::int64_t tokens = training.microbatch * training.sequence_length / plan.cp;
  const std::int64_t balanced = tokens * model.experts->topk * plan.etp / plan.tp;
  return std::llround(static_cast<double>(balanced) * expert_load(plan));
}

bool unfused_gate(const Training& training) {
  return training.stack.framework == Framework::nanotron ||
         (training.stack.framework == Framework::fsdp && !training.compiled);
}

LayerTable whole_table(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const Shard s = shard_of(model, plan, training);
  LayerTable t;
  add_attention(t, model, plan, training);
  if (!model.single_norm) {  // else attention and MLP share input and output of their norm
    t.mlp_norm_input = t.attention_norm_input;
    t.mlp_norm_output = t.attention_norm_output;
  }
  if (kind.experts) {
    add_experts(t, model, plan, training);
    // Router and shared experts take it in half precision.
    t.mlp_norm_output = activation_bytes(training.precision) * model.hidden * s.sequence_tokens;
  } else {
    add_dense_mlp(t, model, plan, training);
  }
  if (model.post_norms) t.post_norm_inputs = 2 * t.attention_norm_input;
  t.dropout_masks = model.dropout ? 2 * model.hidden * s.sequence_tokens : 0;
  return t;
}

LayerTable kept_table(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  if (recomputes(training, RecomputeModule::matmul)) return every_second_product(model, plan, training, kind);
  LayerTable t = whole_table(model, plan, training, kind);
  if (recomputes(training, RecomputeModule::attention)) t.attention_core = 0;
  if (recomputes(training, RecomputeModule::norm)) t.attention_norm_output = t.mlp_norm_output = 0;
  if (recomputes(training, RecomputeModule::activation)) t.activation_output = 0;
  if (recomputes(training, RecomputeModule::projection)) {
    t.mlp_norm_input = 0;
    if (recomputes(training, RecomputeModule::attention)) t.attention_output = 0;
  }
  if (recomputes(training, RecomputeModule::latent) && model.latent) t.qkv = 0;
  if (recomputes(training, RecomputeModule::mlp) && !kind.experts) t.activation_input = t.activation_output = 0;
  if (recomputes(training, RecomputeModule::experts) && kind.experts)
    t.activation_input = t.activation_output = t.router = t.permuted = t.shared = 0;
  return t;
}

std::int64_t weight_operands(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const LayerTable t = whole_table(model, plan, training, kind);
  const Shard s = shard_of(model, plan, training);
  const AttentionWidths w = attention_widths(model, plan);
  const std::int64_t e = activation_bytes(training.precision);
  const auto input = [&](std::int64_t elements) { return product_input(training.precision, elements); };
  const std::int64_t sequence = e * model.hidden * s.sequence_tokens;  // gradient of the projection's or FC2's output
  // A latent behind its norm is an input, and before it an output whose gradient waits.
  const std::int64_t attention =
      t.attention_norm_output + t.latents + e * w.qkv() * s.tokens + input(w.output * s.tokens) + sequence;
  const std::int64_t gate_up = model.gated() ? 2 : 1;
  const auto activation = [&](std::int64_t elements) { return e * gate_up * elements + input(elements); };
  if (!kind.experts) return attention + t.mlp_norm_output + activation(s.ffn * s.tokens) + sequence;
  const Experts& x = *model.experts;
  const std::int64_t tokens = expert_tokens(model, plan, training);
  const std::int64_t routed = t.permuted + activation(x.ffn_hidden / plan.etp * tokens) + e * model.hidden * tokens;
  const std::int64_t shared = activation(x.shared_ffn_hidden / plan.tp * s.tokens);
  return attention + t.mlp_norm_output + routed + shared + sequence;
}

}  // namespace foretrain
