// Dimension order on a torus: first all hops along x, then y, then z, each the shorter way round; when both are equally
// long, the way of growing coordinates. Deterministic and free of deadlock with two virtual channels (Dally and Seitz
// 1987). Where a cable on that way is missing, and on a fabric that is no torus: `spread`.

#include <optional>
#include <utility>

#include "topology/routing/one_way.h"
#include "topology/routing/policies.h"

namespace foretrain {
namespace {

/// The switches of the graph are then the routers in the order of their ordinals: a SwitchId gives the coordinates.
class DimensionOrder final : public Router {
 public:
  DimensionOrder(const Fabric& fabric, TorusShape shape)
      : graph_(fabric), spread_(make_spread(fabric)), shape_(std::move(shape)) {
    std::uint32_t stride = 1;
    for (const std::uint32_t extent : shape_) {
      wraps_.push_back(extent > 2 && is_any_line_closed(stride, extent));
      stride *= extent;
    }
  }

  void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const override {
    if (from == to || route_in_node(graph_.fabric(), from, to, path)) {
      return;
    }
    const std::span<const Port> ways_in = graph_.ports(from);
    const std::span<const Port> ways_out = graph_.ports(to);
    if (ways_in.empty() || ways_out.empty()) {
      throw_no_path(graph_.fabric(), from, to);
    }
    const Port& in = ways_in.front();
    const Port& out = ways_out.front();
    const std::size_t begin = path.size();
    append_links(graph_.way_out(in), path);
    if (!walk(in.at.value, out.at.value, path)) {
      path.resize(begin);
      spread_->route(from, to, flow, path);
      return;
    }
    append_links(graph_.way_in(out), path);
  }

 private:
  /// Some lines may lack their cable round the back; one that has it shows that the dimension wraps.
  [[nodiscard]] bool is_any_line_closed(std::uint32_t stride, std::uint32_t extent) const {
    for (std::uint32_t i = 0; i < graph_.switch_count(); ++i) {
      if (i / stride % extent == 0 && step(i, i + stride * (extent - 1))) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::optional<LinkId> step(std::uint32_t from, std::uint32_t to) const {
    return find_link(graph_.fabric(), graph_.vertex(SwitchId{from}), graph_.vertex(SwitchId{to}));
  }

  /// False when a cable of the torus is missing.
  bool walk(std::uint32_t here, std::uint32_t there, std::vector<LinkShare>& path) const {
    std::uint32_t stride = 1;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      const std::uint32_t extent = shape_[d];
      const std::uint32_t goal = there / stride % extent;
      std::uint32_t at = here / stride % extent;
      const std::uint32_t ahead = (goal + extent - at) % extent;  // hops in growing direction, round if need be
      const bool grows = wraps_[d] ? 2 * ahead <= extent : goal > at;
      while (at != goal) {
        const std::uint32_t next = grows ? (at + 1) % extent : (at + extent - 1) % extent;
        const std::uint32_t next_router = here - at * stride + next * stride;
        const std::optional<LinkId> link = step(here, next_router);
        if (!link) {
          return false;
        }
        path.push_back({*link, 1});
        here = next_router;
        at = next;
      }
      stride *= extent;
    }
    return true;
  }

  SwitchGraph graph_;
  std::unique_ptr<Router> spread_;
  TorusShape shape_;
  std::vector<bool> wraps_;  ///< by dimension
};

}  // namespace

std::unique_ptr<Router> make_dimension_order(const Fabric& fabric) {
  if (!is_plain_torus(fabric)) {
    return make_spread(fabric);
  }
  return std::make_unique<DimensionOrder>(fabric, *fabric.torus());
}

}  // namespace foretrain
