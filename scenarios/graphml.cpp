#include "scenarios/graphml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "scenarios/problems.h"
#include "scenarios/scenario.h"
#include "scenarios/xml_text.h"

namespace foretrain {
namespace {

/// Tags a vertex or cable of ours takes, times the most of them.
constexpr std::size_t marks_most = 10 * (graph_vertices_max + graph_cables_max);
constexpr std::size_t keys_most = 256;

constexpr std::array all_kinds = {VertexKind::gpu,         VertexKind::nic,      VertexKind::host,
                                  VertexKind::pcie_switch, VertexKind::nvswitch, VertexKind::leaf,
                                  VertexKind::spine,       VertexKind::core,     VertexKind::router};

class Reader {
 public:
  explicit Reader(const InputText& input) : xml_(input, marks_most) {}

  GraphmlGraph read() {
    const pugi::xml_node root = xml_.root();
    if (std::string_view(root.name()) != "graphml") {
      xml_.fail(root, fmt::format("the root is '{}'; allowed: graphml", shown(root.name())));
    }
    for (const pugi::xml_node key : root.children("key")) read_key(key);
    const pugi::xml_node graph = root.child("graph");
    if (!graph) xml_.fail(root, "there is no graph; allowed: one");
    if (const pugi::xml_node second = graph.next_sibling("graph")) xml_.fail(second, "a second graph; allowed: one");
    const std::string_view direction = graph.attribute("edgedefault").value();
    if (direction != "directed" && direction != "undirected" && !direction.empty()) {
      xml_.fail(graph, fmt::format("edgedefault '{}'; allowed: directed, undirected", shown(direction)));
    }
    for (const pugi::xml_node child : graph.children()) {
      const std::string_view name = child.name();
      if (name == "node") read_node(child);
      if (name == "hyperedge") xml_.fail(child, "a hyperedge; allowed: edges between two nodes");
    }
    for (const pugi::xml_node edge : graph.children("edge")) read_edge(edge, direction == "directed");
    join_directions();
    return std::move(graph_);
  }

 private:
  struct Key {
    std::uint32_t attribute = 0;
    std::string fallback;
    bool has_fallback = false, of_node = true, of_edge = true;
  };

  void read_key(pugi::xml_node key) {
    const std::string id = xml_.required(key, "id");
    if (keys_.size() == keys_most) xml_.fail(key, fmt::format("more than {} keys; allowed: fewer", keys_most));
    const char* name = key.attribute("attr.name").value();
    const std::string_view domain = key.attribute("for").value();
    const pugi::xml_node fallback = key.child("default");
    const Key made{.attribute = attribute(*name == '\0' ? id : name),
                   .fallback = fallback.text().get(),
                   .has_fallback = !fallback.empty(),
                   .of_node = domain != "edge",
                   .of_edge = domain != "node"};
    if (!keys_.emplace(id, made).second) xml_.fail(key, fmt::format("key '{}' stands there twice", shown(id)));
  }

  std::uint32_t attribute(const std::string& name) {
    const auto at = std::find(graph_.attributes.begin(), graph_.attributes.end(), name);
    const auto index = static_cast<std::uint32_t>(at - graph_.attributes.begin());
    if (at == graph_.attributes.end()) graph_.attributes.push_back(name);
    return index;
  }

  GraphmlGraph::Values values(pugi::xml_node element, bool of_node) {
    GraphmlGraph::Values found;
    const auto given = [&](std::uint32_t key) {
      return std::any_of(found.begin(), found.end(), [&](const auto& value) { return value.first == key; });
    };
    for (const pugi::xml_node data : element.children("data")) {
      const std::string id = xml_.required(data, "key");
      const auto key = keys_.find(id);
      if (key == keys_.end())
        xml_.fail(data, fmt::format("key '{}' is not declared; allowed: a declared one", shown(id)));
      if (given(key->second.attribute)) xml_.fail(data, fmt::format("key '{}' stands there twice", shown(id)));
      found.emplace_back(key->second.attribute, data.text().get());
    }
    for (const auto& [id, key] : keys_) {
      const bool ours = of_node ? key.of_node : key.of_edge;
      if (ours && key.has_fallback && !given(key.attribute)) found.emplace_back(key.attribute, key.fallback);
    }
    return found;
  }

  void read_node(pugi::xml_node node) {
    const std::string id = xml_.required(node, "id");
    if (node.child("graph")) xml_.fail(node, "a graph inside a node; allowed: none");
    if (graph_.nodes.size() == graph_vertices_max) {
      xml_.fail(node, fmt::format("more than {} nodes; allowed: up to that", graph_vertices_max));
    }
    const auto index = static_cast<std::uint32_t>(graph_.nodes.size());
    if (!index_.emplace(id, index).second) xml_.fail(node, fmt::format("a second node '{}'; allowed: one", shown(id)));
    graph_.nodes.push_back({id, values(node, true), xml_.offset(node)});
  }

  std::uint32_t end_of(pugi::xml_node edge, const char* which) {
    const std::string id = xml_.required(edge, which);
    const auto found = index_.find(id);
    if (found == index_.end()) {
      xml_.fail(edge, fmt::format("{} '{}' is no node of the graph; allowed: the id of one", which, shown(id)));
    }
    return found->second;
  }

  void read_edge(pugi::xml_node edge, bool directed_by_default) {
    const std::uint32_t a = end_of(edge, "source");
    const std::uint32_t b = end_of(edge, "target");
    if (a == b)
      xml_.fail(edge, fmt::format("an edge from '{}' to itself; allowed: two nodes", shown(graph_.nodes[a].id)));
    if (graph_.edges.size() == graph_cables_max) {
      xml_.fail(edge, fmt::format("more than {} edges; allowed: up to that", graph_cables_max));
    }
    const std::string_view own = edge.attribute("directed").value();
    directed_.push_back(own.empty() ? directed_by_default : own == "true");
    elements_.push_back(edge);
    graph_.edges.push_back({a, b, values(edge, false), xml_.offset(edge)});
  }

  /// Of the two directed edges of a cable the one that came second goes.
  void join_directions() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::size_t>> waiting;
    std::vector<bool> gone(graph_.edges.size(), false);
    for (std::size_t i = 0; i < graph_.edges.size(); ++i) {
      if (!directed_[i]) continue;
      const GraphmlGraph::Edge& edge = graph_.edges[i];
      std::vector<std::size_t>& back = waiting[{edge.b, edge.a}];
      if (back.empty()) {
        waiting[{edge.a, edge.b}].push_back(i);
        continue;
      }
      if (graph_.edges[back.back()].values != edge.values) {
        xml_.fail(elements_[i], "the two directions of a cable differ; allowed: the same attributes both ways");
      }
      back.pop_back();
      gone[i] = true;
    }
    for (const auto& [ends, lone] : waiting) {
      if (!lone.empty()) {
        xml_.fail(elements_[lone.front()],
                  "a directed edge without its way back; allowed: edges both ways, or edgedefault=\"undirected\"");
      }
    }
    std::size_t i = 0;
    std::erase_if(graph_.edges, [&](const GraphmlGraph::Edge&) { return gone[i++]; });
  }

  XmlText xml_;
  GraphmlGraph graph_;
  std::map<std::string, Key> keys_;
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<bool> directed_;
  std::vector<pugi::xml_node> elements_;
};

std::optional<std::uint32_t> whole(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// From nodes and edges with attributes to vertices and cables of a fabric.
class Converter {
 public:
  Converter(const InputText& input, const GraphmlGraph& graph) : input_(input), graph_(graph) {}

  GraphSpec convert() {
    GraphSpec spec;
    for (const GraphmlGraph::Node& node : graph_.nodes) spec.vertices.push_back(vertex(node));
    for (const GraphmlGraph::Edge& edge : graph_.edges) spec.cables.push_back(cable(edge));
    return spec;
  }

 private:
  const std::string& needed(const GraphmlGraph::Values& values, std::size_t offset, std::string_view attribute) {
    const std::string* value = graphml_value(graph_, values, attribute);
    if (value == nullptr) input_.fail(offset, fmt::format("attribute '{}' is missing; needed: it", attribute));
    input_.check_words(offset, attribute, *value);
    return *value;
  }
  std::uint32_t number(const std::string& text, std::size_t offset, std::string_view attribute, std::uint32_t most) {
    const std::optional<std::uint32_t> value = whole(text);
    if (!value || *value > most) {
      input_.fail(offset, fmt::format("{} '{}'; allowed: a whole number up to {}", attribute, shown(text), most));
    }
    return *value;
  }
  template <class Parsed>
  auto quantity(const Parsed& parsed, std::size_t offset, std::string_view attribute) {
    if (!parsed.value) input_.fail(offset, fmt::format("{}: {}", attribute, parsed.error));
    return *parsed.value;
  }

  GraphSpec::Vertex vertex(const GraphmlGraph::Node& node) {
    GraphSpec::Vertex made;
    const std::string* name = graphml_value(graph_, node.values, "name");
    made.name = name == nullptr ? node.id : *name;
    input_.check_words(node.offset, "name", made.name);
    const std::string& kind = needed(node.values, node.offset, "kind");
    const std::optional<VertexKind> meant = vertex_kind_of(kind);
    if (!meant) {
      input_.fail(node.offset, fmt::format("kind '{}'; allowed: {}", shown(kind), vertex_kind_words()));
    }
    made.kind = *meant;
    constexpr std::uint32_t most = graph_vertices_max - 1;
    if (const std::string* in = graphml_value(graph_, node.values, "node")) {
      made.node = number(*in, node.offset, "node", most);
    }
    if (const std::string* in = graphml_value(graph_, node.values, "group")) {
      made.group = number(*in, node.offset, "group", most);
    }
    return made;
  }

  GraphSpec::Cable cable(const GraphmlGraph::Edge& edge) {
    GraphSpec::Cable made{.a = edge.a, .b = edge.b};
    made.bandwidth = quantity(parse_bandwidth(needed(edge.values, edge.offset, "bandwidth")), edge.offset, "bandwidth");
    made.latency = quantity(parse_duration(needed(edge.values, edge.offset, "latency")), edge.offset, "latency");
    made.tier = needed(edge.values, edge.offset, "tier");
    if (const std::string* count = graphml_value(graph_, edge.values, "count")) {
      made.count = number(*count, edge.offset, "count", 1U << 16);
      if (made.count == 0) input_.fail(edge.offset, "count 0; allowed: 1 or more");
    }
    cables_ += made.count;
    if (cables_ > graph_cables_max) {
      input_.fail(edge.offset, fmt::format("more than {} cables; allowed: up to that", graph_cables_max));
    }
    return made;
  }

  const InputText& input_;
  const GraphmlGraph& graph_;
  std::size_t cables_ = 0;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

void write_key(std::string& out, std::string_view name, std::string_view domain, std::string_view type) {
  fmt::format_to(std::back_inserter(out), "  <key id=\"{0}\" for=\"{1}\" attr.name=\"{0}\" attr.type=\"{2}\"/>\n", name,
                 domain, type);
}

}  // namespace

std::optional<VertexKind> vertex_kind_of(std::string_view word) {
  for (const VertexKind kind : all_kinds) {
    if (to_text(kind) == word) return kind;
  }
  return std::nullopt;
}

std::string vertex_kind_words() {
  std::string words;
  for (const VertexKind kind : all_kinds) words += (words.empty() ? "" : ", ") + std::string(to_text(kind));
  return words;
}

GraphmlGraph read_graphml(const InputText& input) { return Reader(input).read(); }

const std::string* graphml_value(const GraphmlGraph& graph, const GraphmlGraph::Values& values,
                                 std::string_view attribute) {
  for (const auto& [index, text] : values) {
    if (graph.attributes[index] == attribute) return &text;
  }
  return nullptr;
}

GraphSpec graph_from_graphml(const InputText& input) {
  const GraphmlGraph graph = read_graphml(input);
  GraphSpec spec = Converter(input, graph).convert();
  try {
    static_cast<void>(build_graph(spec));
  } catch (const std::invalid_argument& impossible) {
    input.fail(0, impossible.what());
  }
  return spec;
}

GraphSpec load_graphml(const std::filesystem::path& file) {
  return graph_from_graphml(InputText::from_file(file, graphml_bytes_max));
}

std::optional<GraphSpec> graph_of_key_file(MapReader& reader) {
  const YamlNode* node = reader.child("file");
  if (node == nullptr) return std::nullopt;
  GraphSpec graph;
  const std::filesystem::path file = node->place.source->folder / reader.text("file");
  if (reader.any_bad("file")) return graph;
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
    reader.refuse("file", fmt::format("'{}' is no regular file; allowed: a GraphML file", shown(node->scalar)));
    return graph;
  }
  try {
    graph = load_graphml(file);
    graph.file = std::filesystem::absolute(file).lexically_normal().string();
  } catch (const InputError& mistake) {
    reader.refuse("file", mistake.what());
  }
  return graph;
}

std::string to_graphml(const GraphSpec& graph) {
  std::string out =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n";
  write_key(out, "name", "node", "string");
  write_key(out, "kind", "node", "string");
  write_key(out, "node", "node", "int");
  write_key(out, "group", "node", "int");
  write_key(out, "bandwidth", "edge", "string");
  write_key(out, "latency", "edge", "string");
  write_key(out, "tier", "edge", "string");
  write_key(out, "count", "edge", "int");
  out += "  <graph edgedefault=\"undirected\">\n";
  const auto into = std::back_inserter(out);
  for (std::size_t i = 0; i < graph.vertices.size(); ++i) {
    const GraphSpec::Vertex& it = graph.vertices[i];
    fmt::format_to(into, "    <node id=\"n{}\"><data key=\"name\">{}</data><data key=\"kind\">{}</data>", i,
                   escaped(it.name), to_text(it.kind));
    if (it.node) fmt::format_to(into, "<data key=\"node\">{}</data>", *it.node);
    if (it.group) fmt::format_to(into, "<data key=\"group\">{}</data>", *it.group);
    out += "</node>\n";
  }
  for (const GraphSpec::Cable& it : graph.cables) {
    fmt::format_to(into,
                   "    <edge source=\"n{}\" target=\"n{}\"><data key=\"bandwidth\">{}</data>"
                   "<data key=\"latency\">{}</data><data key=\"tier\">{}</data>",
                   it.a, it.b, to_text(it.bandwidth), to_text(it.latency), escaped(it.tier));
    if (it.count != 1) fmt::format_to(into, "<data key=\"count\">{}</data>", it.count);
    out += "</edge>\n";
  }
  return out + "  </graph>\n</graphml>\n";
}

}  // namespace foretrain
