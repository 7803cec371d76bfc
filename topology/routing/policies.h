// What the routing policies share, and their makers. One policy a file; router.cpp knows them by name.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "topology/routing/router.h"
#include "topology/routing/switch_graph.h"

namespace foretrain {

/// The ways from one GPU to another of its node that lead over an NVSwitch.
struct NvSwitchHop {
  LinkId up;
  LinkId down;
};
/// Fills `hops` (cleared first) when both GPUs are of one node; empty when no NVSwitch joins them.
void find_nvswitch_hops(const Fabric& fabric, GpuId from, GpuId to, std::vector<NvSwitchHop>& hops);

/// Appends, evenly shared, the in-node route; false when there is none.
bool route_over_nvswitch(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path);

[[noreturn]] void throw_no_path(const Fabric& fabric, GpuId from, GpuId to);

/// Switch links from the source's ports to the destination over the shortest; throws std::runtime_error naming both
/// GPUs when no port leads there.
[[nodiscard]] std::uint16_t shortest(const SwitchGraph& graph, GpuId from, GpuId to,
                                     std::span<const std::uint16_t> distance);

[[nodiscard]] std::unique_ptr<Router> make_ecmp(const Fabric& fabric, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Router> make_spread(const Fabric& fabric);
[[nodiscard]] std::unique_ptr<Router> make_rail(const Fabric& fabric);
[[nodiscard]] std::unique_ptr<Router> make_dimension_order(const Fabric& fabric);

}  // namespace foretrain
