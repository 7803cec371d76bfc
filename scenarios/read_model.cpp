#include <fmt/format.h>

#include "scenarios/sections.h"

namespace foretrain {

Words<Norm> norm_words() { return {{"layernorm", Norm::layernorm}, {"rmsnorm", Norm::rmsnorm}}; }
Words<Activation> activation_words() { return {{"gelu", Activation::gelu}, {"swiglu", Activation::swiglu}}; }
Words<Positions> positions_words() { return {{"learned", Positions::learned}, {"rotary", Positions::rotary}}; }
Words<AttentionFlops> attention_flops_words() {
  return {{"full", AttentionFlops::full}, {"causal", AttentionFlops::causal}};
}

Model read_model(const YamlNode& map, const Reading& reading) {
  MapReader reader(map, "model", reading.problems);
  Model model;
  // 4096 heads of 4096 in 16,384 layers of 2^20: 2^60 parameters, within 64 bits.
  constexpr IntegerRange head_range{1, 4096};
  constexpr IntegerRange width_range{1, std::int64_t{1} << 20};
  constexpr IntegerRange ffn_range{1, std::int64_t{1} << 22};
  constexpr IntegerRange tokens_range{1, std::int64_t{1} << 24};
  model.name = reader.text("name", "custom");
  model.layers = reader.integer("layers", {1, 16384});
  model.hidden = reader.integer("hidden", width_range);
  model.heads = reader.integer("heads", head_range);
  model.kv_heads = reader.integer("kv_heads", head_range, model.heads);
  const bool even = model.hidden % model.heads == 0;
  model.head_dim = reader.integer("head_dim", head_range, even ? model.hidden / model.heads : 1);
  model.activation = reader.choice<Activation>("activation", activation_words(), Activation::gelu);
  model.ffn_hidden = reader.integer("ffn_hidden", ffn_range, 4 * model.hidden);  // GPT's; others say theirs
  model.vocabulary = reader.integer("vocabulary", tokens_range);
  model.norm = reader.choice<Norm>("norm", norm_words(), Norm::layernorm);
  model.positions = reader.choice<Positions>("positions", positions_words(), Positions::learned);
  const bool learned = model.positions == Positions::learned;
  model.max_positions = reader.integer("max_positions", {learned ? 1 : 0, tokens_range.most}, learned ? 2048 : 0);
  model.biases = reader.boolean("biases", true) ? all_biases : Biases{};
  model.dropout = reader.boolean("dropout", true);
  model.tied_embeddings = reader.boolean("tied_embeddings", true);
  const bool head_keys_good = !reading.problems.bad("model.heads") && !reading.problems.bad("model.hidden");
  if (!even && !reader.given("head_dim") && head_keys_good) {
    reader.refuse("heads", fmt::format("{} heads do not divide hidden {}; allowed: a divisor of it, or head_dim given",
                                       model.heads, model.hidden));
  }
  reader.finish();
  return model;
}

}  // namespace foretrain
