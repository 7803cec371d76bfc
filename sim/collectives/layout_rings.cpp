#include "sim/collectives/layout_rings.h"

#include <algorithm>

namespace foretrain {

namespace {

bool same(const NodeRings& a, const NodeRings& b) { return a.rings == b.rings && a.rate == b.rate; }

}  // namespace

LayoutRings::LayoutRings(const Fabric& fabric, const GroupLayout& layout)
    : layout_(layout), channels_(layout.nodes.size() > 1 ? layout.ranks_per_node_min() : 1) {
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

/// Where a ring of any node ends when the rings of each are laid side by side over [0, 1]; 0 and 1 included. Equal
/// fractions of different nodes are the same number, for division rounds correctly.
std::vector<double> LayoutRings::ring_cuts() const {
  std::vector<double> cuts;
  for (const NodeRings& kind : kinds_) {
    for (std::size_t r = 0; r <= kind.rings.size(); ++r) {
      cuts.push_back(static_cast<double>(r) / static_cast<double>(kind.rings.size()));
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// `middle`: a place on [0, 1] inside the lane's piece of every ring.
RingLane LayoutRings::lane(std::size_t channel, double share, double middle) const {
  RingLane made{.channel = channel, .share = share, .rings = {}};
  for (const std::size_t kind : kind_of_) {
    made.rings.push_back(static_cast<std::size_t>(middle * static_cast<double>(kinds_[kind].rings.size())));
  }
  return made;
}

std::vector<RingLane> LayoutRings::lanes() const {
  std::vector<double> cuts = ring_cuts();
  for (std::size_t c = 0; c < channels_; ++c) {
    cuts.push_back(static_cast<double>(c) / static_cast<double>(channels_));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<RingLane> all;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const double middle = (cuts[i] + cuts[i + 1]) / 2;
    const auto channel = static_cast<std::size_t>(middle * static_cast<double>(channels_));
    all.push_back(lane(channel, cuts[i + 1] - cuts[i], middle));
  }
  return all;
}

std::vector<RingLane> LayoutRings::crossed_lanes() const {
  const std::vector<double> cuts = ring_cuts();
  std::vector<RingLane> all;
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      all.push_back(lane(c, (cuts[i + 1] - cuts[i]) / static_cast<double>(channels_), (cuts[i] + cuts[i + 1]) / 2));
    }
  }
  return all;
}

}  // namespace foretrain
