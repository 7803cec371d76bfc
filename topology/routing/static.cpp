// Static up/down: the way depends on the destination only, as in the forwarding tables of InfiniBand. In a fat-tree a
// switch that has k links towards the destination takes number d mod k of them, d being the destination's position, and
// the next switch goes on with d / k: destinations next to each other leave a switch by different links, and all ways
// to one destination come down over the same switches. With as many links up as down, no two flows of a shift
// permutation meet. Where the way leads on to a switch of the same kind (torus, dragonfly) the first link is taken.
//
// Source: Zahavi, "Fat-tree routing and node ordering providing contention free traffic for MPI global collectives",
// J. Parallel Distrib. Comput. 72 (2012): D-Mod-K; OpenSM's `ftree` engine computes such tables.

#include <algorithm>
#include <tuple>

#include "topology/routing/one_way.h"
#include "topology/routing/policies.h"

namespace foretrain {
namespace {

/// Positions of the GPUs in the order of the switches that they hang on (those without network last): those on one
/// leaf are next to each other.
std::vector<std::uint32_t> positions(const SwitchGraph& graph) {
  const auto count = graph.fabric().gpu_count();
  std::vector<std::tuple<bool, SwitchId, GpuId>> order;
  order.reserve(count);
  for (std::size_t g = 0; g < count; ++g) {
    const auto gpu = id_at<GpuId>(g);
    const std::span<const Port> ports = graph.ports(gpu);
    order.emplace_back(ports.empty(), ports.empty() ? SwitchId{} : ports.front().at, gpu);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> position(count);
  for (std::size_t i = 0; i < count; ++i) {
    position[std::get<GpuId>(order[i]).index()] = static_cast<std::uint32_t>(i);
  }
  return position;
}

/// Spends the destination's position digit by digit, in the bases of the numbers of links.
class ByDestination {
 public:
  ByDestination(const SwitchGraph& graph, std::uint32_t position) : graph_(graph), left_(position) {}
  [[nodiscard]] std::size_t port(GpuId /*gpu*/, std::size_t count) { return digit(count); }
  [[nodiscard]] std::size_t edge(SwitchId here, std::span<const SwitchGraph::Edge> edges) {
    return kind(here) == kind(edges.front().to) ? 0 : digit(edges.size());
  }

 private:
  [[nodiscard]] VertexKind kind(SwitchId s) const { return graph_.fabric().vertex(graph_.vertex(s)).kind; }
  std::size_t digit(std::size_t base) {
    const std::size_t it = left_ % base;
    left_ /= base;
    return it;
  }

  const SwitchGraph& graph_;
  std::size_t left_;
};

class Static final : public Router {
 public:
  explicit Static(const Fabric& fabric) : graph_(fabric), positions_(positions(graph_)) {}

  void route(GpuId from, GpuId to, std::uint64_t /*flow*/, std::vector<LinkShare>& path) const override {
    if (from == to || route_in_node(graph_.fabric(), from, to, path)) {
      return;
    }
    ByDestination choose(graph_, positions_[to.index()]);
    route_one_way(graph_, from, to, choose, path);
  }

 private:
  SwitchGraph graph_;
  std::vector<std::uint32_t> positions_;  ///< by GPU
};

}  // namespace

std::unique_ptr<Router> make_static(const Fabric& fabric) { return std::make_unique<Static>(fabric); }

}  // namespace foretrain
