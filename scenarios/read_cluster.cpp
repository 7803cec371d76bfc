#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

MeasuredSizes read_measured(MapReader& reader) {
  return reader.choice<MeasuredSizes>("measured", words_of<MeasuredSizes>(all_measured_sizes), MeasuredSizes::none);
}

NodeTransport read_node_transport(const YamlNode& map, const std::string& path, Problems& problems) {
  MapReader reader(map, path, problems);
  NodeTransport node;
  reader.text("name", "custom");
  node.generation = reader.choice<GpuGeneration>("generation", generation_words());
  node.line = reader.bandwidth("line");
  node.launch = reader.duration("launch");
  node.ll_rate = reader.bandwidth("ll_rate");
  node.ll128_step = reader.duration("ll128_step");
  node.ll128_rate = reader.bandwidth("ll128_rate");
  node.ring_step = reader.duration("ring_step");
  node.ring_rate = reader.bandwidth("ring_rate");
  node.ring_rate_across = reader.bandwidth("ring_rate_across", node.ring_rate);
  node.nvls_efficiency = reader.number("nvls_efficiency", {0, 1}, 0);
  node.nvls_fill = reader.duration("nvls_fill", Duration{});
  node.p2p_efficiency = reader.number("p2p_efficiency", {0.01, 1});
  node.measured = read_measured(reader);
  reader.finish();
  return node;
}

NetworkTransport read_network_transport(const YamlNode& map, const std::string& path, Problems& problems) {
  MapReader reader(map, path, problems);
  NetworkTransport network;
  reader.text("name", "custom");
  network.ll_step = reader.duration("ll_step");
  network.ll_rate = reader.bandwidth("ll_rate");
  network.ll128_step = reader.duration("ll128_step");
  network.ll128_part = reader.number("ll128_part", {0.01, 1});
  network.ring_step = reader.duration("ring_step");
  network.tree_step = reader.duration("tree_step");
  network.efficiency = reader.number("efficiency", {0.01, 1});
  network.tree_allowed = reader.boolean("tree_allowed", true);
  network.ring_all_reduce_allowed = reader.boolean("ring_all_reduce_allowed", true);
  network.measured = read_measured(reader);
  network.in_network_reduction = reader.boolean("in_network_reduction", false);
  reader.finish();
  return network;
}

/// The part of a cluster under `key`, taken from its shelf; null if it cannot be had (which is then noted).
std::optional<YamlNode> part(MapReader& reader, std::string_view key, std::string_view needed, Shelf shelf,
                             const Reading& reading) {
  const YamlNode* node = reader.child(key, needed);
  if (node == nullptr) return std::nullopt;
  return reading.catalogue.resolve(*node, shelf, dotted(reader.path(), key), reading.problems);
}

Transport read_transport(const YamlNode& map, const std::string& path, const Reading& reading) {
  MapReader reader(map, path, reading.problems);
  Transport transport;
  if (const auto node =
          part(reader, "node", "a transport of transports/node, such as hopper", Shelf::node_transports, reading)) {
    transport.node = read_node_transport(*node, dotted(path, "node"), reading.problems);
  }
  if (const auto network = part(reader, "network", "a transport of transports/network, such as ndr",
                                Shelf::network_transports, reading)) {
    transport.network = read_network_transport(*network, dotted(path, "network"), reading.problems);
  }
  reader.finish();
  return transport;
}

/// The rates of a transport were measured at its `line`; a node with other NVLinks (H800's 200 GB/s) gets its rings'
/// rate in proportion: 368 * 200/450 = 164 GB/s, where DeepSeek-V3 (section 3.1) quotes 160.
void fit_to_nvlink(NodeTransport& transport, Bandwidth nvlink) {
  if (transport.line == nvlink) return;
  const auto in_proportion = [part = nvlink / transport.line](Bandwidth rate) {
    return std::max(bytes_per_second(1), scaled(rate, part));
  };
  transport.ring_rate = in_proportion(transport.ring_rate);
  if (transport.ring_rate_across) transport.ring_rate_across = in_proportion(*transport.ring_rate_across);
  transport.line = nvlink;
  transport.measured = MeasuredSizes::none;
}

struct NodeVisitor {
  NodeSpec node;
  template <class Spec>
  void operator()(Spec& spec) const {
    if constexpr (requires { spec.node; }) spec.node = node;
  }
  void operator()(SitesSpec& spec) const { std::visit(*this, spec.site); }
};

/// What the GPUs of a node reach each other over, one direction.
Bandwidth line_of(const NodeSpec& node) { return node.shape == NodeShape::pcie ? node.pcie : node.nvlink; }

/// The slowest of what the GPUs of any make of server reach each other over.
Bandwidth least_line(const NodeSpec& node) {
  Bandwidth least = line_of(node);
  for (const OtherNodes& other : node.others) least = std::min(least, line_of(other.node));
  return least;
}

bool node_size_bad(const MapReader& reader) {
  return reader.any_bad("node.gpus") || reader.any_bad("node.nics") || reader.any_bad("node.shape") ||
         reader.any_bad("node.nvlink_racks") || reader.any_bad("groups");
}

/// The most GPUs that the shape carries, or what makes the shape impossible.
std::int64_t capacity(MapReader& reader, const FabricSpec& fabric) {
  if (reader.any_bad("fabric") || node_size_bad(reader)) return gpus_most;
  const auto* meta = std::get_if<MetaClosSpec>(&fabric);
  if (meta != nullptr && meta->gpus_per_rack % meta->node.gpus != 0) {
    reader.refuse("fabric", fmt::format("gpus_per_rack {} with nodes of {} GPUs; allowed: a multiple of {}",
                                        meta->gpus_per_rack, meta->node.gpus, meta->node.gpus));
    return gpus_most;
  }
  try {
    return std::clamp<std::int64_t>(shape_capacity(fabric).value_or(gpus_most), 1, gpus_most);
  } catch (const std::invalid_argument& impossible) {  // a node with more NICs than a leaf has ports
    reader.refuse("fabric", impossible.what());
    return gpus_most;
  }
}

std::int64_t most_gpus(MapReader& reader, const FabricSpec& fabric) {
  const std::int64_t shape = capacity(reader, fabric);
  const std::int64_t most = reader.integer("max_gpus", {1, gpus_most}, shape);
  return std::min(most, shape);
}

/// The section `groups` of a mixed cluster: runs of servers, each with its GPU and, where they differ from the
/// cluster's section `node`, its servers.
class GroupReader {
 public:
  GroupReader(const YamlNode& list, const YamlNode* node, const MapReader& cluster, const Reading& reading)
      : list_(list), node_(node), path_(dotted(cluster.path(), "groups")), cluster_(cluster), reading_(reading) {}

  /// Into the cluster's groups and the fabric's servers.
  void read(Cluster& cluster, NodeSpec& nodes) {
    constexpr std::size_t groups_max = 64;
    if (list_.kind != YamlNode::Kind::list || list_.items.empty() || list_.items.size() > groups_max) {
      reading_.problems.add(
          list_.place, path_,
          fmt::format("found {}; allowed: a list of 1 to {} groups, such as [{{gpus: 64}}, {{gpus: 64, "
                      "gpu: a100-80gb}}]",
                      list_.items.size() > groups_max ? "a longer list" : described(list_), groups_max));
      return;
    }
    for (std::size_t i = 0; i < list_.items.size(); ++i) read_one(i, cluster, nodes);
    if (!cluster.groups.empty()) cluster.gpu = cluster.groups.front().gpu;
  }

 private:
  void read_one(std::size_t i, Cluster& cluster, NodeSpec& nodes) {
    MapReader group(list_.items[i], fmt::format("{}[{}]", path_, i), reading_.problems);
    const bool last = i + 1 == list_.items.size();
    const std::optional<std::int64_t> rest = last ? std::optional<std::int64_t>(0) : std::nullopt;
    const std::int64_t gpus = group.integer("gpus", {1, gpus_most}, rest);
    cluster.groups.push_back({gpus, read_gpu_of(group, cluster.gpu)});
    const NodeSpec node = read_node_of(group);
    group.finish();
    if (i == 0) {
      nodes = node;
    } else if (node.gpus != nodes.gpus || node.nics != nodes.nics) {
      group.refuse("node",
                   fmt::format("servers of {} GPUs and {} NICs beside such of {} and {}; allowed: as many as in "
                               "the first group",
                               node.gpus, node.nics, nodes.gpus, nodes.nics));
    } else {
      nodes.others.push_back({static_cast<std::uint32_t>(before_ / nodes.gpus), node});
    }
    const std::int64_t size = nodes.gpus;
    if (gpus % size != 0 && !group.any_bad("gpus")) {
      const std::int64_t below = gpus / size * size;
      group.refuse("gpus", fmt::format("{} GPUs are not a whole number of nodes of {}; allowed: a multiple of {}; "
                                       "nearest: {}{}",
                                       gpus, size, size, below > 0 ? fmt::format("{} or ", below) : "", below + size));
    }
    before_ += gpus;
  }

  Gpu read_gpu_of(MapReader& group, const Gpu& usual) {
    const bool needed = !cluster_.given("gpu");
    const YamlNode* gpu = group.child("gpu", needed ? "a GPU of the catalogue, such as h100-80gb" : "");
    if (gpu == nullptr) return usual;
    const std::string path = dotted(group.path(), "gpu");
    const auto map = reading_.catalogue.resolve(*gpu, Shelf::gpus, path, reading_.problems);
    return map ? read_gpu(*map, path, reading_.problems) : usual;
  }

  /// The cluster's `node` with this group's keys laid over.
  NodeSpec read_node_of(MapReader& group) {
    const YamlNode* own = group.child("node");
    if (own == nullptr || cluster_.any_bad("node")) {
      Problems known;  // what is wrong with the cluster's own has been said
      return node_ == nullptr ? NodeSpec{} : read_node(*node_, "node", known);
    }
    YamlNode merged = *own;
    if (node_ != nullptr && own->kind == YamlNode::Kind::map) {
      merged = *node_;
      if (own->find("shape") != nullptr) drop_keys_of_one_shape(merged);
      overlay(merged, *own);
    }
    return read_node(merged, dotted(group.path(), "node"), reading_.problems);
  }

  /// Another shape has keys of its own.
  static void drop_keys_of_one_shape(YamlNode& node) {
    constexpr std::string_view keys[] = {"nvlink_racks", "sockets", "gpus_per_switch", "cpu_link", "cpu_latency"};
    std::erase_if(node.entries, [&](const YamlEntry& entry) {
      return std::find(std::begin(keys), std::end(keys), entry.key) != std::end(keys);
    });
  }

  const YamlNode& list_;
  const YamlNode* node_;
  std::string path_;
  const MapReader& cluster_;
  const Reading& reading_;
  std::int64_t before_ = 0;  ///< GPUs of the groups already read
};

/// The last group takes what the others leave, and all together are the cluster's GPUs.
void check_group_sum(MapReader& reader, Cluster& cluster, std::int64_t gpus) {
  if (reader.any_bad("groups") || reader.any_bad("gpus") || cluster.groups.empty()) return;
  std::int64_t sum = 0;
  for (const NodeGroup& group : cluster.groups) sum += group.gpus;
  NodeGroup& last = cluster.groups.back();
  if (last.gpus == 0 && gpus > sum) {
    last.gpus = gpus - sum;
  } else if (last.gpus == 0) {
    reader.refuse("gpus",
                  fmt::format("{} GPUs leave none for the last group, the others have {}; allowed: more", gpus, sum));
  } else if (gpus != sum) {
    reader.refuse("gpus", fmt::format("{} GPUs, but the groups have {} together; allowed: {}", gpus, sum, sum));
  }
}

void check_gpus(MapReader& reader, const Cluster& cluster, std::int64_t gpus, const Problems& problems) {
  if (problems.bad(dotted(reader.path(), "gpus")) || !reader.given("gpus")) return;
  if (gpus > cluster.max_gpus) {
    reader.refuse("gpus", fmt::format("{} GPUs are more than cluster '{}' has; allowed: at most {}", gpus,
                                      shown(cluster.name), cluster.max_gpus));
    return;
  }
  if (std::holds_alternative<TorusSpec>(cluster.fabric) && gpus != shape_capacity(cluster.fabric)) {
    reader.refuse("gpus", fmt::format("{} GPUs on a torus of {}; allowed: all of them", gpus,
                                      shape_capacity(cluster.fabric).value()));
    return;
  }
  const std::int64_t node = gpus_per_node(cluster.fabric);
  if (gpus > node && gpus % node != 0) {
    const std::int64_t below = gpus / node * node;
    const std::string above = below + node <= cluster.max_gpus ? fmt::format(" or {}", below + node) : "";
    reader.refuse("gpus", fmt::format("{} GPUs are not a whole number of nodes of {}; allowed: less than a node, or a "
                                      "multiple of {}; nearest: {}{}",
                                      gpus, node, node, below, above));
  }
}

}  // namespace

Words<GpuGeneration> generation_words() {
  return {{"volta", GpuGeneration::volta},
          {"ampere", GpuGeneration::ampere},
          {"hopper", GpuGeneration::hopper},
          {"blackwell", GpuGeneration::blackwell},
          {"other", GpuGeneration::other}};
}

Gpu read_gpu(const YamlNode& map, const std::string& path, Problems& problems) {
  MapReader reader(map, path, problems);
  Gpu gpu;
  gpu.name = reader.text("name", "custom");
  gpu.peak = reader.flop_rate("peak");
  gpu.matmul = reader.flop_rate("matmul");
  gpu.peak_fp8 = reader.flop_rate("peak_fp8", FlopRate{});
  gpu.matmul_fp8 = reader.flop_rate("matmul_fp8", FlopRate{});
  gpu.peak_fp4 = reader.flop_rate("peak_fp4", FlopRate{});
  gpu.matmul_fp4 = reader.flop_rate("matmul_fp4", FlopRate{});
  gpu.flash_attention = reader.flop_rate("flash_attention");
  gpu.memory = reader.bandwidth("memory");
  gpu.memory_achieved = reader.bandwidth("memory_achieved");
  gpu.memory_size = reader.bytes_of("memory_size");
  gpu.memory_usable = reader.bytes_of("memory_usable", gpu.memory_size);
  gpu.matrix_unit = reader.integer("matrix_unit", {1, 4096}, 0);
  const std::optional<std::int64_t> none = reader.given("matrix_unit") ? std::optional<std::int64_t>(0) : std::nullopt;
  gpu.multiprocessors = reader.integer("multiprocessors", {1, 4096}, none);
  gpu.launch_gap = reader.duration("launch_gap", gpu.launch_gap);
  gpu.host_time = reader.number("host_time", {0, 100}, gpu.host_time);
  gpu.contention = reader.number("contention", {0, 0.99}, usual_contention);
  const auto at_most = [&](std::string_view key, bool holds, std::string_view other) {
    const bool both_good = !problems.bad(dotted(path, key)) && !problems.bad(dotted(path, other));
    if (!holds && both_good && reader.given(key)) {
      reader.refuse(key, fmt::format("more than {}; allowed: up to that", other));
    }
  };
  at_most("memory_achieved", gpu.memory_achieved <= gpu.memory, "memory");
  at_most("memory_usable", gpu.memory_usable <= gpu.memory_size, "memory_size");
  const auto both = [&](std::string_view peak, std::string_view achieved) {
    if (reader.given(peak) == reader.given(achieved)) return;
    reader.refuse(reader.given(peak) ? peak : achieved,
                  fmt::format("stands alone; allowed: both of {} and {}, or neither", peak, achieved));
  };
  both("peak_fp8", "matmul_fp8");
  both("peak_fp4", "matmul_fp4");
  if (reader.given("matrix_unit") && reader.given("multiprocessors"))
    reader.refuse("matrix_unit", "beside multiprocessors; allowed: one of them");
  reader.finish();
  return gpu;
}

ClusterSection read_cluster(const YamlNode& map, const std::string& path, bool with_gpus, const Reading& reading) {
  MapReader reader(map, path, reading.problems);
  ClusterSection section;
  Cluster& cluster = section.cluster;
  cluster.name = reader.text("name", "custom");
  if (with_gpus) section.gpus = reader.integer("gpus", {1, gpus_most});
  const YamlNode* groups = reader.child("groups");
  const std::string_view needed_gpu = groups == nullptr ? "a GPU of the catalogue, such as h100-80gb" : "";
  if (const auto gpu = part(reader, "gpu", needed_gpu, Shelf::gpus, reading)) {
    cluster.gpu = read_gpu(*gpu, dotted(path, "gpu"), reading.problems);
  }
  const YamlNode* fabric = reader.child("fabric", "a map with the key kind");
  if (fabric != nullptr) cluster.fabric = read_fabric(*fabric, dotted(path, "fabric"), reading.problems);
  const YamlNode* transport = reader.child("transport", "a map with the keys node, network");
  if (transport != nullptr) cluster.transport = read_transport(*transport, dotted(path, "transport"), reading);
  if (has_nodes(cluster.fabric)) {
    const YamlNode* node = reader.child("node");
    NodeSpec spec = node == nullptr ? NodeSpec{} : read_node(*node, dotted(path, "node"), reading.problems);
    if (groups != nullptr) GroupReader(*groups, node, reader, reading).read(cluster, spec);
    std::visit(NodeVisitor{spec}, cluster.fabric);
    fit_to_nvlink(cluster.transport.node, least_line(spec));
  } else {
    cluster.transport.network.measured = MeasuredSizes::none;  // no log of a torus of GPUs is known
    const auto* graph = std::get_if<GraphSpec>(&cluster.fabric);
    const auto line = graph != nullptr && !reader.any_bad("fabric") ? in_node_rate(*graph) : std::nullopt;
    if (line) fit_to_nvlink(cluster.transport.node, *line);
    if (groups != nullptr && fabric != nullptr && !reader.any_bad("fabric")) {
      reader.refuse("groups", "a fabric that is not made of servers has one kind of GPU; allowed: not to give it");
    }
  }
  cluster.jitter = reader.number("jitter", {0, 0.1}, cluster.jitter);
  cluster.max_gpus = most_gpus(reader, cluster.fabric);
  const bool shape_known = fabric != nullptr && !reader.any_bad("fabric") && !node_size_bad(reader);
  if (with_gpus && shape_known) check_gpus(reader, cluster, section.gpus, reading.problems);
  if (with_gpus) check_group_sum(reader, cluster, section.gpus);
  reader.finish();
  return section;
}

}  // namespace foretrain
