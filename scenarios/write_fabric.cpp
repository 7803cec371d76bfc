// The canonical text of a cluster's node and fabric; and of a word.
#include <fmt/format.h>

#include <cctype>

#include "scenarios/sections.h"
#include "scenarios/yaml_node.h"

namespace foretrain {

std::string word(const std::string& text) {
  bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  for (const char c : text)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.');
  const bool reserved = text == "null" || text == "Null" || text == "NULL" || text == "true" || text == "false";
  if (plain && !reserved) return text;
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out + "\"";
}

namespace {

/// `key: value` lines at one indentation.
class Lines {
 public:
  explicit Lines(std::size_t indent) : indent_(indent, ' ') {}
  template <class Value>
  Lines& add(std::string_view key, const Value& value) {
    if constexpr (requires { to_text(value); }) {
      out_ += fmt::format("{}{}: {}\n", indent_, key, to_text(value));
    } else {
      out_ += fmt::format("{}{}: {}\n", indent_, key, value);
    }
    return *this;
  }
  template <class Value>
  Lines& add(std::string_view key, const std::optional<Value>& value) {
    return value ? add(key, *value) : *this;
  }
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  std::string indent_;
  std::string out_;
};

/// The keys of a fabric, at an indentation; those of a graph or of sites hold lines of their own.
struct WriteKeys {
  std::size_t indent = 4;

  std::string operator()(const RailSpec& s) const {
    return Lines(indent)
        .add("kind", "rail_optimised")
        .add("cable_latency", s.cable.latency)
        .add("nodes_per_group", s.nodes_per_group)
        .add("oversubscription", s.oversubscription)
        .text();
  }
  std::string operator()(const FatTreeSpec& s) const {
    return Lines(indent)
        .add("kind", "fat_tree")
        .add("cable_latency", s.cable.latency)
        .add("tiers", s.tiers)
        .add("radix", s.radix)
        .add("leaf_oversubscription", s.leaf_oversubscription)
        .add("spine_oversubscription", s.spine_oversubscription)
        .text();
  }
  std::string operator()(const MetaClosSpec& s) const {
    return Lines(indent)
        .add("kind", "meta_clos")
        .add("cable_latency", s.cable.latency)
        .add("gpus_per_rack", s.gpus_per_rack)
        .add("racks_per_pod", s.racks_per_pod)
        .add("pods", s.pods)
        .add("cluster_switches", s.cluster_switches)
        .add("aggregation_switches", s.aggregation_switches)
        .add("aggregation_oversubscription", s.aggregation_oversubscription)
        .text();
  }
  std::string operator()(const TorusSpec& s) const {
    const char* const closes = s.cube > 1 ? "auto" : "true";
    return Lines(indent)
        .add("kind", "torus")
        .add("shape", fmt::format("[{}]", fmt::join(s.shape, ", ")))
        .add("link", s.link)
        .add("latency", s.latency)
        .add("wraparound", s.wraparound ? closes : "false")
        .text();
  }
  std::string operator()(const RailOnlySpec& s) const {
    return Lines(indent).add("kind", "rail_only").add("radix", s.radix).text();
  }
  std::string operator()(const LeafSpineSpec& s) const {
    return Lines(indent)
        .add("kind", "leaf_spine")
        .add("cable_latency", s.cable.latency)
        .add("leaves", s.leaves)
        .add("leaf_ports", s.leaf_ports)
        .add("spines", s.spines)
        .add("cables_per_spine", s.cables_per_spine)
        .add("uplink", s.uplink)
        .text();
  }
  template <class Groups>
  void write_groups(Lines& lines, const Groups& s) const {
    lines.add("hosts", s.hosts).add("global_links", s.global_links).add("groups", s.groups);
    lines.add("local", s.local).add("global", s.global);
    lines.add("cable_latency", s.cable.latency).add("global_latency", s.global_latency);
  }
  std::string operator()(const DragonflySpec& s) const {
    Lines lines(indent);
    write_groups(lines.add("kind", "dragonfly").add("routers", s.routers), s);
    return lines.text();
  }
  std::string operator()(const DragonflyPlusSpec& s) const {
    Lines lines(indent);
    write_groups(lines.add("kind", "dragonfly_plus").add("leaves", s.leaves).add("spines", s.spines), s);
    return lines.text();
  }
  std::string operator()(const PodTreeSpec& s) const {
    std::string out = Lines(indent).add("kind", "pod_tree").text() + std::string(indent, ' ') + "levels:\n";
    for (const PodTreeSpec::Level& level : s.levels) {
      out += fmt::format("{:{}}- {{fan_out: {}, bandwidth: {}, latency: {}}}\n", "", indent + 2, level.fan_out,
                         to_text(level.bandwidth), to_text(level.latency));
    }
    return out;
  }
  std::string operator()(const SitesSpec& s) const {
    return Lines(indent)
               .add("kind", "sites")
               .add("sites", s.sites)
               .add("gpus_per_site", s.gpus_per_site)
               .add("link", s.links.bandwidth)
               .add("link_latency", s.links.latency)
               .text() +
           std::string(indent, ' ') + "site:\n" + std::visit(WriteKeys{indent + 2}, s.site);
  }
  std::string operator()(const GraphSpec& s) const {
    const std::string item(indent + 2, ' ');
    std::string out = Lines(indent).add("kind", "graph").text() + std::string(indent, ' ') + "vertices:\n";
    for (const GraphSpec::Vertex& it : s.vertices) {
      out += fmt::format("{}- {{name: {}, kind: {}", item, word(it.name), to_text(it.kind));
      if (it.node) out += fmt::format(", node: {}", *it.node);
      if (it.group) out += fmt::format(", group: {}", *it.group);
      out += "}\n";
    }
    out += fmt::format("{:{}}links:{}\n", "", indent, s.cables.empty() ? " []" : "");
    for (const GraphSpec::Cable& it : s.cables) {
      out += fmt::format("{}- {{from: {}, to: {}, bandwidth: {}, latency: {}, tier: {}, count: {}}}\n", item,
                         word(s.vertices[it.a].name), word(s.vertices[it.b].name), to_text(it.bandwidth),
                         to_text(it.latency), word(it.tier), it.count);
    }
    // A graph of a file that would not load as YAML stays there. Half of the limit is for what else a scenario says.
    if (s.file.empty() || out.size() <= yaml_bytes_max / 2) return out;
    return Lines(indent).add("kind", "graph").add("file", word(s.file)).text();
  }
};

struct WriteNode {
  template <class Spec>
  std::string operator()(const Spec& spec) const {
    if constexpr (requires { spec.node; }) return write_node(spec.node);
    return {};
  }
  std::string operator()(const SitesSpec& spec) const { return write_node(node_of(spec)); }
};

}  // namespace

std::string write_node(const NodeSpec& n) {
  Lines lines(4);
  lines.add("gpus", n.gpus).add("nics", n.nics).add("shape", n.shape);
  if (n.shape != NodeShape::pcie) lines.add("nvlink", n.nvlink).add("nvlink_latency", n.nvlink_latency);
  if (n.shape == NodeShape::nvswitch) lines.add("nvlink_racks", n.nvlink_racks);
  if (n.shape == NodeShape::cube_mesh || n.shape == NodeShape::pcie) {
    lines.add("sockets", n.sockets).add("gpus_per_switch", n.gpus_per_switch);
    lines.add("cpu_link", n.cpu_link).add("cpu_latency", n.cpu_latency);
  }
  lines.add("pcie", n.pcie).add("pcie_latency", n.pcie_latency).add("nic", n.nic).add("nic_latency", n.nic_latency);
  return "  node:\n" + lines.text();
}

std::string write_fabric(const FabricSpec& fabric) {
  return std::visit(WriteNode{}, fabric) + "  fabric:\n" + std::visit(WriteKeys{}, fabric);
}

}  // namespace foretrain
