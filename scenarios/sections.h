// The sections of a scenario, each from its map to its value. All note what is wrong in `problems` and return
// something harmless, so that one run finds every mistake.
#pragma once

#include <optional>

#include "scenarios/catalogue.h"
#include "scenarios/scenario.h"
#include "scenarios/yaml_reader.h"

namespace foretrain {

/// Limits that keep every product of ours inside 64 bits; far above anything built.
inline constexpr std::int64_t gpus_most = std::int64_t{1} << 20;
inline constexpr IntegerRange group_range{1, 4096};  // tp, cp, pp

/// The same of a model. Each alone keeps to 64 bits what it is multiplied with; all at once are caught by
/// `parameters_most`.
namespace model_limits {
inline constexpr IntegerRange layers{1, 16384};
inline constexpr IntegerRange heads{1, 4096};  // heads, and elements of one
inline constexpr IntegerRange width{1, std::int64_t{1} << 20};
inline constexpr IntegerRange ffn{1, std::int64_t{1} << 22};
inline constexpr IntegerRange tokens{1, std::int64_t{1} << 24};
inline constexpr IntegerRange experts{1, 65536};
inline constexpr IntegerRange mtp{0, 64};
inline constexpr double parameters_most = 1e18;
}  // namespace model_limits

struct Reading {
  const Catalogue& catalogue;
  Problems& problems;
};

/// A resolved model (Catalogue::resolve).
[[nodiscard]] Model read_model(const YamlNode& map, const Reading& reading);
/// The canonical text of its keys, each line behind `indent`.
[[nodiscard]] std::string write_model(const Model& model, std::string_view indent);
[[nodiscard]] FabricSpec read_fabric(const YamlNode& map, const std::string& path, Problems& problems);
[[nodiscard]] NodeSpec read_node(const YamlNode& map, const std::string& path, Problems& problems);
[[nodiscard]] Gpu read_gpu(const YamlNode& map, const std::string& path, Problems& problems);

struct ClusterSection {
  Cluster cluster;
  std::int64_t gpus = 0;  ///< 0 where none are asked for
};
/// A resolved cluster. `path` is "cluster" in a scenario, where `gpus` is needed, and "" for a cluster by itself.
[[nodiscard]] ClusterSection read_cluster(const YamlNode& map, const std::string& path, bool with_gpus,
                                          const Reading& reading);
/// A resolved stack, and what it says of the sections `training` and `parallelism`, which lies under the scenario's.
struct StackSection {
  Stack stack;
  std::optional<YamlNode> training, parallelism;
};
[[nodiscard]] StackSection read_stack(const YamlNode& map, Problems& problems);
[[nodiscard]] Training read_training(const YamlNode& map, Stack stack, Problems& problems);
/// Defaults depend on the training software and on whether the model has experts.
[[nodiscard]] Plan read_plan(const YamlNode& map, std::int64_t gpus, const Training& training, const Model& model,
                             Problems& problems);
/// The section parallelism.schedule; without one, 1F1B.
[[nodiscard]] ScheduleSpec read_schedule(const YamlNode* map, std::int64_t pp, Problems& problems);
/// Its canonical text.
[[nodiscard]] std::string write_schedule(const ScheduleSpec& schedule);
[[nodiscard]] Network read_network(const YamlNode& map, const Cluster& cluster, Problems& problems);

/// A list; its names are checked against the fabric of `scenario`, unless something is wrong already.
[[nodiscard]] Faults read_faults(const YamlNode* list, const Scenario& scenario, Problems& problems);

/// Whether the shape is made of servers, which the section `node` describes.
[[nodiscard]] bool has_nodes(const FabricSpec& fabric);
/// A YAML word as it is when nothing in it could be misread, else in double quotes.
[[nodiscard]] std::string word(const std::string& text);
/// The canonical text of the section `node`, and of the sections `node` and `fabric`.
[[nodiscard]] std::string write_node(const NodeSpec& node);
[[nodiscard]] std::string write_fabric(const FabricSpec& fabric);
/// GPUs of one server; 1 where GPUs hang on the network themselves, or servers differ.
[[nodiscard]] std::int64_t gpus_per_node(const FabricSpec& fabric);
/// What a GPU of a graph reaches the others of its node over, one direction: all its NVLinks together, else its widest
/// PCIe cable; the slowest such GPU counts. None where no cable leads to another GPU's switch.
[[nodiscard]] std::optional<Bandwidth> in_node_rate(const GraphSpec& graph);
/// Most GPUs that the shape of a fabric can carry; none where it grows without end (rail-optimised groups).
[[nodiscard]] std::optional<std::int64_t> shape_capacity(const FabricSpec& fabric);

/// The words of enumerations that have no `to_text` of their own.
[[nodiscard]] Words<AttentionFlops> attention_flops_words();
[[nodiscard]] Words<GpuGeneration> generation_words();
template <class E>
std::string_view word_for(const Words<E>& words, E value) {
  for (const auto& [name, meaning] : words) {
    if (meaning == value) return name;
  }
  return {};
}

}  // namespace foretrain
