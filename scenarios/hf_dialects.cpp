#include "scenarios/hf_dialects.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

// --- what the families share ------------------------------------------------------------------------------------

/// Whether training drops anything out, by any of the keys that say so.
bool drops_out(const HfKeys& keys, bool usual) {
  bool any = false, said = false;
  for (const std::string_view key : {"attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop",
                                     "resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "resid_dropout"}) {
    said = said || keys.given({key});
    any = keys.positive(key) || any;
  }
  return said ? any : usual;
}

enum class Gate : std::uint8_t { none, gated };

/// Of `hidden_act` and its kin: GELU and its approximations cost the same.
Activation activation_of(const HfKeys& keys, Gate gate) {
  const std::string word = keys.text({"hidden_activation", "hidden_act", "activation_function", "activation"});
  const bool gelu = word.empty() || word.starts_with("gelu") || word == "quick_gelu" || word == "bloom_gelu";
  const bool silu = word.empty() || word == "silu" || word == "swish";
  if (gate == Gate::none) {
    if (!gelu) keys.note(fmt::format("assumed: activation '{}' costs what gelu costs", shown(word)));
    return Activation::gelu;
  }
  if (silu) return Activation::swiglu;
  if (!gelu) keys.note(fmt::format("assumed: activation '{}' costs what silu costs", shown(word)));
  return gelu ? Activation::geglu : Activation::swiglu;
}

void read_heads(const HfKeys& keys, Model& m) {
  m.heads = keys.integer({"num_attention_heads", "n_head", "n_heads"}, model_limits::heads);
  m.kv_heads = m.heads;
}

/// `head_dim`, else hidden / heads.
void read_head_dim(const HfKeys& keys, Model& m) {
  if (m.hidden % m.heads != 0 && !keys.given({"head_dim"})) {
    keys.refuse(keys.given({"num_attention_heads"}) ? "num_attention_heads" : "n_head",
                fmt::format("{} heads do not divide hidden_size {}; allowed: a divisor of it, or head_dim given",
                            m.heads, m.hidden));
  }
  m.head_dim = keys.integer({"head_dim"}, model_limits::heads, std::max<std::int64_t>(m.hidden / m.heads, 1), false);
}

/// Layers, width, heads and vocabulary, under any of their names.
Model shape(const HfKeys& keys) {
  Model m;
  m.name = "custom";
  m.layers = keys.integer({"num_hidden_layers", "n_layer", "num_layers", "n_layers"}, model_limits::layers);
  m.hidden = keys.integer({"hidden_size", "n_embd", "n_embed", "d_model"}, model_limits::width);
  m.vocabulary = keys.integer({"vocab_size"}, model_limits::tokens);
  read_heads(keys, m);
  m.dropout = drops_out(keys, false);
  return m;
}

/// Llama and all that follow it: RMS norms, a gated MLP, rotary positions, no biases, an untied head.
Model llama_like(const HfKeys& keys) {
  Model m = shape(keys);
  m.kv_heads = keys.integer({"num_key_value_heads"}, model_limits::heads, m.heads, false);
  m.ffn_hidden = keys.integer({"intermediate_size"}, model_limits::ffn);
  m.norm = Norm::rmsnorm;
  m.activation = activation_of(keys, Gate::gated);
  m.positions = Positions::rotary;
  const bool attention = keys.boolean({"attention_bias"}, false);
  m.biases = {.qkv = attention, .projection = attention, .mlp = keys.boolean({"mlp_bias"}, false)};
  m.tied_embeddings = keys.boolean({"tie_word_embeddings"}, false);
  return m;
}

/// GPT-2 and all that follow it: layer norms, a plain MLP of 4 times the width, biases, a tied head.
Model gpt_like(const HfKeys& keys) {
  Model m = shape(keys);
  read_head_dim(keys, m);
  m.ffn_hidden = keys.integer({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"}, model_limits::ffn,
                              4 * m.hidden, false);
  m.norm = Norm::layernorm;
  m.activation = activation_of(keys, Gate::none);
  m.biases = all_biases;
  m.tied_embeddings = keys.boolean({"tie_word_embeddings"}, true);
  return m;
}

/// Every layer is windowed if the key says a window at all.
void read_window(const HfKeys& keys, Model& m) {
  if (keys.given({"sliding_window"}))
    m.window = SlidingWindow{.tokens = keys.integer({"sliding_window"}, model_limits::tokens)};
}

// --- which layers -----------------------------------------------------------------------------------------------

using Layers = std::vector<bool>;

/// `first_dense` and `every` that give exactly these layers experts; nothing if none do.
std::optional<Experts> with_pattern(Experts e, const Layers& layers) {
  const auto first = std::find(layers.begin(), layers.end(), true);
  const auto second = first == layers.end() ? first : std::find(first + 1, layers.end(), true);
  // One such layer alone: the next would be behind the last.
  e.every = std::max<std::int64_t>(second - first, 1);
  e.first_dense = (first - layers.begin()) - e.every + 1;
  if (first == layers.end() || e.first_dense < 0) return std::nullopt;
  Model m;
  m.experts = e;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (m.kind_of(static_cast<std::int64_t>(i)).experts != layers[i]) return std::nullopt;
  }
  return e;
}

/// Lays the experts onto the layers that `layers` names, or refuses at `key`; a model without any stays dense.
void place_experts(const HfKeys& keys, Model& m, const Experts& e, const Layers& layers, std::string_view key) {
  if (std::find(layers.begin(), layers.end(), true) == layers.end()) return;
  m.experts = with_pattern(e, layers);
  if (!m.experts) {
    keys.refuse(key,
                "these layers with experts follow no rule of ours; allowed: dense layers first, then every k-th with "
                "experts");
  }
}

/// `layer_types`: which layers attend to a window.
void read_layer_types(const HfKeys& keys, Model& m, std::int64_t usual_full_every) {
  if (!m.window) return;
  m.window->full_every = usual_full_every;
  const YamlNode* types = keys.list("layer_types");
  if (types == nullptr) return;
  Layers windowed;
  for (const YamlNode& type : types->items) {
    if (type.scalar != "sliding_attention" && type.scalar != "full_attention") {
      keys.refuse("layer_types", fmt::format("found {}; allowed: sliding_attention, full_attention", described(type)));
      return;
    }
    windowed.push_back(type.scalar == "sliding_attention");
  }
  if (static_cast<std::int64_t>(windowed.size()) != m.layers) {
    keys.refuse("layer_types", fmt::format("{} types for {} layers; allowed: one a layer", windowed.size(), m.layers));
    return;
  }
  const auto full = std::find(windowed.begin(), windowed.end(), false);
  if (full == windowed.begin() && std::find(windowed.begin(), windowed.end(), true) == windowed.end()) {
    m.window.reset();
    return;
  }
  m.window->full_every = full == windowed.end() ? 0 : full - windowed.begin() + 1;
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (m.kind_of(static_cast<std::int64_t>(i)).windowed == windowed[i]) continue;
    keys.refuse("layer_types", "these full layers follow no rule of ours; allowed: every k-th layer full");
    return;
  }
}

// --- the families -----------------------------------------------------------------------------------------------

Model read_llama(const HfKeys& keys) {
  Model m = llama_like(keys);
  read_head_dim(keys, m);
  return m;
}

Model read_mistral(const HfKeys& keys) {
  Model m = read_llama(keys);
  read_window(keys, m);
  return m;
}

Model read_mixtral(const HfKeys& keys) {
  Model m = read_mistral(keys);
  m.experts = Experts{.count = keys.integer({"num_local_experts"}, model_limits::experts, 8),
                      .topk = keys.integer({"num_experts_per_tok"}, model_limits::experts, 2),
                      .ffn_hidden = m.ffn_hidden};
  return m;
}

/// Qwen 2's window begins at layer `max_window_layers`, and only if `use_sliding_window` says so.
void read_qwen_window(const HfKeys& keys, Model& m) {
  if (!keys.boolean({"use_sliding_window"}, false) || !keys.given({"sliding_window"})) return;
  const std::int64_t full_first = keys.integer({"max_window_layers"}, {0, model_limits::layers.most}, 28);
  if (full_first >= m.layers) return;
  if (full_first > 0) {
    keys.refuse("max_window_layers",
                fmt::format("full attention in the first {} of {} layers follows no rule of ours; allowed: 0, or at "
                            "least {}",
                            full_first, m.layers, m.layers));
    return;
  }
  read_window(keys, m);
}

Model read_qwen2(const HfKeys& keys) {
  Model m = read_llama(keys);
  m.biases = {.qkv = true};
  read_qwen_window(keys, m);
  return m;
}

/// `decoder_sparse_step` and `mlp_only_layers` of Qwen's mixtures.
void read_qwen_experts(const HfKeys& keys, Model& m, Experts e) {
  e.count = keys.integer({"num_experts", "num_local_experts"}, model_limits::experts);
  e.topk = keys.integer({"num_experts_per_tok"}, model_limits::experts);
  e.ffn_hidden = keys.integer({"moe_intermediate_size"}, model_limits::ffn);
  const std::int64_t step = keys.integer({"decoder_sparse_step"}, model_limits::layers, 1, false);
  Layers layers(static_cast<std::size_t>(m.layers));
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = (static_cast<std::int64_t>(i) + 1) % step == 0;
  for (const std::int64_t dense : keys.integers("mlp_only_layers", {0, model_limits::layers.most})) {
    if (dense < m.layers) layers[static_cast<std::size_t>(dense)] = false;
  }
  place_experts(keys, m, e, layers, keys.given({"mlp_only_layers"}) ? "mlp_only_layers" : "decoder_sparse_step");
}

Model read_qwen2_moe(const HfKeys& keys) {
  Model m = read_qwen2(keys);
  read_qwen_experts(
      keys, m,
      {.shared_ffn_hidden = keys.integer({"shared_expert_intermediate_size"}, model_limits::ffn), .shared_gate = true});
  return m;
}

Model read_qwen3(const HfKeys& keys) {
  Model m = llama_like(keys);
  m.head_dim = keys.integer({"head_dim"}, model_limits::heads, 128);
  m.qk_norm = true;
  read_qwen_window(keys, m);
  return m;
}

Model read_qwen3_moe(const HfKeys& keys) {
  Model m = read_qwen3(keys);
  read_qwen_experts(keys, m, {});
  return m;
}

Model read_gemma(const HfKeys& keys) {
  Model m = llama_like(keys);
  m.head_dim = keys.integer({"head_dim"}, model_limits::heads, 256);
  m.activation = Activation::geglu;  // gelu_pytorch_tanh, whatever the old key hidden_act says
  m.tied_embeddings = keys.boolean({"tie_word_embeddings"}, true);
  return m;
}

Model read_gemma2(const HfKeys& keys) {
  Model m = read_gemma(keys);
  m.post_norms = true;
  m.window = SlidingWindow{.tokens = keys.integer({"sliding_window"}, model_limits::tokens, 4096)};
  read_layer_types(keys, m, 2);
  return m;
}

Model read_olmo(const HfKeys& keys) {
  Model m = read_llama(keys);
  m.norm = Norm::layernorm_plain;
  return m;
}

Model read_olmo2(const HfKeys& keys) {
  Model m = read_llama(keys);
  m.qk_norm = m.qk_norm_wide = true;
  return m;
}

Model read_phi3(const HfKeys& keys) {
  Model m = read_mistral(keys);
  m.biases = {};
  return m;
}

Model read_gpt2(const HfKeys& keys) {
  Model m = gpt_like(keys);
  m.max_positions = keys.integer({"n_positions", "n_ctx", "max_position_embeddings"}, model_limits::tokens);
  m.dropout = drops_out(keys, true);
  return m;
}

Model read_gpt_neox(const HfKeys& keys) {
  Model m = gpt_like(keys);
  m.positions = Positions::rotary;
  const bool attention = keys.boolean({"attention_bias"}, true);
  m.biases.qkv = m.biases.projection = attention;
  m.tied_embeddings = keys.boolean({"tie_word_embeddings"}, false);
  return m;
}

Model read_bloom(const HfKeys& keys) {
  Model m = gpt_like(keys);
  m.ffn_hidden = 4 * m.hidden;  // there is no key for it
  m.positions = Positions::alibi;
  m.embedding_norm = true;
  return m;
}

/// Falcon: one norm before attention and MLP beside each other, or two in the "new decoder architecture".
Model read_falcon(const HfKeys& keys) {
  Model m = gpt_like(keys);
  const bool is_new = keys.boolean({"new_decoder_architecture"}, false);
  const std::int64_t grouped = keys.integer({"num_kv_heads", "n_head_kv"}, model_limits::heads, m.heads, false);
  if (is_new || keys.given({"n_head_kv"}))
    m.kv_heads = grouped;
  else if (keys.boolean({"multi_query"}, true))
    m.kv_heads = 1;
  const bool two_norms = is_new || keys.given({"n_head_kv"});
  const std::int64_t norms = keys.integer({"num_ln_in_parallel_attn"}, {1, 2}, two_norms ? 2 : 1, false);
  m.single_norm = keys.boolean({"parallel_attn"}, true) && norms == 1;
  const bool bias = keys.boolean({"bias"}, false);
  m.biases = {.qkv = bias, .projection = bias, .mlp = bias};
  m.positions = keys.boolean({"alibi"}, false) ? Positions::alibi : Positions::rotary;
  return m;
}

Model read_gpt_oss(const HfKeys& keys) {
  Model m = llama_like(keys);
  m.head_dim = keys.integer({"head_dim"}, model_limits::heads, 64);
  const bool attention = keys.boolean({"attention_bias"}, true);
  m.biases = {.qkv = attention, .projection = attention, .mlp = true, .router = true};
  m.attention_sinks = true;
  m.experts = Experts{.count = keys.integer({"num_local_experts", "num_experts"}, model_limits::experts),
                      .topk = keys.integer({"num_experts_per_tok", "experts_per_token"}, model_limits::experts),
                      .ffn_hidden = m.ffn_hidden};
  read_window(keys, m);
  read_layer_types(keys, m, 2);
  return m;
}

/// Experts of all DeepSeeks: shared ones count in multiples of one, dense layers come first.
void read_deepseek_experts(const HfKeys& keys, Model& m) {
  if (!keys.given({"n_routed_experts"})) return;
  Experts e{.count = keys.integer({"n_routed_experts"}, model_limits::experts),
            .topk = keys.integer({"num_experts_per_tok"}, model_limits::experts),
            .ffn_hidden = keys.integer({"moe_intermediate_size"}, model_limits::ffn)};
  e.shared_ffn_hidden = e.ffn_hidden * keys.integer({"n_shared_experts"}, {0, 64}, 0, false);
  const std::int64_t first = keys.integer({"first_k_dense_replace"}, {0, model_limits::layers.most}, 0, false);
  const std::int64_t step = keys.integer({"moe_layer_freq"}, model_limits::layers, 1, false);
  Layers layers(static_cast<std::size_t>(m.layers));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    layers[i] = layer >= first && layer % step == 0;
  }
  const std::string method = keys.text({"topk_method"});
  const std::int64_t groups = keys.integer({"n_group"}, model_limits::experts, 1, false);
  if (groups > 1 && method != "greedy") e.group_limit = keys.integer({"topk_group"}, {1, groups}, groups, false);
  if (e.group_limit == groups) e.group_limit = 0;
  place_experts(keys, m, e, layers, "moe_layer_freq");
}

void read_latent(const HfKeys& keys, Model& m) {
  m.latent = LatentAttention{.query_rank = keys.integer({"q_lora_rank"}, model_limits::width, 0, false),
                             .kv_rank = keys.integer({"kv_lora_rank"}, model_limits::width),
                             .nope_dim = keys.integer({"qk_nope_head_dim"}, model_limits::heads),
                             .rope_dim = keys.integer({"qk_rope_head_dim"}, model_limits::heads),
                             .value_dim = keys.integer({"v_head_dim"}, model_limits::heads)};
  m.kv_heads = m.heads;
  m.head_dim = std::min(m.qk_dim(), model_limits::heads.most);
  if (m.biases.qkv) keys.refuse("attention_bias", "biases of latent attention are not expressible; allowed: false");
}

Model read_deepseek(const HfKeys& keys) {
  Model m = read_llama(keys);
  read_deepseek_experts(keys, m);
  return m;
}

Model read_deepseek_v2(const HfKeys& keys) {
  Model m = llama_like(keys);
  read_latent(keys, m);
  read_deepseek_experts(keys, m);
  return m;
}

Model read_deepseek_v3(const HfKeys& keys) {
  Model m = read_deepseek_v2(keys);
  const bool corrected = !keys.given({"topk_method"}) || keys.text({"topk_method"}) == "noaux_tc";
  m.biases.router = m.experts.has_value() && corrected;
  m.mtp_layers = keys.integer({"num_nextn_predict_layers"}, model_limits::mtp, 0);
  return m;
}

struct Refusal {
  std::string_view prefix, reason;
};
constexpr std::string_view encoder_decoder = "is an encoder with a decoder";
constexpr std::string_view encoder = "is an encoder alone";
constexpr std::string_view recurrent = "has recurrent or state-space layers, which our model has no cost for";
constexpr std::string_view several = "is made of several models; take the config.json of its language model";
constexpr Refusal refusals[] = {{"t5", encoder_decoder},
                                {"mt5", encoder_decoder},
                                {"umt5", encoder_decoder},
                                {"bart", encoder_decoder},
                                {"mbart", encoder_decoder},
                                {"pegasus", encoder_decoder},
                                {"whisper", encoder_decoder},
                                {"bert", encoder},
                                {"roberta", encoder},
                                {"deberta", encoder},
                                {"modernbert", encoder},
                                {"mamba", recurrent},
                                {"falcon_mamba", recurrent},
                                {"jamba", recurrent},
                                {"zamba", recurrent},
                                {"bamba", recurrent},
                                {"nemotron_h", recurrent},
                                {"rwkv", recurrent},
                                {"recurrent_gemma", recurrent},
                                {"qwen3_next", recurrent},
                                {"granitemoehybrid", recurrent},
                                {"lfm2", recurrent},
                                {"llava", several},
                                {"qwen2_vl", several},
                                {"qwen2_5_vl", several},
                                {"mllama", several},
                                {"llama4", several},
                                {"gemma3", several},
                                {"mistral3", several}};

constexpr HfDialect dialects[] = {{"llama", "LlamaForCausalLM", read_llama},
                                  {"mistral", "MistralForCausalLM", read_mistral},
                                  {"mixtral", "MixtralForCausalLM", read_mixtral},
                                  {"qwen2", "Qwen2ForCausalLM", read_qwen2},
                                  {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe},
                                  {"qwen3", "Qwen3ForCausalLM", read_qwen3},
                                  {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe},
                                  {"gemma", "GemmaForCausalLM", read_gemma},
                                  {"gemma2", "Gemma2ForCausalLM", read_gemma2},
                                  {"olmo", "OlmoForCausalLM", read_olmo},
                                  {"olmo2", "Olmo2ForCausalLM", read_olmo2},
                                  {"phi3", "Phi3ForCausalLM", read_phi3},
                                  {"gpt2", "GPT2LMHeadModel", read_gpt2},
                                  {"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox},
                                  {"bloom", "BloomForCausalLM", read_bloom},
                                  {"falcon", "FalconForCausalLM", read_falcon},
                                  {"RefinedWeb", "RWForCausalLM", read_falcon},
                                  {"RefinedWebModel", "RWForCausalLM", read_falcon},
                                  {"gpt_oss", "GptOssForCausalLM", read_gpt_oss},
                                  {"deepseek", "DeepseekForCausalLM", read_deepseek},
                                  {"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2},
                                  {"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3},
                                  {"kimi_k2", "DeepseekV3ForCausalLM", read_deepseek_v3}};

}  // namespace

std::span<const HfDialect> hf_dialects() { return dialects; }

std::string hf_refusal_of(std::string_view model_type) {
  for (const Refusal& refusal : refusals) {
    if (model_type.starts_with(refusal.prefix)) return std::string(refusal.reason);
  }
  return "";
}

}  // namespace foretrain
