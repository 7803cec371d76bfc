#include "sim/collectives/double_tree.h"

#include <algorithm>

namespace foretrain {

namespace {

/// The in-order binary tree over positions begin .. begin+size-1 whose left part is always full: 2^(d-1) - 1
/// positions of a tree of d levels. `begin` is even, so everything with a child sits on an odd position. Returns the
/// root.
std::uint32_t grow(TreeParents& parents, std::uint32_t begin, std::uint32_t size) {
  std::uint32_t left = 0;
  while (2 * left + 1 < size) left = 2 * left + 1;
  if (size == 1) return begin;
  const std::uint32_t root = begin + left;
  parents[grow(parents, begin, left)] = root;
  if (size > left + 1) parents[grow(parents, root + 1, size - left - 1)] = root;
  return root;
}

}  // namespace

DoubleTree double_tree(std::uint32_t nodes) {
  DoubleTree trees{TreeParents(nodes), TreeParents(nodes)};
  if (nodes == 0) return trees;
  grow(trees.first, 0, nodes);
  // Mirroring an even number of positions, or shifting an odd one by one, puts the odd positions on the even ones.
  const auto moved = [nodes](std::uint32_t position) {
    return nodes % 2 == 0 ? nodes - 1 - position : (position + 1) % nodes;
  };
  for (std::uint32_t i = 0; i < nodes; ++i) {
    if (trees.first[i]) trees.second[moved(i)] = moved(*trees.first[i]);
  }
  return trees;
}

double double_tree_wire(std::uint32_t nodes) {
  if (nodes <= 1) return 0;
  // From four nodes on, position 1 has a parent and two children; it sends 3/2 in this tree and 1/2 as a leaf of the
  // other.
  return nodes == 2 ? 1.0 : nodes == 3 ? 1.5 : 2.0;
}

void add_double_tree(UsageSum& sum, const GroupLayout& layout, double between_goodput) {
  const DoubleTree trees = double_tree(static_cast<std::uint32_t>(layout.nodes.size()));
  const std::size_t channels = layout.ranks_per_node_min();
  const double wire = 1.0 / (2.0 * static_cast<double>(channels));
  for (std::size_t tree = 0; tree < 2; ++tree) {
    const TreeParents& parents = tree == 0 ? trees.first : trees.second;
    for (std::size_t child = 0; child < parents.size(); ++child) {
      if (!parents[child]) continue;
      for (std::size_t c = 0; c < channels; ++c) {
        const GpuId low = layout.nodes[child].gpus[c];
        const GpuId high = layout.nodes[*parents[child]].gpus[c];
        sum.route(low, high, 2 * c + tree, wire, 1.0, between_goodput);
        sum.route(high, low, 2 * c + tree, wire, 1.0, between_goodput);
      }
    }
  }
}

std::vector<TreeEdge> tree_edges(const GroupLayout& layout, std::size_t tree, std::size_t channel,
                                 double between_goodput, Duration latency) {
  const DoubleTree trees = double_tree(static_cast<std::uint32_t>(layout.nodes.size()));
  const TreeParents& parents = tree == 0 ? trees.first : trees.second;
  std::vector<std::vector<std::uint32_t>> children(parents.size());
  std::vector<std::uint32_t> from_root;
  for (std::uint32_t node = 0; node < parents.size(); ++node) {
    if (parents[node]) {
      children[*parents[node]].push_back(node);
    } else {
      from_root.push_back(node);
    }
  }
  std::vector<std::optional<std::uint32_t>> edge_into(parents.size());
  std::vector<TreeEdge> edges;
  for (std::size_t i = 0; i < from_root.size(); ++i) {  // from_root grows meanwhile
    const std::uint32_t parent = from_root[i];
    for (const std::uint32_t child : children[parent]) {
      edges.push_back({.parent = layout.nodes[parent].gpus[channel],
                       .child = layout.nodes[child].gpus[channel],
                       .above = edge_into[parent],
                       .flow = static_cast<std::uint32_t>(2 * channel + tree),
                       .between_goodput = between_goodput,
                       .latency = latency});
      edge_into[child] = static_cast<std::uint32_t>(edges.size() - 1);
      from_root.push_back(child);
    }
  }
  return edges;
}

}  // namespace foretrain
