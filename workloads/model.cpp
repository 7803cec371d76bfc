#include "workloads/model.h"

namespace foretrain {
namespace {

std::int64_t norm_parameters(const Model& model) {
  return model.norm == Norm::layernorm ? 2 * model.hidden : model.hidden;
}

/// A linear layer from `in` to `out` features.
std::int64_t linear_parameters(const Model& model, std::int64_t in, std::int64_t out) {
  return in * out + (model.biases ? out : 0);
}

/// Width of the first MLP matrix: gate and up side by side, or up alone.
std::int64_t ffn_in_width(const Model& model) { return model.gated() ? 2 * model.ffn_hidden : model.ffn_hidden; }

}  // namespace

std::int64_t Model::layer_parameters() const {
  const std::int64_t attention = linear_parameters(*this, hidden, query_width() + 2 * kv_width()) +
                                 linear_parameters(*this, query_width(), hidden);
  const std::int64_t mlp =
      linear_parameters(*this, hidden, ffn_in_width(*this)) + linear_parameters(*this, ffn_hidden, hidden);
  return attention + mlp + 2 * norm_parameters(*this);
}

std::int64_t Model::embedding_parameters() const {
  return hidden * (vocabulary + (positions == Positions::learned ? max_positions : 0));
}

std::int64_t Model::output_parameters() const {
  return norm_parameters(*this) + (tied_embeddings ? 0 : hidden * vocabulary);
}

std::int64_t Model::parameters() const {
  return layers * layer_parameters() + embedding_parameters() + output_parameters();
}

ForwardFlops forward_flops(const Model& model, std::int64_t sequence_length, AttentionFlops convention) {
  const auto s = static_cast<double>(sequence_length);
  const auto l = static_cast<double>(model.layers);
  const auto h = static_cast<double>(model.hidden);
  const auto q = static_cast<double>(model.query_width());
  const auto k = static_cast<double>(model.kv_width());
  const auto f = static_cast<double>(model.ffn_hidden);
  const double mlp_matrices = model.gated() ? 3 : 2;
  const double counted = convention == AttentionFlops::causal ? 0.5 : 1.0;
  return {.linear = 2 * s * l * (h * (q + 2 * k) + q * h + mlp_matrices * h * f),
          .attention = counted * 2 * (2 * s * s * q) * l,  // scores Q K^T, then values P V
          .logits = 2 * s * h * static_cast<double>(model.vocabulary)};
}

double step_flops(const Model& model, std::int64_t sequence_length, std::int64_t sequences, AttentionFlops convention) {
  // Every matrix product of the forward has two in backward, one for each operand's gradient.
  return 3 * forward_flops(model, sequence_length, convention).total() * static_cast<double>(sequences);
}

}  // namespace foretrain
