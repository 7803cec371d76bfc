#include "sim/collectives/layout_rings.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace foretrain {

namespace {

bool same(const NodeRings& a, const NodeRings& b) { return a.rings == b.rings && a.rate == b.rate; }

}  // namespace

LayoutRings::LayoutRings(const Fabric& fabric, const GroupLayout& layout)
    : layout_(layout),
      channels_(layout.nodes.size() > 1 ? std::min(layout.ranks_per_node_min(), layout.channels_max) : 1) {
  for (const GroupLayout::Node& node : layout.nodes) {
    NodeRings found = find_node_rings(fabric, node.gpus);
    if (found.rate) rate_ = rate_ ? std::min(*rate_, *found.rate) : *found.rate;
    const auto known =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const NodeRings& kind) { return same(kind, found); });
    kind_of_.push_back(static_cast<std::size_t>(known - kinds_.begin()));
    if (known == kinds_.end()) kinds_.push_back(std::move(found));
  }
}

std::vector<RingArc> LayoutRings::arcs(std::size_t node) const {
  std::vector<RingArc> all;
  for (const NodeRing& ring : rings(node)) {
    for (std::size_t i = 0; i < ring.size() && ring.size() > 1; ++i) {
      all.push_back({ring[i], ring[(i + 1) % ring.size()]});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const RingArc& a, const RingArc& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return all;
}

std::vector<GpuId> LayoutRings::members(std::size_t node, std::size_t ring, std::size_t first) const {
  const NodeRing& order = rings(node)[ring];
  const auto at = std::find(order.begin(), order.end(), first) - order.begin();
  std::vector<GpuId> gpus;
  gpus.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    gpus.push_back(layout_.nodes[node].gpus[order[(static_cast<std::size_t>(at) + i) % order.size()]]);
  }
  return gpus;
}

std::size_t LayoutRings::common_pieces() const {
  std::size_t pieces = 1;
  for (const NodeRings& kind : kinds_) pieces = std::lcm(pieces, kind.rings.size());
  return pieces;
}

RingLane LayoutRings::lane(std::size_t channel, std::size_t piece, std::size_t pieces, std::size_t lanes) const {
  RingLane made{.channel = channel, .share = 1.0 / static_cast<double>(lanes), .rings = {}};
  made.rings.reserve(kind_of_.size());
  for (const std::size_t kind : kind_of_) made.rings.push_back(piece * kinds_[kind].rings.size() / pieces);
  return made;
}

std::vector<RingLane> LayoutRings::lanes() const {
  const std::size_t pieces = std::lcm(channels_, common_pieces());
  std::vector<RingLane> all;
  for (std::size_t p = 0; p < pieces; ++p) all.push_back(lane(p * channels_ / pieces, p, pieces, pieces));
  return all;
}

std::vector<RingLane> LayoutRings::crossed_lanes() const {
  const std::size_t pieces = common_pieces();
  std::vector<RingLane> all;
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t p = 0; p < pieces; ++p) all.push_back(lane(c, p, pieces, channels_ * pieces));
  }
  return all;
}

}  // namespace foretrain
