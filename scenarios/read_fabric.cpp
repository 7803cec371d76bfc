// The sections `node` and `fabric` of a cluster. Keys and shapes: docs/fabrics.md.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>

#include "scenarios/graphml.h"
#include "scenarios/sections.h"

namespace foretrain {
namespace {

enum class FabricKind : std::uint8_t {
  rail_optimised,
  fat_tree,
  meta_clos,
  torus,
  rail_only,
  leaf_spine,
  dragonfly,
  dragonfly_plus,
  pod_tree,
  sites,
  graph
};

Words<FabricKind> fabric_words() {
  return {{"rail_optimised", FabricKind::rail_optimised},
          {"fat_tree", FabricKind::fat_tree},
          {"meta_clos", FabricKind::meta_clos},
          {"torus", FabricKind::torus},
          {"rail_only", FabricKind::rail_only},
          {"leaf_spine", FabricKind::leaf_spine},
          {"dragonfly", FabricKind::dragonfly},
          {"dragonfly_plus", FabricKind::dragonfly_plus},
          {"pod_tree", FabricKind::pod_tree},
          {"sites", FabricKind::sites},
          {"graph", FabricKind::graph}};
}

/// What a site may be: shapes that have a topmost layer of switches.
Words<FabricKind> site_words() {
  return {{"rail_optimised", FabricKind::rail_optimised},
          {"fat_tree", FabricKind::fat_tree},
          {"meta_clos", FabricKind::meta_clos},
          {"leaf_spine", FabricKind::leaf_spine}};
}

constexpr NumberRange oversubscription_range{1, 64};

std::uint32_t count(MapReader& reader, std::string_view key, IntegerRange range,
                    std::optional<std::uint32_t> fallback) {
  return static_cast<std::uint32_t>(
      reader.integer(key, range, fallback ? std::optional<std::int64_t>(*fallback) : std::nullopt));
}

std::optional<Bandwidth> bandwidth_if_given(MapReader& reader, std::string_view key) {
  const bool given = reader.given(key);
  const Bandwidth found = reader.bandwidth(key, gigabytes_per_second(1));
  return given ? std::optional(found) : std::nullopt;
}

RailSpec read_rail(MapReader& reader) {
  RailSpec spec;
  spec.cable.latency = reader.duration("cable_latency", spec.cable.latency);
  spec.nodes_per_group = count(reader, "nodes_per_group", {1, 1024}, spec.nodes_per_group);
  spec.oversubscription = reader.number("oversubscription", oversubscription_range, spec.oversubscription);
  return spec;
}

FatTreeSpec read_fat_tree(MapReader& reader) {
  FatTreeSpec spec;
  spec.cable.latency = reader.duration("cable_latency", spec.cable.latency);
  spec.tiers = count(reader, "tiers", {2, 4}, spec.tiers);
  spec.radix = count(reader, "radix", {4, 128}, spec.radix);  // the whole design is built: 128 ports make 524,288 hosts
  if (spec.radix % 2 != 0) reader.refuse("radix", fmt::format("{} ports; allowed: an even number", spec.radix));
  spec.leaf_oversubscription = reader.number("leaf_oversubscription", oversubscription_range, 1);
  spec.spine_oversubscription = reader.number("spine_oversubscription", oversubscription_range, 1);
  return spec;
}

MetaClosSpec read_meta_clos(MapReader& reader) {
  MetaClosSpec spec;
  spec.cable.latency = reader.duration("cable_latency", spec.cable.latency);
  spec.gpus_per_rack = count(reader, "gpus_per_rack", {1, 256}, spec.gpus_per_rack);
  spec.racks_per_pod = count(reader, "racks_per_pod", {1, 1024}, spec.racks_per_pod);
  spec.pods = count(reader, "pods", {1, 64}, spec.pods);
  spec.cluster_switches = count(reader, "cluster_switches", {1, 256}, spec.cluster_switches);
  spec.aggregation_switches = count(reader, "aggregation_switches", {1, 256}, spec.aggregation_switches);
  spec.aggregation_oversubscription =
      reader.number("aggregation_oversubscription", oversubscription_range, spec.aggregation_oversubscription);
  return spec;
}

RailOnlySpec read_rail_only(MapReader& reader) {
  RailOnlySpec spec;
  spec.radix = count(reader, "radix", {1, 65536}, spec.radix);
  return spec;
}

LeafSpineSpec read_leaf_spine(MapReader& reader) {
  LeafSpineSpec spec;
  spec.cable.latency = reader.duration("cable_latency", spec.cable.latency);
  spec.leaves = count(reader, "leaves", {1, 4096}, spec.leaves);
  spec.leaf_ports = count(reader, "leaf_ports", {1, 1024}, spec.leaf_ports);
  spec.spines = count(reader, "spines", {1, 1024}, spec.spines);
  spec.cables_per_spine = count(reader, "cables_per_spine", {1, 64}, spec.cables_per_spine);
  spec.uplink = bandwidth_if_given(reader, "uplink");
  return spec;
}

/// The keys that dragonfly and dragonfly+ share; `switches` of a group hold the global links.
template <class Spec>
void read_groups(MapReader& reader, Spec& spec, std::uint32_t switches) {
  spec.cable.latency = reader.duration("cable_latency", spec.cable.latency);
  spec.hosts = count(reader, "hosts", {1, 1024}, spec.hosts);
  spec.global_links = count(reader, "global_links", {1, 1024}, spec.global_links);
  const std::int64_t most = std::int64_t{switches} * spec.global_links + 1;  // Kim 2008: a h + 1
  spec.groups = count(reader, "groups", {1, most}, static_cast<std::uint32_t>(most));
  spec.local = bandwidth_if_given(reader, "local");
  spec.global = bandwidth_if_given(reader, "global");
  spec.global_latency = reader.duration("global_latency", spec.global_latency);
}

DragonflySpec read_dragonfly(MapReader& reader) {
  DragonflySpec spec;
  spec.routers = count(reader, "routers", {1, 1024}, spec.routers);
  read_groups(reader, spec, spec.routers);
  return spec;
}

DragonflyPlusSpec read_dragonfly_plus(MapReader& reader) {
  DragonflyPlusSpec spec;
  spec.leaves = count(reader, "leaves", {1, 1024}, spec.leaves);
  spec.spines = count(reader, "spines", {1, 1024}, spec.spines);
  read_groups(reader, spec, spec.spines);
  return spec;
}

/// "4x4x8"; nothing when it is not of that form.
std::vector<std::uint32_t> extents_of(std::string_view text, std::uint32_t most) {
  std::vector<std::uint32_t> extents;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    std::uint32_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc{} || extent == 0 || extent > most || *at == '0') return {};
    extents.push_back(extent);
    if (next != end && (*next != 'x' || next + 1 == end)) return {};
    at = next == end ? end : next + 1;
  }
  return extents;
}

TorusShape read_shape(const YamlNode& map, MapReader& reader) {
  constexpr std::uint32_t extent_most = 1024;
  const YamlNode* value = map.find("shape");
  TorusShape shape;
  if (value != nullptr && value->kind == YamlNode::Kind::scalar) {
    shape = extents_of(reader.text("shape"), extent_most);
    if (shape.empty()) {
      reader.refuse("shape", fmt::format("found {}; allowed: extents from 1 to {}, such as 4x4x8 or [4, 4, 8]",
                                         described(*value), extent_most));
    }
  } else {
    for (const std::int64_t extent : reader.integers("shape", {1, extent_most})) {
      shape.push_back(static_cast<std::uint32_t>(extent));
    }
  }
  return shape;
}

TorusSpec read_torus(const YamlNode& map, MapReader& reader) {
  constexpr std::size_t dimensions_most = 6;
  constexpr std::uint32_t tpu_cube = 4;  // TPU v4 (Jouppi 2023): building blocks of 4x4x4
  TorusSpec spec;
  spec.shape = read_shape(map, reader);
  std::int64_t product = 1;
  for (const std::uint32_t extent : spec.shape) product = std::min(product * extent, gpus_most + 1);
  const bool readable = reader.given("shape") && !reader.any_bad("shape");
  if (readable && (spec.shape.empty() || spec.shape.size() > dimensions_most)) {
    reader.refuse("shape", fmt::format("{} dimensions; allowed: 1 to {}", spec.shape.size(), dimensions_most));
  } else if (product > gpus_most) {
    reader.refuse("shape", fmt::format("more than {} GPUs; allowed: up to that many", gpus_most));
  }
  spec.link = reader.bandwidth("link", spec.link);
  spec.latency = reader.duration("latency", spec.latency);
  enum class Closes : std::uint8_t { never, always, whole_cubes };
  const auto closes = reader.choice<Closes>(
      "wraparound", {{"true", Closes::always}, {"false", Closes::never}, {"auto", Closes::whole_cubes}},
      Closes::always);
  spec.wraparound = closes != Closes::never;
  spec.cube = closes == Closes::whole_cubes ? tpu_cube : 1;
  return spec;
}

/// The items of a list of maps; notes it when the value is none.
const std::vector<YamlNode>& items_of(MapReader& reader, std::string_view key, std::string_view of) {
  static const std::vector<YamlNode> none;
  const YamlNode* list = reader.child(key, of);
  if (list == nullptr) return none;
  if (list->kind != YamlNode::Kind::list) {
    reader.refuse(key, fmt::format("found {}; allowed: {}", described(*list), of));
  }
  return list->items;
}

PodTreeSpec read_pod_tree(MapReader& reader, Problems& problems) {
  PodTreeSpec spec;
  const auto& items = items_of(reader, "levels", "a list of {fan_out, bandwidth, latency}, from the accelerators up");
  for (std::size_t i = 0; i < items.size(); ++i) {
    MapReader level(items[i], fmt::format("{}[{}]", dotted(reader.path(), "levels"), i), problems);
    spec.levels.push_back({.fan_out = count(level, "fan_out", {1, 4096}, std::nullopt),
                           .bandwidth = level.bandwidth("bandwidth"),
                           .latency = level.duration("latency", nanoseconds(500))});
    level.finish();
  }
  constexpr std::size_t levels_most = 4;
  if (reader.given("levels") && !reader.any_bad("levels") && (items.empty() || items.size() > levels_most)) {
    reader.refuse("levels", fmt::format("{} levels; allowed: 1 to {}", items.size(), levels_most));
  }
  return spec;
}

Words<VertexKind> vertex_words() {
  Words<VertexKind> words;
  for (auto k = static_cast<std::uint8_t>(VertexKind::gpu); k <= static_cast<std::uint8_t>(VertexKind::router); ++k) {
    words.emplace_back(to_text(static_cast<VertexKind>(k)), static_cast<VertexKind>(k));
  }
  return words;
}

std::optional<std::uint32_t> number_if_given(MapReader& reader, std::string_view key) {
  const bool given = reader.given(key);
  const std::uint32_t found = count(reader, key, {0, gpus_most}, 0);
  return given ? std::optional(found) : std::nullopt;
}

GraphSpec::Vertex read_vertex(const YamlNode& map, const std::string& path, Problems& problems) {
  MapReader reader(map, path, problems);
  GraphSpec::Vertex vertex{.name = reader.text("name"),
                           .kind = reader.choice<VertexKind>("kind", vertex_words()),
                           .node = number_if_given(reader, "node"),
                           .group = number_if_given(reader, "group")};
  if (!reader.given("kind")) reader.refuse("kind", "missing key 'kind'; needed: gpu, nic, a kind of switch");
  reader.finish();
  return vertex;
}

using Positions = std::map<std::string, std::uint32_t>;  // of vertices, by name

std::uint32_t read_end(MapReader& reader, std::string_view key, const Positions& positions) {
  const std::string name = reader.text(key);
  const auto found = positions.find(name);
  if (found != positions.end()) return found->second;
  if (reader.given(key) && !reader.any_bad(key)) {
    reader.refuse(key, fmt::format("no vertex is named '{}'; allowed: a name from the list 'vertices'", shown(name)));
  }
  return 0;
}

GraphSpec::Cable read_cable(const YamlNode& map, const std::string& path, const Positions& positions,
                            Problems& problems) {
  MapReader reader(map, path, problems);
  GraphSpec::Cable cable;
  cable.a = read_end(reader, "from", positions);
  cable.b = read_end(reader, "to", positions);
  cable.bandwidth = reader.bandwidth("bandwidth");
  cable.latency = reader.duration("latency", nanoseconds(500));
  cable.tier = reader.text("tier", "link");
  cable.count = count(reader, "count", {1, 1024}, 1);
  reader.finish();
  return cable;
}

GraphSpec read_graph(MapReader& reader, Problems& problems) {
  if (std::optional<GraphSpec> of_file = graph_of_key_file(reader)) return std::move(*of_file);
  GraphSpec spec;
  Positions positions;
  const auto& vertices = items_of(reader, "vertices", "a list of {name, kind, node}");
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", dotted(reader.path(), "vertices"), i);
    spec.vertices.push_back(read_vertex(vertices[i], path, problems));
    positions.try_emplace(spec.vertices.back().name, static_cast<std::uint32_t>(i));
  }
  const auto& links = items_of(reader, "links", "a list of {from, to, bandwidth, latency, tier, count}");
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", dotted(reader.path(), "links"), i);
    spec.cables.push_back(read_cable(links[i], path, positions, problems));
  }
  if (!reader.given("vertices") || reader.any_bad("vertices") || reader.any_bad("links")) return spec;
  try {
    static_cast<void>(build_graph(spec));
  } catch (const std::invalid_argument& impossible) {
    reader.refuse("vertices", impossible.what());
  }
  return spec;
}

FabricSpec read_kind(const YamlNode& map, const std::string& path, const Words<FabricKind>& kinds, Problems& problems);

SitesSpec read_sites(MapReader& reader, Problems& problems) {
  SitesSpec spec;
  spec.sites = count(reader, "sites", {1, 64}, spec.sites);
  spec.gpus_per_site = count(reader, "gpus_per_site", {1, gpus_most}, spec.gpus_per_site);
  spec.links.bandwidth = reader.bandwidth("link", spec.links.bandwidth);
  spec.links.latency = reader.duration("link_latency", spec.links.latency);
  const YamlNode* site = reader.child("site", "the fabric of a site: a map with the key kind");
  if (site == nullptr) return spec;
  const auto keep = [&](const auto& one) {
    if constexpr (requires { spec.site = one; }) spec.site = one;
  };
  std::visit(keep, read_kind(*site, dotted(reader.path(), "site"), site_words(), problems));
  return spec;
}

FabricSpec read_as(FabricKind kind, const YamlNode& map, MapReader& reader, Problems& problems) {
  switch (kind) {
    case FabricKind::rail_optimised:
      return read_rail(reader);
    case FabricKind::fat_tree:
      return read_fat_tree(reader);
    case FabricKind::meta_clos:
      return read_meta_clos(reader);
    case FabricKind::torus:
      return read_torus(map, reader);
    case FabricKind::rail_only:
      return read_rail_only(reader);
    case FabricKind::leaf_spine:
      return read_leaf_spine(reader);
    case FabricKind::dragonfly:
      return read_dragonfly(reader);
    case FabricKind::dragonfly_plus:
      return read_dragonfly_plus(reader);
    case FabricKind::pod_tree:
      return read_pod_tree(reader, problems);
    case FabricKind::sites:
      return read_sites(reader, problems);
    case FabricKind::graph:
      break;
  }
  return read_graph(reader, problems);
}

FabricSpec read_kind(const YamlNode& map, const std::string& path, const Words<FabricKind>& kinds, Problems& problems) {
  MapReader reader(map, path, problems);
  const FabricKind kind = reader.choice<FabricKind>("kind", kinds);
  // With an unknown kind the other keys have no meaning: say only that.
  if (!reader.given("kind") || problems.bad(dotted(path, "kind"))) {
    if (!reader.given("kind") && !problems.bad(path)) {
      std::vector<std::string_view> names;
      for (const auto& [name, meaning] : kinds) names.push_back(name);
      reader.refuse("kind", fmt::format("missing key 'kind'; needed: one of {}", fmt::join(names, ", ")));
    }
    return RailSpec{};
  }
  FabricSpec fabric = read_as(kind, map, reader, problems);
  reader.finish();
  return fabric;
}

/// A key that only some shapes of a node know.
void only_for(MapReader& reader, std::string_view key, bool known, const NodeSpec& node) {
  if (reader.given(key) && !known && !reader.any_bad("shape")) {
    reader.refuse(key, fmt::format("means nothing to the shape {}; allowed: not to give it", to_text(node.shape)));
  }
}

void read_pcie_tree(MapReader& reader, NodeSpec& node) {
  node.sockets = count(reader, "sockets", {1, 8}, node.sockets);
  node.gpus_per_switch = count(reader, "gpus_per_switch", {0, 256}, node.gpus_per_switch);
  node.cpu_link = reader.bandwidth("cpu_link", node.cpu_link);
  node.cpu_latency = reader.duration("cpu_latency", node.cpu_latency);
  const bool known = node.shape == NodeShape::cube_mesh || node.shape == NodeShape::pcie;
  for (const std::string_view key : {"sockets", "gpus_per_switch", "cpu_link", "cpu_latency"}) {
    only_for(reader, key, known, node);
  }
}

}  // namespace

FabricSpec read_fabric(const YamlNode& map, const std::string& path, Problems& problems) {
  return read_kind(map, path, fabric_words(), problems);
}

NodeSpec read_node(const YamlNode& map, const std::string& path, Problems& problems) {
  MapReader reader(map, path, problems);
  NodeSpec node;
  node.gpus = count(reader, "gpus", {1, 1024}, node.gpus);
  node.nics = count(reader, "nics", {1, 1024}, node.gpus);
  node.shape = reader.choice<NodeShape>("shape", words_of<NodeShape>(all_node_shapes), node.shape);
  // Given to the shape pcie, these two are ignored: so a server can be asked what it would do without its NVLink.
  node.nvlink = reader.bandwidth("nvlink", node.nvlink);
  node.nvlink_latency = reader.duration("nvlink_latency", node.nvlink_latency);
  node.nvlink_racks = count(reader, "nvlink_racks", {1, 64}, node.nvlink_racks);
  only_for(reader, "nvlink_racks", node.shape == NodeShape::nvswitch, node);
  read_pcie_tree(reader, node);
  node.pcie = reader.bandwidth("pcie", node.pcie);
  node.pcie_latency = reader.duration("pcie_latency", node.pcie_latency);
  node.nic = reader.bandwidth("nic", node.nic);
  node.nic_latency = reader.duration("nic_latency", node.nic_latency);
  if (node.gpus % node.nics != 0 && node.nics % node.gpus != 0) {
    reader.refuse("nics", fmt::format("{} NICs for {} GPUs; allowed: a divisor or a multiple of {}", node.nics,
                                      node.gpus, node.gpus));
  }
  if (node.gpus % node.nvlink_racks != 0) {
    reader.refuse("nvlink_racks", fmt::format("{} racks of {} GPUs; allowed: a divisor", node.nvlink_racks, node.gpus));
  }
  if (node.shape == NodeShape::cube_mesh && node.gpus != 8) {
    reader.refuse("shape", fmt::format("a cube_mesh of {} GPUs; allowed: 8", node.gpus));
  }
  reader.finish();
  return node;
}

}  // namespace foretrain
