#include <fmt/format.h>

#include <algorithm>

#include "scenarios/model_words.h"
#include "scenarios/sections.h"

namespace foretrain {
namespace {

template <class E, std::size_t n>
Words<E> words(const E (&all)[n]) {
  return words_of<E>(std::span<const E>(all));
}

/// `biases: true`, `false`, or a list of those linear layers that have one.
Biases read_biases(MapReader& reader) {
  const YamlNode* value = reader.child("biases");
  if (value == nullptr || value->kind != YamlNode::Kind::list) {
    return reader.boolean("biases", true) ? all_biases : Biases{};
  }
  Biases biases{};
  for (const BiasedLayer layer : reader.choices<BiasedLayer>("biases", words(all_biased_layers), {}))
    biases.*member_of(layer) = true;
  return biases;
}

void read_head_norms(MapReader& reader, Model& model) {
  const auto norm = reader.choice<HeadNorm>("qk_norm", words(all_head_norms), HeadNorm::none);
  model.qk_norm = norm != HeadNorm::none;
  model.qk_norm_wide = norm == HeadNorm::all_heads;
}

LatentAttention read_latent(const YamlNode& map, Problems& problems) {
  MapReader reader(map, "model.latent", problems);
  LatentAttention latent;
  latent.query_rank = reader.integer("query_rank", {0, model_limits::width.most}, 0);
  latent.kv_rank = reader.integer("kv_rank", model_limits::width);
  latent.nope_dim = reader.integer("nope_dim", model_limits::heads);
  latent.rope_dim = reader.integer("rope_dim", model_limits::heads);
  latent.value_dim = reader.integer("value_dim", model_limits::heads);
  reader.finish();
  return latent;
}

Experts read_experts(const YamlNode& map, const Model& model, Problems& problems) {
  MapReader reader(map, "model.experts", problems);
  Experts e;
  e.count = reader.integer("count", model_limits::experts);
  e.topk = reader.integer("topk", model_limits::experts);
  e.ffn_hidden = reader.integer("ffn_hidden", model_limits::ffn, model.ffn_hidden);
  e.shared_ffn_hidden = reader.integer("shared_ffn_hidden", {0, model_limits::ffn.most}, 0);
  e.shared_gate = reader.boolean("shared_gate", false);
  e.first_dense = reader.integer("first_dense", {0, model_limits::layers.most}, 0);
  e.every = reader.integer("every", model_limits::layers, 1);
  e.group_limit = reader.integer("group_limit", {0, model_limits::experts.most}, 0);
  const bool layers_good = !problems.bad("model.layers");
  const auto good = [&](std::string_view key) { return !problems.bad(dotted("model.experts", key)); };
  if (e.topk > e.count && good("topk") && good("count") && reader.given("count")) {
    reader.refuse("topk", fmt::format("a token cannot choose {} of {} experts; allowed: 1 to {}; nearest: {}", e.topk,
                                      e.count, e.count, e.count));
  }
  if (e.first_dense + e.every > model.layers && layers_good && good("first_dense") && good("every")) {
    reader.refuse(reader.given("first_dense") ? "first_dense" : "every",
                  fmt::format("first_dense {} and every {} leave no layer of {} with experts; allowed: a sum of at "
                              "most {}",
                              e.first_dense, e.every, model.layers, model.layers));
  }
  if (e.shared_gate && e.shared_ffn_hidden == 0 && good("shared_ffn_hidden"))
    reader.refuse("shared_gate", "there are no shared experts to gate; allowed: false, or shared_ffn_hidden above 0");
  reader.finish();
  return e;
}

SlidingWindow read_window(const YamlNode& map, Problems& problems) {
  MapReader reader(map, "model.window", problems);
  SlidingWindow window;
  window.tokens = reader.integer("tokens", model_limits::tokens);
  window.full_every = reader.integer("full_every", {0, model_limits::layers.most}, 0);
  reader.finish();
  return window;
}

void read_heads(MapReader& reader, Model& model, const Problems& problems) {
  model.heads = reader.integer("heads", model_limits::heads);
  model.kv_heads = reader.integer("kv_heads", model_limits::heads, model.heads);
  const bool even = model.hidden % model.heads == 0;
  std::int64_t usual = even ? model.hidden / model.heads : 1;
  if (model.latent) usual = std::min(model.qk_dim(), model_limits::heads.most);  // MLA says its own
  model.head_dim = reader.integer("head_dim", model_limits::heads, usual);
  const bool head_keys_good = !problems.bad("model.heads") && !problems.bad("model.hidden");
  if (!even && !reader.given("head_dim") && !model.latent && head_keys_good) {
    reader.refuse("heads", fmt::format("{} heads do not divide hidden {}; allowed: a divisor of it, or head_dim given",
                                       model.heads, model.hidden));
  }
  if (model.latent && model.kv_heads != model.heads && head_keys_good && !problems.bad("model.kv_heads")) {
    reader.refuse("kv_heads", fmt::format("latent attention makes keys and values for every head; allowed: {}, or no "
                                          "key kv_heads",
                                          model.heads));
  }
}

/// Products of legal values may leave 64 bits: counts by a bound above the true count first.
void check_size(MapReader& reader, const Model& m) {
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double widths = d(m.heads) * d(m.qk_dim() + m.value_dim()) + d(m.kv_heads) * d(m.qk_dim() + m.value_dim());
  double ffn = d(m.ffn_hidden);
  double layer = d(m.hidden + 1) * (widths + 8);
  if (m.latent) layer += (d(m.hidden) + widths) * d(m.latent->query_rank + m.latent->kv_rank + m.latent->rope_dim + 1);
  if (m.experts) {
    ffn += (d(m.experts->ffn_hidden) + 1) * d(m.experts->count) + d(m.experts->shared_ffn_hidden);
    layer += d(m.hidden + 1) * d(m.experts->count + 1);
  }
  layer += 3 * d(m.hidden + 1) * (ffn + 1);
  const double bound = d(m.layers + m.mtp_layers) * (layer + 2 * d(m.hidden) * d(m.hidden)) +
                       d(m.hidden) * (2 * d(m.vocabulary) + d(m.max_positions) + 4);
  if (bound <= model_limits::parameters_most) return;
  reader.refuse("layers", fmt::format("layers, widths and experts together make about {:.1g} parameters; allowed: at "
                                      "most {:.0g}",
                                      bound, model_limits::parameters_most));
}

}  // namespace

Words<AttentionFlops> attention_flops_words() {
  return {{"full", AttentionFlops::full}, {"causal", AttentionFlops::causal}};
}

Model read_model(const YamlNode& map, const Reading& reading) {
  MapReader reader(map, "model", reading.problems);
  Model model;
  model.name = reader.text("name", "custom");
  model.layers = reader.integer("layers", model_limits::layers);
  model.hidden = reader.integer("hidden", model_limits::width);
  if (const YamlNode* latent = reader.child("latent")) model.latent = read_latent(*latent, reading.problems);
  read_heads(reader, model, reading.problems);
  model.activation = reader.choice<Activation>("activation", words(all_activations), Activation::gelu);
  model.ffn_hidden = reader.integer("ffn_hidden", model_limits::ffn, 4 * model.hidden);  // GPT's; others say theirs
  model.vocabulary = reader.integer("vocabulary", model_limits::tokens);
  model.norm = reader.choice<Norm>("norm", words(all_norms), Norm::layernorm);
  model.positions = reader.choice<Positions>("positions", words(all_positions), Positions::learned);
  const bool learned = model.positions == Positions::learned;
  model.max_positions =
      reader.integer("max_positions", {learned ? 1 : 0, model_limits::tokens.most}, learned ? 2048 : 0);
  model.biases = read_biases(reader);
  model.dropout = reader.boolean("dropout", true);
  model.tied_embeddings = reader.boolean("tied_embeddings", true);
  read_head_norms(reader, model);
  model.post_norms = reader.boolean("post_norms", false);
  model.single_norm = reader.boolean("single_norm", false);
  model.embedding_norm = reader.boolean("embedding_norm", false);
  model.attention_sinks = reader.boolean("attention_sinks", false);
  if (const YamlNode* experts = reader.child("experts"))
    model.experts = read_experts(*experts, model, reading.problems);
  if (const YamlNode* window = reader.child("window")) model.window = read_window(*window, reading.problems);
  model.mtp_layers = reader.integer("mtp_layers", model_limits::mtp, 0);
  check_size(reader, model);
  reader.finish();
  return model;
}

}  // namespace foretrain
