#include "workloads/memory.h"

#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// Bytes an element has that is kept only as the input of a matrix product: fp8 keeps the cast copy.
std::int64_t product_input_bytes(Precision precision) {
  return precision == Precision::fp8 ? 1 : activation_bytes(precision);
}

/// The table of docs/memory.md: what one layer keeps if nothing is recomputed but the selected modules. Bytes.
struct LayerTable {
  std::int64_t norm_inputs = 0;   ///< of both norms
  std::int64_t norm_outputs = 0;  ///< inputs of QKV and of FC1
  std::int64_t qkv = 0;
  std::int64_t attention_output = 0;  ///< input of the projection
  std::int64_t attention_core = 0;    ///< softmax, mask, dropout of the square; flash: one log-sum-exp a row
  std::int64_t dropout_masks = 0;
  std::int64_t activation_input = 0;
  std::int64_t activation_output = 0;  ///< input of FC2

  [[nodiscard]] std::int64_t total() const {
    return norm_inputs + norm_outputs + qkv + attention_output + attention_core + dropout_masks + activation_input +
           activation_output;
  }
};

std::int64_t attention_core_bytes(const Model& model, const Shard& s, const Training& training) {
  if (training.attention == AttentionKernel::flash) return 4 * s.heads * s.tokens;  // log-sum-exp, fp32
  // Korthikanti 2022, section 4.1: softmax output 2 bytes a score, and with dropout its mask 1 and its output 2.
  const std::int64_t e = activation_bytes(training.precision);
  return (model.dropout ? 2 * e + 1 : e) * s.heads * training.sequence_length * s.tokens;
}

LayerTable whole_table(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const std::int64_t e = activation_bytes(training.precision);
  const std::int64_t g = product_input_bytes(training.precision);
  const std::int64_t sequence = model.hidden * s.sequence_tokens;
  LayerTable t;
  t.norm_inputs = 2 * e * sequence;
  t.norm_outputs = 2 * g * sequence;
  t.qkv = e * s.qkv() * s.tokens;
  // Attention's backward wants its output in half precision; an fp8 projection keeps its cast copy beside it.
  t.attention_output = (training.precision == Precision::fp8 ? e + g : e) * s.attention * s.tokens;
  t.attention_core = attention_core_bytes(model, s, training);
  t.dropout_masks = model.dropout ? 2 * sequence : 0;
  t.activation_input = e * s.ffn_in * s.tokens;
  t.activation_output = g * s.ffn * s.tokens;
  return t;
}

LayerTable kept_table(const Model& model, const Plan& plan, const Training& training) {
  LayerTable t = whole_table(model, plan, training);
  if (recomputes(training, RecomputeModule::attention)) t.attention_core = 0;
  if (recomputes(training, RecomputeModule::norm)) t.norm_outputs = 0;
  if (recomputes(training, RecomputeModule::activation)) t.activation_output = 0;
  return t;
}

/// Weight gradients that Transformer Engine keeps as throw-away buffers, one a distinct weight shape, when it
/// accumulates into fp32 gradients inside the product (TransformerEngine pull 1651).
std::int64_t throw_away_gradients(const Model& model, const Plan& plan, const Training& training) {
  if (training.gradients != Precision::fp32 || training.precision == Precision::fp32) return 0;
  if (training.attention == AttentionKernel::unfused) return 0;  // stacks older than Transformer Engine
  const Shard s = shard_widths(model, plan);
  return 2 * model.hidden * (s.qkv() + s.attention + s.ffn_in + s.ffn);
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string_view to_text(MemoryPart part) {
  switch (part) {
    case MemoryPart::parameters:
      return "parameters";
    case MemoryPart::gradients:
      return "gradients";
    case MemoryPart::optimizer:
      return "optimizer";
    case MemoryPart::activations:
      return "activations";
    case MemoryPart::buffers:
      return "buffers";
    case MemoryPart::overhead:
      return "overhead";
  }
  return "";
}

StateBytes state_bytes(std::int64_t parameters, const Plan& plan, const Training& training) {
  const std::int64_t half = training.precision == Precision::fp32 ? 4 : 2;
  const std::int64_t gradient = gradient_bytes(training);
  // Two fp32 moments, and an fp32 master copy where the parameters are not fp32 themselves (Rajbhandari 2020, 3.1).
  const std::int64_t optimizer = training.precision == Precision::fp32 ? 8 : 12;
  const std::int64_t owned = plan.zero >= 1 ? divided_up(parameters, plan.dp * plan.cp) : parameters;
  return {.parameters = bytes(half * parameters),
          .gradients = bytes(gradient * parameters),
          .optimizer = bytes(optimizer * owned)};
}

Bytes layer_activations(const Model& model, const Plan& plan, const Training& training) {
  if (training.recompute == Recompute::full) {  // only the layer's input (Korthikanti 2022, section 4)
    const Shard s = shard_of(model, plan, training);
    return bytes(activation_bytes(training.precision) * model.hidden * s.sequence_tokens);
  }
  return bytes(kept_table(model, plan, training).total());
}

Bytes embedding_activations(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  return bytes(model.dropout ? model.hidden * s.sequence_tokens : 0);  // the mask, 1 byte an element
}

Bytes output_activations(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  // Megatron's unfused loss: logits in half precision 2, their fp32 copy 4, softmax 4.
  constexpr std::int64_t logit_bytes = 10;
  const std::int64_t norm = 2 * activation_bytes(training.precision) * model.hidden * s.sequence_tokens;
  return bytes(norm + logit_bytes * s.tokens * s.vocabulary);
}

Bytes backward_transient(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const std::int64_t e = activation_bytes(training.precision);
  // Gradients of the activation's inputs and output, of the layer's input, and the gathered input of a product.
  const std::int64_t activation = e * (s.ffn_in + s.ffn) * s.tokens;
  const std::int64_t input = e * model.hidden * s.sequence_tokens;
  const std::int64_t gathered = plan.sequence_parallel ? e * model.hidden * s.tokens : 0;
  return bytes(activation + input + gathered + throw_away_gradients(model, plan, training));
}

Bytes recompute_transient(const Model& model, const Plan& plan, const Training& training) {
  const std::int64_t whole = whole_table(model, plan, training).total();
  switch (training.recompute) {
    case Recompute::none:
      return bytes(0);
    case Recompute::selective:
      return bytes(whole - kept_table(model, plan, training).total());
    case Recompute::full:
      return bytes(whole);
  }
  return bytes(0);
}

Bytes overhead_bytes(Bytes allocated) {
  // The caching allocator reserves 6.5 % more than the tensors (measured 3 to 8 % in torchtitan, SimuMax, Megatron
  // Bridge); CUDA context, kernels and NCCL's channels take some 5.3 GB (BigScience on A100).
  constexpr double allocator_slack = 0.065;
  constexpr double context_bytes = 5.3e9;
  return bytes_rounded(allocator_slack * static_cast<double>(allocated.count()) + context_bytes);
}

}  // namespace foretrain
