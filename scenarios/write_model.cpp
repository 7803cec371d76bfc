// The canonical text of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "scenarios/model_words.h"
#include "scenarios/sections.h"

namespace foretrain {
namespace {

std::string biases_text(const Biases& biases) {
  if (biases == all_biases) return "true";
  if (biases == Biases{}) return "false";
  std::vector<std::string_view> layers;
  for (const BiasedLayer layer : all_biased_layers) {
    if (biases.*member_of(layer)) layers.push_back(to_text(layer));
  }
  return fmt::format("[{}]", fmt::join(layers, ", "));
}

std::string shape_text(const Model& m) {
  return fmt::format(
      "name: {}\nlayers: {}\nhidden: {}\nheads: {}\nkv_heads: {}\nhead_dim: {}\nactivation: {}\nffn_hidden: {}\n"
      "vocabulary: {}\nnorm: {}\npositions: {}\nmax_positions: {}\nbiases: {}\ndropout: {}\ntied_embeddings: {}\n",
      word(m.name), m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, to_text(m.activation), m.ffn_hidden,
      m.vocabulary, to_text(m.norm), to_text(m.positions), m.max_positions, biases_text(m.biases), m.dropout,
      m.tied_embeddings);
}

/// What most models are without: only what this one has.
std::string extras_text(const Model& m) {
  std::string text;
  if (m.qk_norm) text += fmt::format("qk_norm: {}\n", to_text(head_norm_of(m)));
  if (m.post_norms) text += "post_norms: true\n";
  if (m.single_norm) text += "single_norm: true\n";
  if (m.embedding_norm) text += "embedding_norm: true\n";
  if (m.attention_sinks) text += "attention_sinks: true\n";
  if (m.latent) {
    const LatentAttention& a = *m.latent;
    text += fmt::format("latent: {{query_rank: {}, kv_rank: {}, nope_dim: {}, rope_dim: {}, value_dim: {}}}\n",
                        a.query_rank, a.kv_rank, a.nope_dim, a.rope_dim, a.value_dim);
  }
  if (m.experts) {
    const Experts& e = *m.experts;
    text += fmt::format(
        "experts:\n  count: {}\n  topk: {}\n  ffn_hidden: {}\n  shared_ffn_hidden: {}\n  shared_gate: {}\n"
        "  first_dense: {}\n  every: {}\n  group_limit: {}\n",
        e.count, e.topk, e.ffn_hidden, e.shared_ffn_hidden, e.shared_gate, e.first_dense, e.every, e.group_limit);
  }
  if (m.window) text += fmt::format("window: {{tokens: {}, full_every: {}}}\n", m.window->tokens, m.window->full_every);
  if (m.mtp_layers > 0) text += fmt::format("mtp_layers: {}\n", m.mtp_layers);
  return text;
}

}  // namespace

std::string write_model(const Model& model, std::string_view indent) {
  const std::string text = shape_text(model) + extras_text(model);
  std::string indented;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    indented += indent;
    indented += text.substr(at, end - at);
    at = end;
  }
  return indented;
}

}  // namespace foretrain
