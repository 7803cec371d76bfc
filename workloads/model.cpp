#include "workloads/model.h"

#include <algorithm>
#include <string_view>

namespace foretrain {
namespace {

/// A linear layer from `in` to `out` features.
std::int64_t linear_parameters(std::int64_t in, std::int64_t out, bool bias) { return in * out + (bias ? out : 0); }

/// Gate and up side by side, or up alone; then down.
std::int64_t mlp_parameters(const Model& model, std::int64_t ffn) {
  const std::int64_t in = model.gated() ? 2 * ffn : ffn;
  return linear_parameters(model.hidden, in, model.biases.mlp) + linear_parameters(ffn, model.hidden, model.biases.mlp);
}

/// DeepSeek-V2, section 2.1: queries and keys/values each through a narrow latent with a norm of its own.
std::int64_t latent_projections(const Model& m, const LatentAttention& a) {
  const std::int64_t query =
      a.query_rank > 0 ? m.hidden * a.query_rank + m.norm_parameters(a.query_rank) + a.query_rank * m.query_width()
                       : m.hidden * m.query_width();
  const std::int64_t down = m.hidden * (a.kv_rank + a.rope_dim) + m.norm_parameters(a.kv_rank);
  return query + down + a.kv_rank * m.heads * (a.nope_dim + a.value_dim);
}

std::int64_t attention_parameters(const Model& m) {
  const std::int64_t in =
      m.latent ? latent_projections(m, *m.latent)
               : linear_parameters(m.hidden, m.query_width() + m.key_width() + m.value_width(), m.biases.qkv);
  const std::int64_t sinks = m.attention_sinks ? m.heads : 0;
  return in + linear_parameters(m.attention_width(), m.hidden, m.biases.projection) + m.head_norm_parameters() + sinks;
}

std::int64_t experts_parameters(const Model& m, const Experts& e, std::int64_t routed) {
  const std::int64_t shared = e.shared_ffn_hidden > 0 ? mlp_parameters(m, e.shared_ffn_hidden) : 0;
  return m.router_parameters() + shared + routed * mlp_parameters(m, e.ffn_hidden);
}

/// Of one layer, with `routed` experts counted.
std::int64_t layer_parameters_with(const Model& m, LayerKind kind, std::int64_t routed) {
  const std::int64_t mlp = kind.experts ? experts_parameters(m, *m.experts, routed) : mlp_parameters(m, m.ffn_hidden);
  return attention_parameters(m) + mlp + m.layer_norms() * m.norm_parameters(m.hidden);
}

std::int64_t parameters_with(const Model& m, std::int64_t routed) {
  std::int64_t sum = m.embedding_parameters() + m.output_parameters();
  for (std::int64_t layer = 0; layer < m.layers; ++layer) sum += layer_parameters_with(m, m.kind_of(layer), routed);
  return sum;
}

/// The kind of the layer inside an MTP module: that of the model's last layer.
LayerKind mtp_kind(const Model& m) { return m.kind_of(m.layers - 1); }

struct LayerFlops {
  double linear = 0, attention = 0;
};

/// Matrix products of a forward, a token.
double mlp_products(const Model& m, std::int64_t ffn) {
  return (m.gated() ? 3.0 : 2.0) * static_cast<double>(m.hidden * ffn);
}

double attention_products(const Model& m) {
  const double out = static_cast<double>(m.attention_width() * m.hidden);
  if (!m.latent) return static_cast<double>(m.hidden * (m.query_width() + m.key_width() + m.value_width())) + out;
  const LatentAttention& a = *m.latent;
  const std::int64_t query =
      a.query_rank > 0 ? a.query_rank * (m.hidden + m.query_width()) : m.hidden * m.query_width();
  const std::int64_t kv = m.hidden * (a.kv_rank + a.rope_dim) + a.kv_rank * m.heads * (a.nope_dim + a.value_dim);
  return static_cast<double>(query + kv) + out;
}

LayerFlops layer_flops(const Model& m, LayerKind kind, double s, AttentionFlops convention) {
  double products = attention_products(m);
  if (kind.experts) {
    const Experts& e = *m.experts;
    products += static_cast<double>(m.hidden * e.count) + static_cast<double>(e.topk) * mlp_products(m, e.ffn_hidden) +
                mlp_products(m, e.shared_ffn_hidden) + (e.shared_gate ? static_cast<double>(m.hidden) : 0);
  } else {
    products += mlp_products(m, m.ffn_hidden);
  }
  const auto widths = static_cast<double>(m.query_width() + m.attention_width());  // scores Q K^T, then values P V
  return {.linear = 2 * s * products, .attention = 2 * s * keys_met(m, kind, s, convention) * widths};
}

}  // namespace

std::string_view to_text(Norm norm) {
  switch (norm) {
    case Norm::layernorm:
      return "layernorm";
    case Norm::rmsnorm:
      return "rmsnorm";
    case Norm::layernorm_plain:
      return "layernorm_plain";
  }
  return "";
}

std::string_view to_text(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::swiglu:
      return "swiglu";
    case Activation::geglu:
      return "geglu";
  }
  return "";
}

std::string_view to_text(Positions positions) {
  switch (positions) {
    case Positions::learned:
      return "learned";
    case Positions::rotary:
      return "rotary";
    case Positions::alibi:
      return "alibi";
  }
  return "";
}

LayerKind Model::kind_of(std::int64_t layer) const {
  if (layers > 0) layer = std::min(layer, layers - 1);
  LayerKind kind;
  if (experts && layer >= experts->first_dense) kind.experts = (layer - experts->first_dense + 1) % experts->every == 0;
  if (window) kind.windowed = window->full_every == 0 || (layer + 1) % window->full_every != 0;
  return kind;
}

std::int64_t Model::norm_parameters(std::int64_t width) const {
  switch (norm) {
    case Norm::layernorm:
      return 2 * width;
    case Norm::rmsnorm:
      return width;
    case Norm::layernorm_plain:
      return 0;
  }
  return 0;
}

std::int64_t Model::head_norm_parameters() const {
  if (!qk_norm) return 0;
  return qk_norm_wide ? norm_parameters(query_width()) + norm_parameters(key_width()) : 2 * norm_parameters(qk_dim());
}

std::int64_t Model::router_parameters() const {
  return linear_parameters(hidden, experts->count, biases.router) + (experts->shared_gate ? hidden : 0);
}

std::int64_t Model::layer_parameters(LayerKind kind) const {
  return layer_parameters_with(*this, kind, experts ? experts->count : 0);
}

std::int64_t Model::embedding_parameters() const {
  return hidden * (vocabulary + (positions == Positions::learned ? max_positions : 0)) +
         (embedding_norm ? norm_parameters(hidden) : 0);
}

std::int64_t Model::output_parameters() const {
  return norm_parameters(hidden) + (tied_embeddings ? 0 : hidden * vocabulary);
}

std::int64_t Model::parameters() const { return parameters_with(*this, experts ? experts->count : 0); }

std::int64_t Model::active_parameters() const { return parameters_with(*this, experts ? experts->topk : 0); }

std::int64_t Model::mtp_parameters() const {
  if (mtp_layers == 0) return 0;
  return mtp_layers * (layer_parameters(mtp_kind(*this)) + 3 * norm_parameters(hidden) + 2 * hidden * hidden);
}

double keys_met(const Model& model, LayerKind kind, double s, AttentionFlops convention) {
  const double w = kind.windowed ? std::min(static_cast<double>(model.window->tokens), s) : s;
  // Causal: query i meets min(i, w) keys; the mean over i of that is w - w^2 / 2s. Full counts twice as many.
  const double causal = w - w * w / (2 * s);
  return convention == AttentionFlops::causal ? causal : 2 * causal;
}

ForwardFlops forward_flops(const Model& model, std::int64_t sequence_length, AttentionFlops convention) {
  const auto s = static_cast<double>(sequence_length);
  const auto h = static_cast<double>(model.hidden);
  ForwardFlops f;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const LayerFlops one = layer_flops(model, model.kind_of(layer), s, convention);
    f.linear += one.linear;
    f.attention += one.attention;
  }
  f.logits = 2 * s * h * static_cast<double>(model.vocabulary);
  if (model.mtp_layers > 0) {
    const LayerFlops one = layer_flops(model, mtp_kind(model), s, convention);
    f.mtp = static_cast<double>(model.mtp_layers) * (one.linear + one.attention + 2 * s * 2 * h * h + f.logits);
  }
  return f;
}

double step_flops(const Model& model, std::int64_t sequence_length, std::int64_t sequences, AttentionFlops convention) {
  // Every matrix product of the forward has two in backward, one for each operand's gradient.
  return 3 * forward_flops(model, sequence_length, convention).total() * static_cast<double>(sequences);
}

}  // namespace foretrain
