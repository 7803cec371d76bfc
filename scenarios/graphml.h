// GraphML (Brandes and others 2002, graphml.graphdrawing.org): reading any graph with its attributes, and reading and
// writing the graph of a fabric.
//
//   <node id="n0"><data key="name">node0/gpu0</data><data key="kind">gpu</data><data key="node">0</data></node>
//   <edge source="n0" target="n1"><data key="bandwidth">450GB/s</data><data key="latency">500ns</data>
//     <data key="tier">nvlink</data></edge>
//
// Attributes are known by their attr.name, so files of other programs may number their keys as they like. An edge is a
// cable, both ways; in a directed graph each edge needs its way back, and the two are one cable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/input_text.h"
#include "scenarios/yaml_reader.h"
#include "topology/builders/builders.h"

namespace foretrain {

/// Limits of a graph in a file; a larger one is refused with a message.
inline constexpr std::size_t graph_vertices_max = std::size_t{1} << 18;
inline constexpr std::size_t graph_cables_max = std::size_t{1} << 19;
inline constexpr std::size_t graphml_bytes_max = std::size_t{128} << 20;

struct GraphmlGraph {
  using Values = std::vector<std::pair<std::uint32_t, std::string>>;  ///< index into `attributes`, text
  struct Node {
    std::string id;
    Values values;
    std::size_t offset = 0;
  };
  struct Edge {
    std::uint32_t a = 0, b = 0;
    Values values;
    std::size_t offset = 0;
  };
  std::vector<std::string> attributes;  ///< their names
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};
/// Throws InputError.
[[nodiscard]] GraphmlGraph read_graphml(const InputText& input);
/// The value of an attribute, or nothing.
[[nodiscard]] const std::string* graphml_value(const GraphmlGraph& graph, const GraphmlGraph::Values& values,
                                               std::string_view attribute);

/// The words of `kind`: gpu, nic, host, pcie, nvswitch, leaf, spine, core, router.
[[nodiscard]] std::optional<VertexKind> vertex_kind_of(std::string_view word);
[[nodiscard]] std::string vertex_kind_words();

/// A file that `to_graphml` wrote, or that follows it. Throws InputError, also when no fabric can be built from it.
[[nodiscard]] GraphSpec graph_from_graphml(const InputText& input);
[[nodiscard]] GraphSpec load_graphml(const std::filesystem::path& file);
/// The graph of a fabric's key `file`: GraphML, relative to the YAML; nothing when the key is absent. What is wrong is
/// noted.
[[nodiscard]] std::optional<GraphSpec> graph_of_key_file(MapReader& reader);
[[nodiscard]] std::string to_graphml(const GraphSpec& graph);

}  // namespace foretrain
