// The rail rule: when the destination hangs on other switches than the source, and the source's node has a GPU in the
// destination's position, the bytes go to that GPU over NVLink and leave by its NIC, so that they stay on one rail.
// Otherwise, and from there on, as `spread`. A GPU that has no NIC of its own left is nobody's way out.
//
// Source: NVIDIA, "Doubling all2all performance with NVIDIA Collective Communication Library 2.12" (PXN), 2022.

#include <algorithm>
#include <optional>

#include "topology/routing/policies.h"

namespace foretrain {
namespace {

class Rail final : public Router {
 public:
  Rail(const Fabric& fabric, bool first_of_alike)
      : graph_(fabric), spread_(make_spread(fabric, Ways::any, first_of_alike)) {}

  [[nodiscard]] std::span<const LinkId> alike() const override { return spread_->alike(); }
  [[nodiscard]] const Footprints* footprints() const override { return spread_->footprints(); }

  void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const override {
    const std::optional<GpuId> proxy = proxy_for(from, to);
    if (proxy && route_over_nvlink(graph_.fabric(), from, *proxy, path)) {
      spread_->route(*proxy, to, flow, path);
    } else {
      spread_->route(from, to, flow, path);
    }
  }

 private:
  [[nodiscard]] std::optional<GpuId> proxy_for(GpuId from, GpuId to) const {
    const Fabric& fabric = graph_.fabric();
    if (fabric.node_of(from) == fabric.node_of(to) || share_a_switch(from, to)) {
      return std::nullopt;
    }
    const std::uint32_t position = fabric.vertex(fabric.vertex_of(to)).in_node;
    const std::span<const GpuId> mates = fabric.gpus_of(fabric.node_of(from));
    if (position >= mates.size() || mates[position] == from || graph_.borrows(mates[position])) {
      return std::nullopt;
    }
    return mates[position];
  }

  [[nodiscard]] bool share_a_switch(GpuId a, GpuId b) const {
    const std::span<const SwitchId> at = graph_.switches_of(graph_.attachment(a));
    const std::span<const SwitchId> other = graph_.switches_of(graph_.attachment(b));
    return std::find_first_of(at.begin(), at.end(), other.begin(), other.end()) != at.end();
  }

  SwitchGraph graph_;
  std::unique_ptr<Router> spread_;
};

}  // namespace

std::unique_ptr<Router> make_rail(const Fabric& fabric, bool first_of_alike) {
  return std::make_unique<Rail>(fabric, first_of_alike);
}

}  // namespace foretrain
