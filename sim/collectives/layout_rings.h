// LayoutRings: the rings inside every node of a group (topology/node_rings.h), and the lanes that they make with the
// channels between nodes.
//
// Between nodes there are C channels with 1/C of the message each, C = smallest number of members in a node; channel c
// enters and leaves a node at its c-th member. Inside a node a channel's part is divided evenly over the node's rings.
// So the traffic of a ring inside its node is the same whatever the channels are, and a channel's between nodes
// whatever the rings are.
//
//   const LayoutRings rings(fabric, layout);
//   for (const RingArc& arc : rings.arcs(node)) ...      // added up, for usage vectors
//   for (const RingLane& lane : rings.lanes()) ...       // one by one, for chunk sends
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/collectives/collective.h"
#include "topology/node_rings.h"

namespace foretrain {

/// One hop of one of a node's rings; `from` and `to` are positions in GroupLayout::Node::gpus.
struct RingArc {
  std::size_t from = 0;
  std::size_t to = 0;
};

/// A part of the message that goes one way through all nodes.
struct RingLane {
  std::size_t channel = 0;
  double share = 1;                ///< of the message
  std::vector<std::size_t> rings;  ///< by node: which of its rings
};

class LayoutRings {
 public:
  LayoutRings(const Fabric& fabric, const GroupLayout& layout);

  [[nodiscard]] std::size_t channels() const { return channels_; }
  [[nodiscard]] std::span<const NodeRing> rings(std::size_t node) const { return kinds_[kind_of_[node]].rings; }
  /// Part of the message that each ring of a node carries.
  [[nodiscard]] double share(std::size_t node) const { return 1.0 / static_cast<double>(rings(node).size()); }
  /// All hops of all rings of a node, those of one pair side by side; none in a node of one member.
  [[nodiscard]] std::vector<RingArc> arcs(std::size_t node) const;
  /// The members of a node along one of its rings, from the member at position `first` on.
  [[nodiscard]] std::vector<GpuId> members(std::size_t node, std::size_t ring, std::size_t first) const;

  /// As few lanes of one size as divide both every channel's part and every ring's. Closed rings need no more.
  [[nodiscard]] std::vector<RingLane> lanes() const;
  /// Every channel over every ring: where it matters at which member a channel begins, as in chains and trees.
  [[nodiscard]] std::vector<RingLane> crossed_lanes() const;

  /// What the rings let a GPU of the node send that has least (NodeRings::rate); nothing where none is joined directly.
  [[nodiscard]] std::optional<Bandwidth> rate() const { return rate_; }

 private:
  /// The least number of equal pieces that divides the rings of every node.
  [[nodiscard]] std::size_t common_pieces() const;
  /// The lane of piece number `piece` of so many; `lanes`: all of them.
  [[nodiscard]] RingLane lane(std::size_t channel, std::size_t piece, std::size_t pieces, std::size_t lanes) const;

  const GroupLayout& layout_;
  std::size_t channels_ = 1;
  std::vector<NodeRings> kinds_;      ///< that differ
  std::vector<std::size_t> kind_of_;  ///< by node
  std::optional<Bandwidth> rate_;
};

}  // namespace foretrain
