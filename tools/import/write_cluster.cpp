#include "tools/import/write_cluster.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "scenarios/graphml.h"
#include "scenarios/problems.h"
#include "scenarios/yaml_node.h"

namespace foretrain {
namespace {

/// Double-quoted YAML; names hold no control characters.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string inline_graph(const GraphSpec& graph) {
  std::string out = "  vertices:\n";
  const auto into = std::back_inserter(out);
  for (const GraphSpec::Vertex& it : graph.vertices) {
    fmt::format_to(into, "    - {{name: {}, kind: {}", in_quotes(it.name), to_text(it.kind));
    if (it.node) fmt::format_to(into, ", node: {}", *it.node);
    if (it.group) fmt::format_to(into, ", group: {}", *it.group);
    out += "}\n";
  }
  out += "  links:\n";
  for (const GraphSpec::Cable& it : graph.cables) {
    fmt::format_to(into, "    - {{from: {}, to: {}, bandwidth: {}, latency: {}, tier: {}",
                   in_quotes(graph.vertices[it.a].name), in_quotes(graph.vertices[it.b].name), to_text(it.bandwidth),
                   to_text(it.latency), in_quotes(it.tier));
    if (it.count != 1) fmt::format_to(into, ", count: {}", it.count);
    out += "}\n";
  }
  return out;
}

}  // namespace

ClusterText write_cluster(const Imported& imported, const ClusterOrigin& origin) {
  ClusterText text;
  text.yaml = fmt::format("# Imported from {} ({}).\n", shown(origin.source), origin.kind);
  for (const std::string& note : imported.notes) text.yaml += fmt::format("# - {}\n", note);
  text.yaml += fmt::format("gpu: {}\nfabric:\n  kind: graph\n", imported.gpu);
  const std::string graph =
      imported.graph.vertices.size() <= inline_vertices_most ? inline_graph(imported.graph) : std::string();
  const std::string tail =
      fmt::format("transport: {{node: {}, network: {}}}\n", imported.node_transport, origin.network);
  if (!graph.empty() && text.yaml.size() + graph.size() + tail.size() <= yaml_bytes_max) {
    text.yaml += graph;
  } else {
    text.yaml += fmt::format("  file: {}\n", in_quotes(origin.graph_file));
    text.graphml = to_graphml(imported.graph);
  }
  text.yaml += tail;
  return text;
}

}  // namespace foretrain
