// Minimal routing on a dragonfly: at most one global link (between groups), so local links, the global one, local
// links; evenly over the shortest such ways. Between two groups that no link joins, and on fabrics whose switches are
// not all in groups, as `spread`.
//
// Source: Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, section 4.

#include "topology/routing/policies.h"

namespace foretrain {
namespace {

class Minimal final : public Router {
 public:
  explicit Minimal(const Fabric& fabric)
      : graph_(fabric, Ways::one_global_hop),
        minimal_(make_spread(fabric, Ways::one_global_hop)),
        any_(make_spread(fabric)) {}

  void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const override {
    const SwitchGraph::Toward toward =
        graph_.toward(graph_.attachment(to), graph_.switches_of(graph_.attachment(from)));
    (is_reached(graph_, from, toward) ? minimal_ : any_)->route(from, to, flow, path);
  }

 private:
  SwitchGraph graph_;
  std::unique_ptr<Router> minimal_;
  std::unique_ptr<Router> any_;
};

}  // namespace

std::unique_ptr<Router> make_minimal(const Fabric& fabric) {
  if (SwitchGraph(fabric).group_count() < 2) {
    return make_spread(fabric);
  }
  return std::make_unique<Minimal>(fabric);
}

}  // namespace foretrain
