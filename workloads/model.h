// Model: the architecture of a dense decoder-only transformer, and exact counts of its parameters and FLOPs.
//
//   Model m = ...llama3-405b...;
//   m.parameters() == 405'853'388'800;
#pragma once

#include <cstdint>
#include <string>

namespace foretrain {

enum class Norm : std::uint8_t { layernorm, rmsnorm };  ///< weight and bias; weight only
enum class Activation : std::uint8_t { gelu, swiglu };  ///< two matrices; three (gate, up, down)
enum class Positions : std::uint8_t { learned, rotary };

struct Model {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  ///< learned positions only
  Norm norm = Norm::layernorm;
  Activation activation = Activation::gelu;
  Positions positions = Positions::learned;
  bool biases = true;           ///< on every linear layer
  bool dropout = true;          ///< keeps masks for backward
  bool tied_embeddings = true;  ///< output layer shares the input embedding

  [[nodiscard]] std::int64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_dim; }
  [[nodiscard]] bool gated() const { return activation == Activation::swiglu; }

  /// Exact, unpadded, over the whole model.
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] std::int64_t layer_parameters() const;
  [[nodiscard]] std::int64_t embedding_parameters() const;  ///< tokens and learned positions
  [[nodiscard]] std::int64_t output_parameters() const;     ///< final norm, and the head if untied
};

enum class AttentionFlops : std::uint8_t { full, causal };

/// Forward FLOPs of one sequence: 2 a multiply-add, matrix products only (Narayanan 2021, section 5.1). `full` counts
/// the whole attention square, `causal` half of it.
struct ForwardFlops {
  double linear = 0;     ///< QKV, projection, MLP of all layers
  double attention = 0;  ///< scores and values of all layers
  double logits = 0;     ///< output layer
  [[nodiscard]] double total() const { return linear + attention + logits; }
};
[[nodiscard]] ForwardFlops forward_flops(const Model& model, std::int64_t sequence_length, AttentionFlops convention);

/// Forward and backward of a step: three times the forward.
[[nodiscard]] double step_flops(const Model& model, std::int64_t sequence_length, std::int64_t sequences,
                                AttentionFlops convention);

}  // namespace foretrain
