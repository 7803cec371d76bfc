// The one place that knows which builder makes which shape.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

std::int64_t product(const std::vector<std::uint32_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, [](std::int64_t all, std::uint32_t extent) {
    return std::min(all * static_cast<std::int64_t>(extent), gpus_most + 1);
  });
}

struct Build {
  std::uint32_t gpus;
  Fabric operator()(const RailSpec& spec) const { return build_rail_optimised(filled(spec)); }
  Fabric operator()(const FatTreeSpec& spec) const { return build_fat_tree(filled(spec)); }
  Fabric operator()(const MetaClosSpec& spec) const { return build_meta_clos(filled(spec)); }
  Fabric operator()(const RailOnlySpec& spec) const { return build_rail_only(filled(spec)); }
  Fabric operator()(const LeafSpineSpec& spec) const { return build_leaf_spine(filled(spec)); }
  Fabric operator()(const DragonflySpec& spec) const { return build_dragonfly(filled(spec)); }
  Fabric operator()(const DragonflyPlusSpec& spec) const { return build_dragonfly_plus(filled(spec)); }
  Fabric operator()(const PodTreeSpec& spec) const { return build_pod_tree(filled(spec)); }
  Fabric operator()(const SitesSpec& spec) const { return build_sites(filled(spec)); }
  Fabric operator()(const GraphSpec& spec) const { return build_graph(filled(spec)); }
  Fabric operator()(const TorusSpec& spec) const {
    if (product(spec.shape) != gpus)
      throw std::invalid_argument(
          fmt::format("a torus has the {} GPUs of its shape {}, no more, no fewer; another "
                      "shape is another slice",
                      product(spec.shape), fmt::join(spec.shape, "x")));
    return build_torus(spec);
  }

 private:
  template <class Spec>
  [[nodiscard]] Spec filled(Spec spec) const {
    spec.gpus = gpus;
    return spec;
  }
};

std::int64_t at_most_all(std::uint64_t gpus) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(gpus, static_cast<std::uint64_t>(gpus_most)));
}

struct Capacity {
  std::optional<std::int64_t> operator()(const RailSpec&) const { return std::nullopt; }
  std::optional<std::int64_t> operator()(const FatTreeSpec& s) const { return at_most_all(fat_tree_capacity(s)); }
  std::optional<std::int64_t> operator()(const MetaClosSpec& spec) const {
    return std::int64_t{spec.gpus_per_rack} * spec.racks_per_pod * spec.pods;
  }
  std::optional<std::int64_t> operator()(const TorusSpec& spec) const { return product(spec.shape); }
  std::optional<std::int64_t> operator()(const RailOnlySpec& s) const { return at_most_all(rail_only_capacity(s)); }
  std::optional<std::int64_t> operator()(const LeafSpineSpec& s) const { return at_most_all(leaf_spine_capacity(s)); }
  std::optional<std::int64_t> operator()(const DragonflySpec& s) const { return at_most_all(dragonfly_capacity(s)); }
  std::optional<std::int64_t> operator()(const DragonflyPlusSpec& s) const {
    return at_most_all(dragonfly_plus_capacity(s));
  }
  std::optional<std::int64_t> operator()(const PodTreeSpec& s) const { return at_most_all(pod_tree_capacity(s)); }
  std::optional<std::int64_t> operator()(const SitesSpec& spec) const {
    const auto* meta = std::get_if<MetaClosSpec>(&spec.site);
    if (meta != nullptr && meta->gpus_per_rack % meta->node.gpus != 0) {
      throw std::invalid_argument(fmt::format("gpus_per_rack {} with nodes of {} GPUs; allowed: a multiple of {}",
                                              meta->gpus_per_rack, meta->node.gpus, meta->node.gpus));
    }
    const std::int64_t most = std::visit(*this, spec.site).value_or(gpus_most);
    if (spec.gpus_per_site > most || spec.gpus_per_site % node_of(spec).gpus != 0) {
      throw std::invalid_argument(fmt::format("sites of {} GPUs; allowed: whole nodes of {}, at most {}",
                                              spec.gpus_per_site, node_of(spec).gpus, most));
    }
    return std::min(gpus_most, std::int64_t{spec.sites} * spec.gpus_per_site);
  }
  std::optional<std::int64_t> operator()(const GraphSpec& s) const { return at_most_all(graph_gpus(s)); }
};

/// GPUs of each node of a graph, if that is one number; else 1.
std::int64_t even_nodes(const GraphSpec& spec) {
  std::map<std::uint32_t, std::int64_t> gpus;
  for (const GraphSpec::Vertex& it : spec.vertices) {
    if (it.kind == VertexKind::gpu && it.node) ++gpus[*it.node];
  }
  const bool even =
      std::all_of(gpus.begin(), gpus.end(), [&](const auto& node) { return node.second == gpus.begin()->second; });
  return even && !gpus.empty() ? gpus.begin()->second : 1;
}

struct NodeGpus {
  std::int64_t operator()(const TorusSpec&) const { return 1; }
  std::int64_t operator()(const PodTreeSpec&) const { return 1; }
  std::int64_t operator()(const SitesSpec& spec) const { return node_of(spec).gpus; }
  std::int64_t operator()(const GraphSpec& spec) const { return even_nodes(spec); }
  template <class Spec>
  std::int64_t operator()(const Spec& spec) const {
    return spec.node.gpus;
  }
};

}  // namespace

Fabric build_fabric(const Cluster& cluster, std::int64_t gpus) {
  return std::visit(Build{static_cast<std::uint32_t>(gpus)}, cluster.fabric);
}

std::vector<NodeGroup> groups_of(const Cluster& cluster, std::int64_t gpus) {
  if (cluster.groups.empty()) return {{gpus, cluster.gpu}};
  std::vector<NodeGroup> groups;
  for (std::size_t g = 0; g < cluster.groups.size() && gpus > 0; ++g) {
    const NodeGroup& group = cluster.groups[g];
    const bool last = g + 1 == cluster.groups.size();
    groups.push_back({last ? gpus : std::min(group.gpus, gpus), group.gpu});
    gpus -= groups.back().gpus;
  }
  return groups;
}

std::optional<std::int64_t> shape_capacity(const FabricSpec& fabric) { return std::visit(Capacity{}, fabric); }

std::optional<Bandwidth> in_node_rate(const GraphSpec& graph) {
  struct Rates {
    Bandwidth nvlink, pcie;
  };
  constexpr Bandwidth most = bytes_per_second(10'000'000'000'000);  // that a text may say of a bandwidth
  std::map<std::uint32_t, Rates> by_gpu;                            // vertex
  const auto add = [&](std::uint32_t at, std::uint32_t other, Bandwidth rate) {
    const GraphSpec::Vertex& gpu = graph.vertices[at];
    const GraphSpec::Vertex& next = graph.vertices[other];
    if (gpu.kind != VertexKind::gpu || !gpu.node || next.node != gpu.node) return;
    if (next.kind == VertexKind::gpu || next.kind == VertexKind::nvswitch) {
      by_gpu[at].nvlink = std::min(by_gpu[at].nvlink + rate, most);
    } else if (next.kind == VertexKind::pcie_switch || next.kind == VertexKind::host) {
      by_gpu[at].pcie = std::max(by_gpu[at].pcie, std::min(rate, most));
    }
  };
  for (const GraphSpec::Cable& cable : graph.cables) {
    add(cable.a, cable.b, cable.bandwidth * cable.count);
    add(cable.b, cable.a, cable.bandwidth * cable.count);
  }
  std::optional<Bandwidth> slowest;
  for (const auto& [gpu, rates] : by_gpu) {
    const Bandwidth rate = rates.nvlink > Bandwidth{} ? rates.nvlink : rates.pcie;
    slowest = std::min(slowest.value_or(rate), rate);
  }
  return slowest;
}

bool has_nodes(const FabricSpec& fabric) {
  return !std::holds_alternative<TorusSpec>(fabric) && !std::holds_alternative<PodTreeSpec>(fabric) &&
         !std::holds_alternative<GraphSpec>(fabric);
}

std::int64_t gpus_per_node(const FabricSpec& fabric) { return std::visit(NodeGpus{}, fabric); }

}  // namespace foretrain
