// GroupLayout and GroupShape: where the members of a communicator sit, and what of that decides latency and choice.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "sim/collectives/collective.h"
#include "sim/collectives/layout_rings.h"
#include "sim/collectives/torus_box.h"

namespace foretrain {

GroupLayout::GroupLayout(const Fabric& fabric, std::vector<GpuId> group) : members(std::move(group)) {
  std::unordered_map<std::uint32_t, std::size_t> position;  // looked up only, never iterated
  for (std::size_t m = 0; m < members.size(); ++m) {
    const GpuId gpu = members[m];
    const NodeId id = fabric.node_of(gpu);
    std::size_t at = nodes.size() - 1;  // as a rule of the one before
    if (nodes.empty() || nodes.back().id != id) {
      const auto [known, is_new] = position.emplace(id.value, nodes.size());
      if (is_new) nodes.push_back({id, {}, {}});
      at = known->second;
    }
    nodes[at].gpus.push_back(gpu);
    nodes[at].positions.push_back(m);
  }
}

std::size_t GroupLayout::ranks_per_node_max() const {
  std::size_t most = 0;
  for (const Node& node : nodes) most = std::max(most, node.gpus.size());
  return most;
}

std::size_t GroupLayout::ranks_per_node_min() const {
  std::size_t least = nodes.empty() ? 0 : nodes.front().gpus.size();
  for (const Node& node : nodes) least = std::min(least, node.gpus.size());
  return least;
}

namespace {

/// The fastest link by which a NIC leaves its node.
Bandwidth line_rate(const Fabric& fabric, VertexId nic) {
  Bandwidth best;
  const auto [first, last] = fabric.out_links(nic);
  for (std::uint32_t l = first.value; l < last.value; ++l) {
    const Link& link = fabric.link(LinkId{l});
    if (!fabric.vertex(link.to).node) best = std::max(best, link.bandwidth);
  }
  return best;
}

bool has_cable(const Fabric& fabric, VertexId nic) { return line_rate(fabric, nic) > Bandwidth{}; }

/// NICs that the members of a node drive: their nearest; all of the node for one that has none with a cable.
std::vector<VertexId> nics_of(const Fabric& fabric, const GroupLayout::Node& node) {
  std::vector<VertexId> nics;
  const auto add = [&](GpuId gpu) {
    const std::size_t before = nics.size();
    for (const VertexId nic : fabric.nics_of(gpu)) {
      if (has_cable(fabric, nic)) nics.push_back(nic);
    }
    return nics.size() > before;
  };
  for (const GpuId gpu : node.gpus) {
    if (add(gpu)) continue;
    for (const GpuId mate : fabric.gpus_of(node.id)) add(mate);
  }
  std::sort(nics.begin(), nics.end());
  nics.erase(std::unique(nics.begin(), nics.end()), nics.end());
  return nics;
}

}  // namespace

GroupShape shape_of(const Fabric& fabric, const GroupLayout& layout) {
  GroupShape shape{.ranks = static_cast<std::uint32_t>(layout.ranks()),
                   .nodes = static_cast<std::uint32_t>(layout.nodes.size()),
                   .per_node_max = static_cast<std::uint32_t>(layout.ranks_per_node_max()),
                   .nics_per_node = 0,
                   .nic = Bandwidth{},
                   .torus = {},
                   .torus_link = Bandwidth{},
                   .ring_line = LayoutRings(fabric, layout).rate()};
  if (auto box = torus_box(fabric, layout.members)) {
    shape.torus = std::move(box->lines);
    shape.torus_link = box->link;
  }
  // The node with the fewest NICs, and the slowest NIC, bound a group.
  bool first = true;
  for (const GroupLayout::Node& node : layout.nodes) {
    const std::vector<VertexId> nics = nics_of(fabric, node);
    const auto count = static_cast<std::uint32_t>(nics.size());
    shape.nics_per_node = first ? count : std::min(shape.nics_per_node, count);
    for (const VertexId nic : nics) {
      const Bandwidth rate = line_rate(fabric, nic);
      shape.nic = first ? rate : std::min(shape.nic, rate);
      first = false;
    }
    first = false;
  }
  return shape;
}

}  // namespace foretrain
