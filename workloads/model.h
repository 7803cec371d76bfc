// Model: the architecture of a decoder-only transformer, and exact counts of its parameters and FLOPs.
//
//   Model m = ...llama3-405b...;
//   m.parameters() == 405'853'388'800;
//   m.kind_of(0).experts;                    // whether layer 0 is a mixture of experts
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace foretrain {

/// Weight and bias; weight only; neither (OLMo 1).
enum class Norm : std::uint8_t { layernorm, rmsnorm, layernorm_plain };
/// Two matrices; three (gate, up, down) with a SiLU or a GELU gate.
enum class Activation : std::uint8_t { gelu, swiglu, geglu };
enum class Positions : std::uint8_t { learned, rotary, alibi };

inline constexpr Norm all_norms[] = {Norm::layernorm, Norm::rmsnorm, Norm::layernorm_plain};
inline constexpr Activation all_activations[] = {Activation::gelu, Activation::swiglu, Activation::geglu};
inline constexpr Positions all_positions[] = {Positions::learned, Positions::rotary, Positions::alibi};

[[nodiscard]] std::string_view to_text(Norm);
[[nodiscard]] std::string_view to_text(Activation);
[[nodiscard]] std::string_view to_text(Positions);

/// Which linear layers add a bias. The router's is that of GPT-OSS (in the score) and DeepSeek V3 (a correction of it).
struct Biases {
  bool qkv = false;
  bool projection = false;
  bool mlp = false;
  bool router = false;
  friend bool operator==(const Biases&, const Biases&) = default;
};
inline constexpr Biases all_biases{.qkv = true, .projection = true, .mlp = true, .router = true};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). Q and K have `nope_dim + rope_dim` a head,
/// V and the output `value_dim`; the rotary part of K is shared by all heads.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< width of the compressed query; 0: the query is projected directly
  std::int64_t kv_rank = 0;     ///< width of the compressed keys and values
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A mixture of experts in place of the MLP.
struct Experts {
  std::int64_t count = 0;
  std::int64_t topk = 0;
  std::int64_t ffn_hidden = 0;         ///< of one expert
  std::int64_t shared_ffn_hidden = 0;  ///< of all shared experts together; 0: none
  bool shared_gate = false;      ///< a sigmoid gate on the shared expert (Qwen 1.5 and 2 MoE): `hidden` parameters
  std::int64_t first_dense = 0;  ///< this many layers at the start keep the dense MLP
  std::int64_t every = 1;        ///< of the rest, every k-th layer has experts (the last of each k)
  std::int64_t group_limit = 0;  ///< a token's experts lie in at most this many device groups (DeepSeek V3: 4); 0: any
  friend bool operator==(const Experts&, const Experts&) = default;
};

/// Attention to the last `tokens` only. With `full_every` k, every k-th layer (the last of each k) attends to all:
/// Gemma 2 and GPT-OSS alternate (2), Mistral 7B never does (0).
struct SlidingWindow {
  std::int64_t tokens = 0;
  std::int64_t full_every = 0;
  friend bool operator==(const SlidingWindow&, const SlidingWindow&) = default;
};

/// What distinguishes layers of one model.
struct LayerKind {
  bool experts = false;   ///< mixture of experts instead of the dense MLP
  bool windowed = false;  ///< sliding-window attention
  auto operator<=>(const LayerKind&) const = default;
  [[nodiscard]] std::size_t index() const { return (experts ? 1U : 0U) + (windowed ? 2U : 0U); }
};
inline constexpr std::size_t layer_kind_count = 4;
inline constexpr std::array<LayerKind, layer_kind_count> all_layer_kinds = {
    LayerKind{false, false}, LayerKind{true, false}, LayerKind{false, true}, LayerKind{true, true}};

struct Model {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;  ///< of the dense MLP
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  ///< learned positions only
  Norm norm = Norm::layernorm;
  Activation activation = Activation::gelu;
  Positions positions = Positions::learned;
  Biases biases = all_biases;
  bool dropout = true;           ///< keeps masks for backward
  bool tied_embeddings = true;   ///< output layer shares the input embedding
  bool qk_norm = false;          ///< norm over each head of Q and K (Qwen 3)
  bool post_norms = false;       ///< norms behind attention and MLP as well (Gemma 2)
  bool single_norm = false;      ///< attention and MLP beside each other behind one norm (Falcon 7B)
  bool embedding_norm = false;   ///< behind the embedding (BLOOM)
  bool attention_sinks = false;  ///< a learned logit a head (GPT-OSS)
  std::optional<LatentAttention> latent;
  std::optional<Experts> experts;
  std::optional<SlidingWindow> window;
  std::int64_t mtp_layers = 0;  ///< modules that predict further tokens (DeepSeek-V3, arXiv 2412.19437, section 2.2)
  bool qk_norm_wide = false;    ///< with `qk_norm`: over all heads together, a weight an element (OLMo 2)

  [[nodiscard]] bool gated() const { return activation != Activation::gelu; }
  /// Elements a token: Q; K; V; what goes into the projection.
  [[nodiscard]] std::int64_t query_width() const { return heads * qk_dim(); }
  [[nodiscard]] std::int64_t key_width() const { return kv_heads * qk_dim(); }
  [[nodiscard]] std::int64_t value_width() const { return kv_heads * value_dim(); }
  [[nodiscard]] std::int64_t attention_width() const { return heads * value_dim(); }
  /// Elements a head of Q and K; of V.
  [[nodiscard]] std::int64_t qk_dim() const { return latent ? latent->nope_dim + latent->rope_dim : head_dim; }
  [[nodiscard]] std::int64_t value_dim() const { return latent ? latent->value_dim : head_dim; }

  /// Layers past the last are those of the MTP modules: of the last one's kind.
  [[nodiscard]] LayerKind kind_of(std::int64_t layer) const;

  /// Exact, unpadded, over the whole model; MTP modules not among them.
  [[nodiscard]] std::int64_t parameters() const;
  /// Those that one token meets: of the routed experts, `topk`.
  [[nodiscard]] std::int64_t active_parameters() const;
  [[nodiscard]] std::int64_t layer_parameters(LayerKind kind) const;
  /// Of one norm over `width` elements.
  [[nodiscard]] std::int64_t norm_parameters(std::int64_t width) const;
  /// Norms over `hidden` in a layer.
  [[nodiscard]] std::int64_t layer_norms() const {
    const std::int64_t norms = single_norm ? 1 : 2;
    return post_norms ? 2 * norms : norms;
  }
  [[nodiscard]] std::int64_t head_norm_parameters() const;  ///< of Q and K
  /// What routes tokens: the router and the shared experts' gate. Requires experts.
  [[nodiscard]] std::int64_t router_parameters() const;
  [[nodiscard]] std::int64_t embedding_parameters() const;  ///< tokens and learned positions, norm of the embedding
  [[nodiscard]] std::int64_t output_parameters() const;     ///< final norm, and the head if untied
  /// Of the MTP modules: a layer each, two norms, the projection of both inputs, the norm before the shared head.
  [[nodiscard]] std::int64_t mtp_parameters() const;
};

enum class AttentionFlops : std::uint8_t { full, causal };

/// Keys that a query of a layer meets on average in `sequence_length`: what the causal mask and the window leave of
/// them
/// (`causal`), or twice that (`full`).
[[nodiscard]] double keys_met(const Model& model, LayerKind kind, double sequence_length, AttentionFlops convention);

/// Forward FLOPs of one sequence: 2 a multiply-add, matrix products only (Narayanan 2021, section 5.1). `full` counts
/// the whole attention square, `causal` half of it; a sliding window counts what it covers of either.
struct ForwardFlops {
  double linear = 0;     ///< QKV, projection, MLP, router and chosen experts of all layers
  double attention = 0;  ///< scores and values of all layers
  double logits = 0;     ///< output layer
  double mtp = 0;        ///< further predictions: their layers, projections and logits
  [[nodiscard]] double total() const { return linear + attention + logits + mtp; }
};
[[nodiscard]] ForwardFlops forward_flops(const Model& model, std::int64_t sequence_length, AttentionFlops convention);

/// Forward and backward of a step: three times the forward.
[[nodiscard]] double step_flops(const Model& model, std::int64_t sequence_length, std::int64_t sequences,
                                AttentionFlops convention);

}  // namespace foretrain
