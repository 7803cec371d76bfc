// Equal-cost multi-path: every GPU and switch picks one of its links on a shortest path by a hash of the flow, as
// Ethernet switches hash the packet header. Two flows may well pick the same link: that is what ECMP costs.

#include "topology/routing/flow_hash.h"
#include "topology/routing/one_way.h"
#include "topology/routing/policies.h"

namespace foretrain {
namespace {

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
    if (route_in_node(fabric, from, to, path)) {
      return;
    }
    ByHash choose(graph_, hash);
    route_one_way(graph_, from, to, choose, path);
  }

 private:
  SwitchGraph graph_;
  std::uint64_t seed_;
  mutable std::vector<NvSwitchHop> hops_;  // scratch, kept to save allocations; hence one router a thread
};

}  // namespace

std::unique_ptr<Router> make_ecmp(const Fabric& fabric, std::uint64_t seed) {
  return std::make_unique<Ecmp>(fabric, seed);
}

}  // namespace foretrain
