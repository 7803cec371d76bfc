// Equal-cost multi-path: every GPU and switch picks one of its links on a shortest path by a hash of the flow, as
// Ethernet switches hash the packet header. Two flows may well pick the same link: that is what ECMP costs.

#include <optional>

#include "topology/routing/policies.h"

namespace foretrain {
namespace {

/// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// Draws for one flow: one number a place where it has a choice.
class FlowHash {
 public:
  FlowHash(std::uint64_t seed, GpuId from, GpuId to, std::uint64_t flow)
      : state_(mixed(mixed(mixed(seed) ^ ((std::uint64_t{from.value} << 32U) | to.value)) ^ flow)) {}

  /// One of `count` at vertex `v`.
  [[nodiscard]] std::size_t pick(VertexId v, std::size_t count) const {
    // The high half times count: evener than a remainder, and as quick.
    return static_cast<std::size_t>(((mixed(state_ ^ v.value) >> 32U) * count) >> 32U);
  }

 private:
  std::uint64_t state_;
};

class Ecmp final : public Router {
 public:
  Ecmp(const Fabric& fabric, std::uint64_t seed) : graph_(fabric), seed_(seed) {}

  void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const override {
    if (from == to) {
      return;
    }
    const Fabric& fabric = graph_.fabric();
    const FlowHash hash(seed_, from, to, flow);
    find_nvswitch_hops(fabric, from, to, hops_);
    if (!hops_.empty()) {
      const NvSwitchHop& hop = hops_[hash.pick(fabric.vertex_of(from), hops_.size())];
      path.push_back({hop.up, 1});
      path.push_back({hop.down, 1});
      return;
    }
    const std::span<const std::uint16_t> distance = graph_.distances(graph_.attachment(to), graph_.attachment(from));
    const SwitchId entry = enter(from, to, hash, distance, path);
    leave(cross(entry, hash, distance, path), to, hash, path);
  }

 private:
  /// From the GPU into its first switch.
  SwitchId enter(GpuId from, GpuId to, const FlowHash& hash, std::span<const std::uint16_t> distance,
                 std::vector<LinkShare>& path) const {
    const std::uint16_t least = shortest(graph_, from, to, distance);
    const Port& port = pick_port(from, hash, [&](const Port& p) { return distance[p.at.index()] == least; });
    if (port.to_nic) {
      path.push_back({*port.to_nic, 1});
    }
    path.push_back({port.to_switch, 1});
    return port.at;
  }

  /// From switch to switch, down the distances; returns the last.
  SwitchId cross(SwitchId here, const FlowHash& hash, std::span<const std::uint16_t> distance,
                 std::vector<LinkShare>& path) const {
    while (distance[here.index()] > 0) {
      nearer_.clear();
      for (const SwitchGraph::Edge& edge : graph_.edges(here)) {
        if (distance[edge.to.index()] + 1 == distance[here.index()]) {
          nearer_.push_back(edge);
        }
      }
      const SwitchGraph::Edge& next = nearer_[hash.pick(graph_.vertex(here), nearer_.size())];
      path.push_back({next.link, 1});
      here = next.to;
    }
    return here;
  }

  void leave(SwitchId here, GpuId to, const FlowHash& hash, std::vector<LinkShare>& path) const {
    const Port& port = pick_port(to, hash, [&](const Port& p) { return p.at == here; });
    path.push_back({port.from_switch, 1});
    if (port.from_nic) {
      path.push_back({*port.from_nic, 1});
    }
  }

  template <class Suits>
  const Port& pick_port(GpuId gpu, const FlowHash& hash, Suits suits) const {
    candidates_.clear();
    for (const Port& port : graph_.ports(gpu)) {
      if (suits(port)) {
        candidates_.push_back(&port);
      }
    }
    return *candidates_[hash.pick(graph_.fabric().vertex_of(gpu), candidates_.size())];
  }

  SwitchGraph graph_;
  std::uint64_t seed_;
  // Scratch, kept to save allocations; hence one router a thread.
  mutable std::vector<NvSwitchHop> hops_;
  mutable std::vector<SwitchGraph::Edge> nearer_;
  mutable std::vector<const Port*> candidates_;
};

}  // namespace

std::unique_ptr<Router> make_ecmp(const Fabric& fabric, std::uint64_t seed) {
  return std::make_unique<Ecmp>(fabric, seed);
}

}  // namespace foretrain
