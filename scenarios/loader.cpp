// From a file and its --set options to a checked Scenario.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "scenarios/hf_config.h"
#include "scenarios/sections.h"
#include "scenarios/settings.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

/// The tree as it was read: models and clusters from their files, with changes laid over. For places of keys.
struct Tree {
  const YamlNode* root;
  const YamlNode* model;
  const YamlNode* cluster;
};

struct Found {
  SourcePlace place;
  bool whole = false;  ///< the key itself, not the map that should hold it
};

/// Where a dotted key stands, or the innermost map on the way to it.
Found find_key(const Tree& tree, const std::string& key) {
  const YamlNode* node = tree.root;
  SourcePlace place = node->place;
  std::string_view rest = key;
  while (true) {
    const auto dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const YamlNode* next = node->find(part);
    if (next == nullptr) return {place, false};
    place = next->place;
    if (dot == std::string_view::npos) return {place, true};
    if (node == tree.root && part == "model") next = tree.model;
    if (node == tree.root && part == "cluster") next = tree.cluster;
    if (next == nullptr) return {place, false};
    node = next;
    rest.remove_prefix(dot + 1);
  }
}

/// Whether a dotted key, or a map on the way to it, is wrong or could not be read.
bool spoilt(const std::string& key, const Tree& tree, const Problems& problems) {
  if (problems.any_bad(key)) return true;
  if (tree.model == nullptr && key.starts_with("model.")) return true;
  if (tree.cluster == nullptr && key.starts_with("cluster.")) return true;
  for (auto dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    if (problems.bad(key.substr(0, dot))) return true;
  }
  return problems.suspected(key);
}

/// A rule that is broken because a value was refused is no news.
bool follows_from_another(const PlanError& error, const Tree& tree, const Problems& problems) {
  std::vector<std::string> keys = error.keys;
  const auto concerns = [&](const char* key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  // The product of all groups against the GPUs: it names the one to change, but depends on each.
  if (concerns("parallelism.dp") && concerns("cluster.gpus")) {
    keys.insert(keys.end(), {"parallelism.tp", "parallelism.cp", "parallelism.pp"});
  }
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return spoilt(key, tree, problems); });
}

/// Points at the first of its keys that a --set gave, else that the scenario's file gives, else any file.
void report(const PlanError& error, const Tree& tree, Problems& problems) {
  const Source* scenario = tree.root->place.source.get();
  const auto rank = [&](const Found& found) {
    if (!found.whole) return 3;
    if (found.place.source->option) return 0;
    return found.place.source.get() == scenario ? 1 : 2;
  };
  std::string best_key = error.keys.front();
  Found best = find_key(tree, best_key);
  for (const std::string& key : error.keys) {
    const Found found = find_key(tree, key);
    if (rank(found) < rank(best)) {
      best = found;
      best_key = key;
    }
  }
  problems.add(best.place, best_key, error.message);
}

void check_plan(const Scenario& scenario, const Tree& tree, Problems& problems) {
  std::vector<PlanError> errors = check(scenario.model, scenario.plan, scenario.training, scenario.gpus);
  for (const NodeGroup& group : groups_of(scenario.cluster, scenario.gpus)) {
    const Precision precision = scenario.training.precision;
    const bool has_fp8 = group.gpu.peak_fp8 != FlopRate{}, has_fp4 = group.gpu.peak_fp4 != FlopRate{};
    if (!quantised(precision) || (precision == Precision::fp8 ? has_fp8 : has_fp4)) continue;
    errors.push_back({{"training.precision", "cluster.gpu"},
                      fmt::format("{} on GPU '{}', which has none; allowed: bf16, fp16, {}fp32", to_text(precision),
                                  shown(group.gpu.name), has_fp8 ? "fp8, " : "")});
    break;
  }
  // All are weighed before the first is noted: one broken rule must not hide another about the same key.
  std::erase_if(errors, [&](const PlanError& error) { return follows_from_another(error, tree, problems); });
  for (const PlanError& error : errors) report(error, tree, problems);
}

/// Stands in for a model that cannot be read, so that the rest of the plan can still be checked.
Model any_model() {
  Model model;
  model.layers = model.hidden = model.ffn_hidden = model.heads = model.kv_heads = 4096;
  model.head_dim = model.vocabulary = 1;
  model.positions = Positions::rotary;
  return model;
}

/// The stack that a section `training` names, else the usual one.
StackSection stack_of(const YamlNode& training, const Reading& reading) {
  const YamlNode* given = training.find("stack");
  const YamlNode usual{.kind = YamlNode::Kind::scalar, .place = training.place, .scalar = "megatron"};
  const std::optional<YamlNode> map =
      reading.catalogue.resolve(given == nullptr ? usual : *given, Shelf::stacks, "training.stack", reading.problems);
  return map ? read_stack(*map, reading.problems) : StackSection{};
}

/// A section of a scenario over what its stack says of it.
YamlNode over(const std::optional<YamlNode>& usual, const YamlNode& section) {
  if (!usual || section.kind != YamlNode::Kind::map) return usual && section.entries.empty() ? *usual : section;
  YamlNode whole = *usual;
  overlay(whole, section);
  whole.place = section.place;
  return whole;
}

Scenario read(const YamlNode& root, const std::string& stem, const Reading& reading) {
  Problems& problems = reading.problems;
  MapReader top(root, "", problems);
  Scenario scenario;
  scenario.name = top.text("name", stem);
  YamlNode nothing;
  nothing.place = root.place;
  const auto section = [&](const YamlNode* node) -> const YamlNode& { return node == nullptr ? nothing : *node; };
  const YamlNode* model = top.child("model", "a catalogue name, a path, or a map");
  const YamlNode* cluster = top.child("cluster", "a map such as {use: dgx-h100-ndr, gpus: 64}");
  const YamlNode* training = top.child("training");
  const YamlNode* parallelism = top.child("parallelism");
  const YamlNode* network = top.child("network");
  const YamlNode* faults = top.child("faults");
  std::optional<YamlNode> model_map, cluster_map;
  if (model != nullptr && model->find("hf_config") != nullptr) {
    model_map = resolve_hf_config(*model, problems);
  } else if (model != nullptr) {
    model_map = reading.catalogue.resolve(*model, Shelf::models, "model", problems);
  }
  if (cluster != nullptr && cluster->kind == YamlNode::Kind::scalar) {
    top.refuse("cluster", fmt::format("found {} without a number of GPUs; allowed: {{use: {}, gpus: N}}",
                                      described(*cluster), shown(cluster->scalar)));
  } else if (cluster != nullptr) {
    cluster_map = reading.catalogue.resolve(*cluster, Shelf::clusters, "cluster", problems);
  }
  scenario.model = model_map ? read_model(*model_map, reading) : any_model();
  scenario.gpus = 1;
  if (cluster_map) {
    ClusterSection read_section = read_cluster(*cluster_map, "cluster", /*with_gpus=*/true, reading);
    scenario.cluster = std::move(read_section.cluster);
    scenario.gpus = read_section.gpus;
  }
  StackSection stack = stack_of(section(training), reading);
  scenario.training = read_training(over(stack.training, section(training)), std::move(stack.stack), problems);
  scenario.plan = read_plan(over(stack.parallelism, section(parallelism)), scenario.gpus, scenario.training,
                            scenario.model, problems);
  scenario.network = read_network(section(network), scenario.cluster, problems);
  top.finish();
  check_plan(scenario, {&root, model_map ? &*model_map : nullptr, cluster_map ? &*cluster_map : nullptr}, problems);
  scenario.faults = read_faults(faults, scenario, problems);
  return scenario;
}

Scenario parse(std::string text, const fs::path& file, const std::vector<std::string>& sets,
               const Catalogue& catalogue) {
  Problems problems;
  const auto source = problems.source(file.string(), std::move(text), file.parent_path());
  std::optional<YamlNode> root = parse_yaml(source, "a scenario with the keys model, cluster, training", problems);
  if (root && root->kind != YamlNode::Kind::map) {
    problems.add(root->place, "",
                 fmt::format("found {}; allowed: a scenario, as a map with the keys model, cluster, training",
                             described(*root)));
    root.reset();
  }
  if (!root) throw InputError(problems.text());
  apply_sets(*root, sets, problems);
  Scenario scenario = read(*root, file.stem().string(), {catalogue, problems});
  problems.throw_if_any();
  return scenario;
}

bool holds_catalogue(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "gpus", error) && fs::is_directory(folder / "clusters", error);
}

}  // namespace

fs::path default_catalogue() {
  if (const char* chosen = std::getenv("FORETRAIN_CATALOGUE"); chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code error;
  for (fs::path at = fs::read_symlink("/proc/self/exe", error); !error && at.has_relative_path();) {
    at = at.parent_path();
    if (holds_catalogue(at / "scenarios")) return at / "scenarios";
  }
  return fs::path(FORETRAIN_SOURCE_DIR) / "scenarios";
}

Scenario load_scenario(const fs::path& file, const std::vector<std::string>& sets, const fs::path& catalogue) {
  const Catalogue shelves(catalogue);
  FileText read_text = read_file(file);
  if (read_text.text) return parse(std::move(*read_text.text), file, sets, shelves);
  const bool yaml = file.extension() == ".yaml" || file.extension() == ".yml";
  const std::string stem = yaml ? file.stem().string() : file.filename().string();
  const fs::path listed = shelves.file(Shelf::scenarios, stem);
  const bool by_name = !yaml && !file.has_parent_path();
  if (by_name) {  // `llama3-8b-one-node`: a ready scenario of the catalogue
    if (FileText from_catalogue = read_file(listed); from_catalogue.text) {
      return parse(std::move(*from_catalogue.text), listed, sets, shelves);
    }
  }
  const std::vector<std::string> names = shelves.names(Shelf::scenarios);
  throw InputError(fmt::format("{}: cannot be read: {}{}; allowed: a YAML file, or one of {}", shown(file.string()),
                               read_text.error, suggestion(stem, names), fmt::join(names, ", ")));
}

Scenario parse_scenario(const std::string& text, const std::string& name, const std::vector<std::string>& sets,
                        const fs::path& catalogue) {
  return parse(text, name, sets, Catalogue(catalogue));
}

Cluster load_cluster(const std::string& name, const fs::path& catalogue, const std::string& shape) {
  Problems problems;
  const Catalogue shelves(catalogue);
  const SourcePlace place{.source = problems.source("cluster", "", "."), .at = {}};
  const auto scalar = [&](const std::string& text) {
    return YamlNode{.kind = YamlNode::Kind::scalar, .place = place, .scalar = text};
  };
  const auto map_of = [&](std::vector<YamlEntry> entries) {
    return YamlNode{.kind = YamlNode::Kind::map, .place = place, .entries = std::move(entries)};
  };
  YamlNode node = scalar(name);
  if (!shape.empty()) {
    node = map_of({{.key = "use", .place = place, .value = scalar(name)},
                   {.key = "fabric", .place = place, .value = map_of({{"shape", place, scalar(shape)}})}});
  }
  const std::optional<YamlNode> map = shelves.resolve(node, Shelf::clusters, "", problems);
  ClusterSection section;
  if (map) section = read_cluster(*map, "", /*with_gpus=*/false, {shelves, problems});
  problems.throw_if_any();
  return section.cluster;
}

}  // namespace foretrain
