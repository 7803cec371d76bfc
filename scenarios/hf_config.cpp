#include "scenarios/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "scenarios/catalogue.h"
#include "scenarios/hf_dialects.h"
#include "scenarios/json_tree.h"
#include "scenarios/sections.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view what = "a config.json of a decoder-only transformer";

/// The family by name: `model_type`, else the class in `architectures`.
const HfDialect* dialect_of(const HfKeys& keys) {
  if (keys.given({"model_type"})) {
    const std::string type = keys.text({"model_type"});
    for (const HfDialect& dialect : hf_dialects()) {
      if (dialect.model_type == type) return &dialect;
    }
    const std::string reason = hf_refusal_of(type);
    keys.refuse("model_type",
                reason.empty()
                    ? fmt::format("'{}' is not understood{}; allowed: {}", shown(type),
                                  suggestion(type, hf_model_types()), fmt::join(hf_model_types(), ", "))
                    : fmt::format("'{}' {}; allowed: {}", shown(type), reason, fmt::join(hf_model_types(), ", ")));
    return nullptr;
  }
  for (const HfDialect& dialect : hf_dialects()) {
    if (keys.architecture() == dialect.architecture) return &dialect;
  }
  keys.refuse("model_type",
              fmt::format("missing key 'model_type'; needed: one of {}", fmt::join(hf_model_types(), ", ")));
  return nullptr;
}

/// What no dialect can mend.
bool is_expressible(const HfKeys& keys) {
  if (keys.given({"is_encoder_decoder"}) && keys.boolean({"is_encoder_decoder"}, false)) {
    keys.refuse("is_encoder_decoder",
                "an encoder with a decoder is not a model of ours; allowed: decoder-only transformers");
    return false;
  }
  if (keys.given({"text_config"}) && !keys.given({"num_hidden_layers"})) {
    keys.refuse("text_config", "the language model of a larger one; allowed: its text_config as a file of its own");
    return false;
  }
  return true;
}

void set_place(YamlNode& node, const SourcePlace& place) {
  node.place = place;
  for (YamlNode& item : node.items) set_place(item, place);
  for (YamlEntry& entry : node.entries) {
    entry.place = place;
    set_place(entry.value, place);
  }
}

/// The keys of our YAML, all placed at the file they come from.
YamlNode map_of(const Model& model, const SourcePlace& place) {
  Problems none;
  std::optional<YamlNode> map = parse_yaml(none.source("model", write_model(model, ""), ""), "a model", none);
  set_place(*map, place);
  return *map;
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const HfDialect& dialect : hf_dialects()) types.emplace_back(dialect.model_type);
  std::sort(types.begin(), types.end());
  return types;
}

std::optional<HfConfig> read_hf_config(const std::shared_ptr<const Source>& source, Problems& problems) {
  const std::size_t before = problems.count();  // a key given twice leaves a tree, and is a mistake
  const std::optional<YamlNode> root = parse_json(source, what, problems);
  if (!root) return std::nullopt;
  if (root->kind != YamlNode::Kind::map) {
    problems.add(root->place, "", fmt::format("found {}; allowed: {}", described(*root), what));
    return std::nullopt;
  }
  HfConfig config;
  HfKeys keys(*root, config.notes, problems);
  if (const HfDialect* dialect = is_expressible(keys) ? dialect_of(keys) : nullptr) {
    config.model = dialect->read(keys);
  }
  if (problems.count() > before) return std::nullopt;
  // Our own rules, as for any model: experts chosen and there, sizes within reason.
  static_cast<void>(read_model(map_of(config.model, {source, std::nullopt}), {Catalogue({}), problems}));
  if (problems.count() > before) return std::nullopt;
  return config;
}

std::optional<HfConfig> load_hf_config(const fs::path& file, const SourcePlace& asked, const std::string& path,
                                       Problems& problems) {
  FileText text = read_regular_file(file);
  if (!text.text) {
    problems.add(asked, path,
                 fmt::format("'{}' cannot be read: {}; allowed: a path to {}", shown(file.string()), text.error, what));
    return std::nullopt;
  }
  return read_hf_config(problems.source(file.string(), std::move(*text.text), file.parent_path()), problems);
}

std::optional<YamlNode> resolve_hf_config(const YamlNode& node, Problems& problems) {
  const YamlNode& name = *node.find("hf_config");
  if (name.kind != YamlNode::Kind::scalar || name.scalar.empty()) {
    problems.add(name.place, "model.hf_config", fmt::format("found {}; allowed: a path to {}", described(name), what));
    return std::nullopt;
  }
  const fs::path file = name.place.source->folder / name.scalar;
  std::optional<HfConfig> config = load_hf_config(file, name.place, "model.hf_config", problems);
  if (!config) return std::nullopt;
  config->model.name = file.stem().string();
  YamlNode map = map_of(config->model, name.place);
  YamlNode changes = node;
  std::erase_if(changes.entries, [](const YamlEntry& entry) { return entry.key == "hf_config"; });
  overlay(map, changes);
  map.place = node.place;
  return map;
}

}  // namespace foretrain
