// Two binary trees over the same N nodes, such that every node has children in at most one of them.
//
// Each tree carries half of a message up (reduce) and down again (broadcast), so a node with two children in one tree
// and none in the other sends 2 messages in all and every NIC works (Sanders, Speck, Traff 2009, "Two-tree algorithms
// for full bandwidth broadcast, reduction and scan"; NCCL uses the same idea).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/collectives/collective.h"

namespace foretrain {

/// By node: its parent, or nothing for the root.
using TreeParents = std::vector<std::optional<std::uint32_t>>;
struct DoubleTree {
  TreeParents first;
  TreeParents second;
};
[[nodiscard]] DoubleTree double_tree(std::uint32_t nodes);

/// Messages that the busiest node sends in a double-tree all-reduce: 1 for two nodes, 3/2 for three, 2 for more.
[[nodiscard]] double double_tree_wire(std::uint32_t nodes);

/// Goodput of a tree's chain inside the node, of the ring's.
inline constexpr double tree_ring_part = 0.92;

/// Adds the tree's edges between nodes. Channel c of C = smallest number of members in a node runs from the c-th
/// member of each node with 1/C of the message, so every NIC carries the same.
void add_double_tree(UsageSum& sum, const GroupLayout& layout, double between_goodput);

/// The edges between nodes of channel c in one of the two trees, `above` set.
[[nodiscard]] std::vector<TreeEdge> tree_edges(const GroupLayout& layout, std::size_t tree, std::size_t channel,
                                               double between_goodput, Duration latency);

}  // namespace foretrain
