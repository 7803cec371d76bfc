#include "topology/node_rings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace foretrain {
namespace {

// ---- all pairs joined alike ----------------------------------------------------------------------------------------

bool complete(const LinkCounts& counts) {
  for (std::size_t a = 0; a < counts.size; ++a) {
    for (std::size_t b = 0; b < counts.size; ++b) {
      if (a != b && (counts.at(a, b) == 0 || counts.at(a, b) != counts.at(0, 1))) return false;
    }
  }
  return true;
}

/// The hub (the last position) and a zigzag over the others, turned on by one a time: i, i+1, i-1, i+2, ... mod n-1.
std::vector<NodeRing> zigzag_rings(std::uint32_t n) {
  const std::uint32_t turns = n - 1;
  std::vector<NodeRing> rings;
  for (std::uint32_t i = 0; i < (n % 2 == 0 ? turns : turns / 2); ++i) {
    NodeRing ring{turns};
    for (std::uint32_t k = 0; k < turns; ++k) {
      const std::uint32_t away = k % 2 == 1 ? (k + 1) / 2 : turns - k / 2;
      ring.push_back((i + away) % turns);
    }
    rings.push_back(std::move(ring));
  }
  return rings;
}

// ---- any other links -----------------------------------------------------------------------------------------------

/// Lays closed ways one after another, each over links that the ones before have left, the least used first; goes back
/// where it is stuck, up to a number of steps.
class RingSearch {
 public:
  /// Every link may be used `uses` times.
  RingSearch(const LinkCounts& counts, std::uint32_t uses) : n_(counts.size), left_(counts) {
    for (std::uint32_t& links : left_.links) links *= uses;
    most_ = std::numeric_limits<std::size_t>::max();
    for (std::size_t a = 0; a < n_; ++a) most_ = std::min<std::size_t>(most_, degree(a) / 2);
  }

  std::vector<NodeRing> run() {
    start();
    return std::move(best_);
  }

 private:
  // NCCL's own limit (NCCL_SEARCH_TIMEOUT, src/graph/search.cc).
  static constexpr int steps_most = 1 << 14;

  [[nodiscard]] std::uint32_t degree(std::size_t a) const {
    const auto row = left_.links.begin() + static_cast<std::ptrdiff_t>(a * n_);
    return std::accumulate(row, row + static_cast<std::ptrdiff_t>(n_), 0U);
  }
  [[nodiscard]] bool done() const { return best_.size() == most_ || steps_ >= steps_most; }

  void take(std::size_t a, std::size_t b) {
    --left_.links[a * n_ + b];
    --left_.links[b * n_ + a];
  }
  void give_back(std::size_t a, std::size_t b) {
    ++left_.links[a * n_ + b];
    ++left_.links[b * n_ + a];
  }

  void start() {
    way_.assign(1, 0);
    met_.assign(n_, false);
    met_[0] = true;
    extend();
  }

  void extend() {
    if (done()) return;
    ++steps_;
    const std::size_t here = way_.back();
    if (way_.size() == n_) {
      close(here);
      return;
    }
    std::vector<std::uint32_t> next;
    for (std::uint32_t b = 0; b < n_; ++b) {
      if (!met_[b] && left_.at(here, b) > 0) next.push_back(b);
    }
    std::stable_sort(next.begin(), next.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return left_.at(here, a) > left_.at(here, b); });
    for (const std::uint32_t b : next) {
      take(here, b);
      way_.push_back(b);
      met_[b] = true;
      extend();
      met_[b] = false;
      way_.pop_back();
      give_back(here, b);
    }
  }

  void close(std::size_t here) {
    if (left_.at(here, 0) == 0) return;
    take(here, 0);
    laid_.push_back(way_);
    if (laid_.size() > best_.size()) best_ = laid_;
    const NodeRing kept = way_;
    const std::vector<bool> kept_met = met_;
    start();
    way_ = kept;
    met_ = kept_met;
    laid_.pop_back();
    give_back(here, 0);
  }

  std::size_t n_;
  LinkCounts left_;
  std::size_t most_ = 0;
  int steps_ = 0;
  NodeRing way_;
  std::vector<bool> met_;
  std::vector<NodeRing> laid_, best_;
};

/// Each ring followed by itself the other way round.
std::vector<NodeRing> both_ways(const std::vector<NodeRing>& rings) {
  std::vector<NodeRing> all;
  for (const NodeRing& ring : rings) {
    all.push_back(ring);
    all.emplace_back(ring.rbegin(), ring.rend());
  }
  return all;
}

// ---- the fabric ----------------------------------------------------------------------------------------------------

bool joined_directly(const Fabric& fabric, GpuId gpu) {
  const Fabric::LinkRange out = fabric.out_links(fabric.vertex_of(gpu));
  for (LinkId l = out.first; l < out.last; ++l.value) {
    if (fabric.vertex(fabric.link(l).to).kind == VertexKind::gpu) return true;
  }
  return false;
}

struct DirectLinks {
  LinkCounts counts;
  std::vector<Bandwidth> rates;  ///< of all links from one to another, as `counts`
  [[nodiscard]] Bandwidth rate(std::size_t a, std::size_t b) const { return rates[a * counts.size + b]; }
};

/// Counts of a pair that differ by direction (a link down one way) are the smaller one.
DirectLinks direct_links(const Fabric& fabric, std::span<const GpuId> gpus) {
  const std::size_t n = gpus.size();
  std::map<VertexId, std::size_t> position;
  for (std::size_t i = 0; i < n; ++i) position.emplace(fabric.vertex_of(gpus[i]), i);
  DirectLinks direct{.counts = {n, std::vector<std::uint32_t>(n * n)}, .rates = std::vector<Bandwidth>(n * n)};
  for (const auto& [vertex, i] : position) {
    const Fabric::LinkRange out = fabric.out_links(vertex);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const auto to = position.find(fabric.link(l).to);
      if (to == position.end()) continue;
      ++direct.counts.links[i * n + to->second];
      direct.rates[i * n + to->second] = direct.rate(i, to->second) + fabric.link(l).bandwidth;
    }
  }
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      std::uint32_t& out = direct.counts.links[a * n + b];
      std::uint32_t& back = direct.counts.links[b * n + a];
      out = back = std::min(out, back);
    }
  }
  return direct;
}

/// Each of R rings carries 1/R of what a GPU sends, and a pair's links carry those of the rings that use them.
Bandwidth rate_of(const std::vector<NodeRing>& rings, const DirectLinks& direct) {
  const std::size_t n = direct.counts.size;
  std::vector<std::uint32_t> uses(n * n);
  for (const NodeRing& ring : rings) {
    for (std::size_t i = 0; i < n; ++i) ++uses[ring[i] * n + ring[(i + 1) % n]];
  }
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t pair = 0; pair < uses.size(); ++pair) {
    if (uses[pair] == 0) continue;
    least = std::min(least, static_cast<double>(direct.rates[pair].bytes_per_s()) / uses[pair]);
  }
  return bytes_per_second(std::llround(least * static_cast<double>(rings.size())));
}

/// The slowest direct link inside the group; nothing where it has none.
std::optional<Bandwidth> least_rate(const DirectLinks& direct) {
  std::optional<Bandwidth> least;
  for (const Bandwidth rate : direct.rates) {
    if (rate > Bandwidth{}) least = least ? std::min(*least, rate) : rate;
  }
  return least;
}

}  // namespace

std::vector<NodeRing> rings_over(const LinkCounts& counts) {
  const std::size_t n = counts.size;
  if (n < 2) return {};
  // Two GPUs: there and back is one ring, whatever the number of links.
  if (n == 2) return counts.at(0, 1) > 0 ? std::vector<NodeRing>{{0, 1}} : std::vector<NodeRing>{};
  if (complete(counts)) return both_ways(zigzag_rings(static_cast<std::uint32_t>(n)));
  const std::vector<NodeRing> whole = RingSearch(counts, 1).run();
  const std::vector<NodeRing> halves = RingSearch(counts, 2).run();
  return both_ways(halves.size() > 2 * whole.size() ? halves : whole);
}

NodeRings find_node_rings(const Fabric& fabric, std::span<const GpuId> gpus) {
  NodeRing in_order(gpus.size());
  std::iota(in_order.begin(), in_order.end(), 0U);
  const bool direct_at_all =
      gpus.size() > 1 && std::any_of(gpus.begin(), gpus.end(), [&](GpuId gpu) { return joined_directly(fabric, gpu); });
  if (!direct_at_all) return {{std::move(in_order)}, std::nullopt};
  const DirectLinks direct = direct_links(fabric, gpus);
  std::vector<NodeRing> rings = rings_over(direct.counts);
  if (rings.empty()) return {{std::move(in_order)}, least_rate(direct)};
  const Bandwidth rate = rate_of(rings, direct);
  return {std::move(rings), rate};
}

}  // namespace foretrain
