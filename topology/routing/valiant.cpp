// Valiant's routing on a dragonfly: minimally to a group that the flow's hash picks, whichever of its switches comes
// first, and from there minimally to the destination; hence at most two global links. One way a flow, chosen by hash
// where there are several. It halves the bandwidth of even traffic and saves traffic between two groups from their one
// link. Within a group, with only two groups, or when no third group is joined to both: minimal. On fabrics whose
// switches are not all in groups: `spread`.
//
// Source: Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, section 4.

#include "topology/routing/flow_hash.h"
#include "topology/routing/one_way.h"
#include "topology/routing/policies.h"

namespace foretrain {
namespace {

class Valiant final : public Router {
 public:
  Valiant(const Fabric& fabric, std::uint64_t seed)
      : graph_(fabric, Ways::one_global_hop), minimal_(make_minimal(fabric)), seed_(seed) {}

  void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const override {
    if (from == to || route_in_node(graph_.fabric(), from, to, path)) {
      return;
    }
    if (!detour(from, to, FlowHash(seed_, from, to, flow), path)) {
      minimal_->route(from, to, flow, path);
    }
  }

 private:
  [[nodiscard]] bool is_in(GpuId gpu, std::uint32_t group) const {
    const std::span<const SwitchId> at = graph_.switches_of(graph_.attachment(gpu));
    return std::any_of(at.begin(), at.end(), [&](SwitchId s) { return graph_.group(s) == group; });
  }

  /// Ends in a group of both.
  [[nodiscard]] bool share_a_group(GpuId a, GpuId b) const {
    const std::span<const SwitchId> at = graph_.switches_of(graph_.attachment(a));
    return std::any_of(at.begin(), at.end(), [&](SwitchId s) { return is_in(b, graph_.group(s)); });
  }

  /// By the first group that works from the one picked among the others; false when none does.
  bool detour(GpuId from, GpuId to, const FlowHash& hash, std::vector<LinkShare>& path) const {
    if (share_a_group(from, to)) {
      return false;
    }
    others_.clear();
    for (std::uint32_t group = 0; group < graph_.group_count(); ++group) {
      if (!is_in(from, group) && !is_in(to, group)) {
        others_.push_back(group);
      }
    }
    // No vertex has this id, so that the draw is one of its own.
    constexpr VertexId group_draw{0xffffffffU};
    const std::size_t first = others_.empty() ? 0 : hash.pick(group_draw, others_.size());
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (route_by(others_[(first + i) % others_.size()], from, to, hash, path)) {
        return true;
      }
    }
    return false;
  }

  /// False, and nothing appended, when the group is not joined to both ends.
  bool route_by(std::uint32_t group, GpuId from, GpuId to, const FlowHash& hash, std::vector<LinkShare>& path) const {
    ByHash choose(graph_, hash);
    const SwitchGraph::Toward to_group =
        graph_.toward(graph_.group_as_destination(group), graph_.switches_of(graph_.attachment(from)));
    if (!is_reached(graph_, from, to_group)) {
      return false;
    }
    const std::size_t begin = path.size();
    const SwitchId middle = cross(enter(graph_, from, to, to_group, choose, path), to_group, choose, path);
    const SwitchGraph::Toward onward = graph_.toward(graph_.attachment(to), {&middle, 1});
    if (onward.distance(middle) == SwitchGraph::unreachable) {
      path.resize(begin);
      return false;
    }
    leave(graph_, cross(middle, onward, choose, path), to, choose, path);
    return true;
  }

  SwitchGraph graph_;
  std::unique_ptr<Router> minimal_;
  std::uint64_t seed_;
  mutable std::vector<std::uint32_t> others_;  // scratch, kept to save allocations
};

}  // namespace

std::unique_ptr<Router> make_valiant(const Fabric& fabric, std::uint64_t seed) {
  if (SwitchGraph(fabric).group_count() < 2) {
    return make_spread(fabric);
  }
  return std::make_unique<Valiant>(fabric, seed);
}

}  // namespace foretrain
