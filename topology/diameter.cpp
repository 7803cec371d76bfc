#include "topology/diameter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "topology/routing/node_ways.h"

namespace foretrain {
namespace {

/// Sources searched from at once, a bit each: "The More the Merrier: Efficient Multi-Source Graph Traversal" (Then et
/// al., VLDB 2014). 25,000 routers of a torus take 50 searches instead of 25,000.
constexpr std::size_t word_count = 8;
constexpr std::size_t batch = word_count * 64;

using Bits = std::array<std::uint64_t, word_count>;

void set(Bits& bits, std::size_t i) { bits[i / 64] |= std::uint64_t{1} << (i % 64); }
bool any(const Bits& bits) {
  std::uint64_t all = 0;
  for (const std::uint64_t word : bits) {
    all |= word;
  }
  return all != 0;
}
Bits& operator|=(Bits& a, const Bits& b) {
  for (std::size_t w = 0; w < word_count; ++w) {
    a[w] |= b[w];
  }
  return a;
}
Bits without(const Bits& a, const Bits& b) {
  Bits out{};
  for (std::size_t w = 0; w < word_count; ++w) {
    out[w] = a[w] & ~b[w];
  }
  return out;
}
Bits common(const Bits& a, const Bits& b) { return without(a, without(a, b)); }

/// Whether an NVSwitch has all of them as neighbours, which spares a look at every pair.
bool share_an_nvswitch(const Fabric& fabric, std::span<const GpuId> gpus) {
  const Fabric::LinkRange out = fabric.out_links(fabric.vertex_of(gpus.front()));
  for (LinkId l = out.first; l < out.last; ++l.value) {
    const VertexId at = fabric.link(l).to;
    if (fabric.vertex(at).kind == VertexKind::nvswitch && std::all_of(gpus.begin(), gpus.end(), [&](GpuId gpu) {
          return find_link(fabric, fabric.vertex_of(gpu), at).has_value();
        })) {
      return true;
    }
  }
  return false;
}

/// Links between the two GPUs of a node that are farthest apart inside it; none when it does not join some two.
std::optional<std::size_t> longest_in_node(const Fabric& fabric, std::span<const GpuId> gpus) {
  if (gpus.size() > 1 && share_an_nvswitch(fabric, gpus)) {
    return 2;
  }
  double longest = 0;
  std::vector<LinkShare> path;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = i + 1; j < gpus.size(); ++j) {
      path.clear();
      if (!route_in_node(fabric, gpus[i], gpus[j], path)) {
        return std::nullopt;
      }
      // All ways are equally long, so the shares add up to the length.
      longest = std::max(longest, std::accumulate(path.begin(), path.end(), 0.0,
                                                  [](double sum, const LinkShare& it) { return sum + it.share; }));
    }
  }
  return static_cast<std::size_t>(std::lround(longest));
}

class DiameterSearch {
 public:
  explicit DiameterSearch(const SwitchGraph& graph)
      : graph_(graph), seen_(graph.switch_count()), now_(graph.switch_count()), next_(graph.switch_count()) {
    find_homes();
  }

  std::size_t run() {
    for (std::size_t first = 0; first < graph_.attachment_count(); first += batch) {
      search_from(first, std::min(graph_.attachment_count(), first + batch));
    }
    return longest_;
  }

 private:
  /// The only node whose GPUs hang by an attachment, if it is the only one. GPUs of a node that joins them itself do
  /// not meet over the network, so two attachments of the same single node make no pair.
  void find_homes() {
    const Fabric& fabric = graph_.fabric();
    homes_.resize(graph_.attachment_count());
    std::vector<bool> met(homes_.size(), false);
    for (std::size_t n = 0; n < fabric.node_count(); ++n) {
      const auto node = id_at<NodeId>(n);
      const std::optional<std::size_t> inside = longest_in_node(fabric, fabric.gpus_of(node));
      longest_ = std::max(longest_, inside.value_or(0));
      for (const GpuId gpu : fabric.gpus_of(node)) {
        const std::size_t a = graph_.attachment(gpu).index();
        if (!met[a] && inside) {
          homes_[a] = node;
        } else if (homes_[a] != node) {
          homes_[a] = std::nullopt;
        }
        met[a] = true;
      }
    }
    for (std::size_t a = 0; a < homes_.size(); ++a) {
      if (homes_[a]) {
        of_home_[*homes_[a]].push_back(a);
      }
    }
  }

  void search_from(std::size_t first, std::size_t last) {
    std::fill(seen_.begin(), seen_.end(), Bits{});
    std::fill(now_.begin(), now_.end(), Bits{});
    reached_.assign(graph_.attachment_count(), Bits{});
    of_hops_.clear();
    for (std::size_t a = first; a < last; ++a) {
      for (const SwitchId s : graph_.switches_of(id_at<AttachmentId>(a))) {
        set(seen_[s.index()], a - first);
        set(now_[s.index()], a - first);
      }
      set(of_hops_[graph_.hops_to_switch(id_at<AttachmentId>(a))], a - first);
      if (homes_[a]) {
        for (const std::size_t other : of_home_[*homes_[a]]) {
          set(reached_[other], a - first);  // no pair: as if done
        }
      }
    }
    for (std::size_t level = 0; arrive(level); ++level) {
      advance();
    }
  }

  /// Notes which sources reach which attachments at this level; false when no search goes on.
  bool arrive(std::size_t level) {
    for (std::size_t b = 0; b < reached_.size(); ++b) {
      Bits here{};
      for (const SwitchId s : graph_.switches_of(id_at<AttachmentId>(b))) {
        here |= now_[s.index()];
      }
      const Bits fresh = without(here, reached_[b]);
      if (any(fresh)) {
        reached_[b] |= fresh;
        for (const auto& [hops, sources] : of_hops_) {
          if (any(common(fresh, sources))) {
            longest_ = std::max(longest_, hops + level + graph_.hops_to_switch(id_at<AttachmentId>(b)));
          }
        }
      }
    }
    return std::any_of(now_.begin(), now_.end(), any);
  }

  void advance() {
    std::fill(next_.begin(), next_.end(), Bits{});
    for (std::size_t s = 0; s < now_.size(); ++s) {
      if (any(now_[s])) {
        for (const SwitchGraph::Edge& edge : graph_.edges(id_at<SwitchId>(s))) {
          next_[edge.to.index()] |= now_[s];
        }
      }
    }
    for (std::size_t s = 0; s < now_.size(); ++s) {
      now_[s] = without(next_[s], seen_[s]);
      seen_[s] |= now_[s];
    }
  }

  const SwitchGraph& graph_;
  std::vector<std::optional<NodeId>> homes_;            ///< by attachment
  std::map<NodeId, std::vector<std::size_t>> of_home_;  ///< attachments
  std::vector<Bits> seen_;                              ///< by switch: the sources that have been there
  std::vector<Bits> now_;                               ///< those that arrived at this level
  std::vector<Bits> next_;
  std::vector<Bits> reached_;            ///< by attachment: the sources that have reached one of its switches
  std::map<std::size_t, Bits> of_hops_;  ///< sources by the links from their GPUs to the first switch
  std::size_t longest_ = 0;
};

}  // namespace

std::size_t diameter(const SwitchGraph& graph) { return DiameterSearch(graph).run(); }

}  // namespace foretrain
