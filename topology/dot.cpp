#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "topology/analysis.h"

namespace foretrain {
namespace {

std::string_view shape_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return "box";
    case VertexKind::nic:
      return "cds";
    case VertexKind::host:
      return "folder";
    default:
      return "ellipse";
  }
}

/// The box a vertex is drawn in: itself, or its node where nodes are folded.
std::string box_of(const Fabric& fabric, VertexId v, bool folded) {
  const Vertex& vertex = fabric.vertex(v);
  return folded && vertex.node ? fmt::format("node{}", vertex.node->value) : fabric.name(v);
}

/// Parallel cables between two boxes, drawn as one line.
struct Cables {
  std::size_t count = 0;
  Bandwidth bandwidth;
};

}  // namespace

std::string to_dot(const Fabric& fabric, std::size_t most) {
  const bool folded = fabric.vertex_count() > most;
  std::string out = "graph fabric {\n  graph [overlap=false];\n  node [fontsize=10];\n  edge [fontsize=8];\n";
  for (std::size_t n = 0; folded && n < fabric.node_count(); ++n) {
    out += fmt::format("  \"node{}\" [shape=box3d, label=\"node{}\\n{} GPUs\"];\n", n, n,
                       fabric.gpus_of(id_at<NodeId>(n)).size());
  }
  for (std::size_t i = 0; i < fabric.vertex_count(); ++i) {
    const auto v = id_at<VertexId>(i);
    if (!folded || !fabric.vertex(v).node) {
      out += fmt::format("  \"{}\" [shape={}];\n", fabric.name(v), shape_of(fabric.vertex(v).kind));
    }
  }
  // One line for both directions: drawn from the vertex that was added first. Ordered, so that the text is stable.
  std::map<std::pair<std::string, std::string>, Cables> lines;
  for (const Link& link : fabric.links()) {
    if (link.from > link.to) {
      continue;
    }
    std::string from = box_of(fabric, link.from, folded);
    std::string to = box_of(fabric, link.to, folded);
    if (from != to) {
      Cables& cables = from < to ? lines[{std::move(from), std::move(to)}] : lines[{std::move(to), std::move(from)}];
      ++cables.count;
      cables.bandwidth = cables.bandwidth + link.bandwidth;
    }
  }
  for (const auto& [ends, cables] : lines) {
    const std::string times = cables.count > 1 ? fmt::format("{} cables, ", cables.count) : "";
    out += fmt::format("  \"{}\" -- \"{}\" [label=\"{}{}\"];\n", ends.first, ends.second, times,
                       to_text(cables.bandwidth));
  }
  return out + "}\n";
}

}  // namespace foretrain
