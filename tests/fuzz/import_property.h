// What holds for any text given to an importer: it becomes a cluster that can be built and written, whose graph comes
// back from GraphML as it was, or it is refused with one printable message. Anything else is a bug.
#pragma once

#include <string>
#include <string_view>

#include "scenarios/graphml.h"
#include "scenarios/yaml_node.h"
#include "tests/fuzz/scenario_property.h"
#include "tools/import/import.h"
#include "tools/import/write_cluster.h"

namespace foretrain {

inline const ImportKind& kind_named(std::string_view name) {
  for (const ImportKind& kind : import_kinds()) {
    if (kind.name == name) return kind;
  }
  std::abort();
}

inline void imports_or_explains(const ImportKind& kind, const std::string& text, const ImportOptions& options) {
  Imported imported;
  try {
    imported = kind.read(InputText("fuzz.txt", text), options);
  } catch (const InputError& error) {
    require(printable(error.what()));
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
    return;
  }
  for (const std::string& note : imported.notes) require(printable(note) && note.find('\n') == std::string::npos);
  constexpr std::size_t most = 5000;  // vertices: larger ones only cost time
  if (imported.graph.vertices.size() > most || imported.graph.cables.size() > most) return;
  static_cast<void>(build_graph(imported.graph));
  const std::string written = to_graphml(imported.graph);
  require(to_graphml(graph_from_graphml(InputText("fuzz.graphml", written))) == written);
  const ClusterText cluster =
      write_cluster(imported, {std::string(kind.name), "fuzz.txt", "infiniband", "fuzz.graphml"});
  Problems problems;
  const auto source = problems.source("fuzz.yaml", cluster.yaml, ".");
  require(parse_yaml(source, "a cluster", problems).has_value() && problems.empty());
}

}  // namespace foretrain
