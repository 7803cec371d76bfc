// Any graph. Servers come first, in the order of their numbers, then what is in none: so GPUs are numbered node by
// node whatever the order of the file.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>

#include "topology/builders/builders.h"

namespace foretrain {
namespace {

constexpr std::uint32_t nodes_most = 1U << 22;
constexpr std::uint32_t cables_most = 1U << 16;  ///< between one pair

void check_vertices(const GraphSpec& spec) {
  std::set<std::string_view> names;
  std::vector<std::uint32_t> gpus_of_node;
  for (const GraphSpec::Vertex& it : spec.vertices) {
    if (it.name.empty()) {
      throw std::invalid_argument("a vertex has no name");
    }
    if (!names.insert(it.name).second) {
      throw std::invalid_argument(fmt::format("two vertices are named '{}'", it.name));
    }
    if (it.kind == VertexKind::gpu && !it.node) {
      throw std::invalid_argument(fmt::format("GPU '{}' is in no node", it.name));
    }
    if (it.node && *it.node >= nodes_most) {
      throw std::invalid_argument(
          fmt::format("'{}' is in node {}; the last allowed is {}", it.name, *it.node, nodes_most - 1));
    }
    if (it.node) {
      gpus_of_node.resize(std::max<std::size_t>(gpus_of_node.size(), *it.node + 1));
      gpus_of_node[*it.node] += it.kind == VertexKind::gpu ? 1 : 0;
    }
  }
  const auto empty = std::find(gpus_of_node.begin(), gpus_of_node.end(), 0U);
  if (empty != gpus_of_node.end()) {
    throw std::invalid_argument(
        fmt::format("node {} has no GPU; nodes are numbered from 0 and each has GPUs", empty - gpus_of_node.begin()));
  }
  if (gpus_of_node.empty()) {
    throw std::invalid_argument("the graph has no GPU");
  }
}

void check_cables(const GraphSpec& spec) {
  for (const GraphSpec::Cable& it : spec.cables) {
    if (it.a >= spec.vertices.size() || it.b >= spec.vertices.size()) {
      throw std::invalid_argument(
          fmt::format("a cable joins vertices {} and {}, but there are {}", it.a, it.b, spec.vertices.size()));
    }
    const std::string ends = fmt::format("'{}' to '{}'", spec.vertices[it.a].name, spec.vertices[it.b].name);
    if (it.a == it.b) {
      throw std::invalid_argument(fmt::format("the cable {} joins a vertex to itself", ends));
    }
    if (it.bandwidth.bytes_per_s() <= 0) {
      throw std::invalid_argument(
          fmt::format("the cable {} has a bandwidth of {}; allowed: above 0", ends, to_text(it.bandwidth)));
    }
    if (it.latency < Duration{}) {
      throw std::invalid_argument(
          fmt::format("the cable {} has a latency of {}; allowed: 0 or more", ends, to_text(it.latency)));
    }
    if (it.tier.empty()) {
      throw std::invalid_argument(fmt::format("the cable {} has no tier", ends));
    }
    if (it.count == 0 || it.count > cables_most) {
      throw std::invalid_argument(fmt::format("{} cables {}; allowed: 1 to {}", it.count, ends, cables_most));
    }
  }
}

/// Positions in `vertices`, in the order in which the fabric gets them.
std::vector<std::size_t> node_by_node(const GraphSpec& spec) {
  std::vector<std::size_t> order(spec.vertices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return spec.vertices[a].node.value_or(nodes_most) < spec.vertices[b].node.value_or(nodes_most);
  });
  return order;
}

/// Which of the vertices are built when only some of the GPUs are asked for.
std::vector<bool> kept(const GraphSpec& spec, const std::vector<std::size_t>& order, std::uint64_t gpus) {
  std::vector<bool> keep(spec.vertices.size(), true);
  std::uint64_t seen = 0;
  std::uint32_t last_node = 0;
  for (const std::size_t i : order) {
    const GraphSpec::Vertex& it = spec.vertices[i];
    if (it.kind == VertexKind::gpu) {
      keep[i] = seen++ < gpus;
      last_node = keep[i] ? *it.node : last_node;
    }
  }
  for (const std::size_t i : order) {
    keep[i] = keep[i] && spec.vertices[i].node.value_or(0) <= last_node;
  }
  return keep;
}

/// Walks from the first GPU; every other must be met.
void check_joined(const Fabric& fabric, const std::vector<std::string_view>& name_of) {
  std::vector<bool> met(fabric.vertex_count(), false);
  std::vector<VertexId> queue{fabric.vertex_of(GpuId{0})};
  met[queue.front().index()] = true;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const Fabric::LinkRange out = fabric.out_links(queue[head]);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const VertexId to = fabric.link(l).to;
      if (!met[to.index()]) {
        met[to.index()] = true;
        queue.push_back(to);
      }
    }
  }
  for (std::size_t g = 0; g < fabric.gpu_count(); ++g) {
    const std::size_t v = fabric.vertex_of(id_at<GpuId>(g)).index();
    if (!met[v]) {
      throw std::invalid_argument(
          fmt::format("no path joins GPU '{}' to GPU '{}'", name_of[fabric.vertex_of(GpuId{0}).index()], name_of[v]));
    }
  }
}

}  // namespace

std::uint64_t graph_gpus(const GraphSpec& spec) {
  return static_cast<std::uint64_t>(
      std::count_if(spec.vertices.begin(), spec.vertices.end(),
                    [](const GraphSpec::Vertex& it) { return it.kind == VertexKind::gpu; }));
}

Fabric build_graph(const GraphSpec& spec) {
  check_vertices(spec);
  check_cables(spec);
  const std::uint64_t all = graph_gpus(spec);
  if (spec.gpus > all) {
    throw std::invalid_argument(fmt::format("{} GPUs asked for; the graph has {}", spec.gpus, all));
  }
  const std::vector<std::size_t> order = node_by_node(spec);
  const std::vector<bool> keep = kept(spec, order, spec.gpus == 0 ? all : spec.gpus);
  FabricBuilder fabric;
  std::vector<NodeId> nodes;
  std::vector<VertexId> at(spec.vertices.size());
  std::vector<std::string_view> name_of;
  for (const std::size_t i : order) {
    const GraphSpec::Vertex& it = spec.vertices[i];
    if (!keep[i]) {
      continue;
    }
    while (it.node && nodes.size() <= *it.node) {
      nodes.push_back(fabric.node());
    }
    at[i] = it.node ? fabric.add(it.kind, nodes[*it.node]) : fabric.add(it.kind);
    name_of.emplace_back(it.name);
    if (it.group) {
      fabric.set_group(at[i], *it.group);
    }
  }
  for (const GraphSpec::Cable& it : spec.cables) {
    for (std::uint32_t n = 0; n < it.count && keep[it.a] && keep[it.b]; ++n) {
      fabric.connect(at[it.a], at[it.b], it.bandwidth, it.latency, fabric.tier(it.tier));
    }
  }
  Fabric built = std::move(fabric).build();
  check_joined(built, name_of);
  return built;
}

}  // namespace foretrain
