// The cluster YAML of an import.
#pragma once

#include <string>
#include <vector>

#include "tools/import/import.h"

namespace foretrain {

/// Above either limit the graph goes into a GraphML file of its own: more vertices than a person reads, or more text
/// than the YAML loader takes.
inline constexpr std::size_t inline_vertices_most = 500;

struct ClusterText {
  std::string yaml;
  std::string graphml;  ///< empty: the YAML holds the graph
};
/// `kind` and `source` name what was imported, `network` the transport between nodes, `graph_file` the GraphML file as
/// the YAML names it.
struct ClusterOrigin {
  std::string kind, source, network, graph_file;
};
[[nodiscard]] ClusterText write_cluster(const Imported& imported, const ClusterOrigin& origin);

}  // namespace foretrain
