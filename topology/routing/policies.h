// What the routing policies share, and their makers. One policy a file; router.cpp knows them by name.
#pragma once

#include <memory>
#include <vector>

#include "topology/routing/node_ways.h"
#include "topology/routing/router.h"
#include "topology/routing/switch_graph.h"

namespace foretrain {

[[noreturn]] void throw_no_path(const Fabric& fabric, GpuId from, GpuId to);

/// Switch links from the source's ports to the destination over the shortest; throws std::runtime_error naming both
/// GPUs when no port leads there.
[[nodiscard]] std::uint16_t shortest(const SwitchGraph& graph, GpuId from, GpuId to, const SwitchGraph::Toward& toward);
/// Whether some port of the source leads there.
[[nodiscard]] bool is_reached(const SwitchGraph& graph, GpuId from, const SwitchGraph::Toward& toward);

[[nodiscard]] std::unique_ptr<Router> make_ecmp(const Fabric& fabric, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Router> make_spread(const Fabric& fabric, Ways ways = Ways::any,
                                                  bool first_of_alike = false);
[[nodiscard]] std::unique_ptr<Router> make_rail(const Fabric& fabric, bool first_of_alike = false);
[[nodiscard]] std::unique_ptr<Router> make_dimension_order(const Fabric& fabric);
[[nodiscard]] std::unique_ptr<Router> make_static(const Fabric& fabric);
[[nodiscard]] std::unique_ptr<Router> make_minimal(const Fabric& fabric);
[[nodiscard]] std::unique_ptr<Router> make_valiant(const Fabric& fabric, std::uint64_t seed);

/// Every pair's bytes in `flows` equal flows, each routed by itself.
[[nodiscard]] std::unique_ptr<Router> make_many_flows(std::unique_ptr<Router> one, const Fabric& fabric,
                                                      std::uint32_t flows);

}  // namespace foretrain
