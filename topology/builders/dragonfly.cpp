// Dragonfly. Routers of a group are joined all to all, groups all to all by `global_links` cables a router. NICs fill
// the routers in order. All groups are built, also those without servers: routes may lead through them (Valiant).
//
// Source: Kim, Dally, Scott, Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008, section 3:
// a routers a group, p terminals and h global channels a router, up to g = a h + 1 groups, balanced at a = 2 p = 2 h.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "topology/builders/groups.h"

namespace foretrain {
namespace {

GlobalPorts ports_of(const DragonflySpec& spec) {
  const std::uint64_t local = std::uint64_t{spec.routers} * (std::max(spec.routers, 1U) - 1) / 2;
  return {.switches = spec.routers, .links = spec.global_links, .groups = spec.groups, .local_cables = local};
}

}  // namespace

std::uint64_t dragonfly_capacity(const DragonflySpec& spec) {
  return std::uint64_t{nodes_per_group(spec.node, std::uint64_t{spec.routers} * spec.hosts)} *
         group_count(ports_of(spec)) * spec.node.gpus;
}

Fabric build_dragonfly(const DragonflySpec& spec) {
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  if (spec.gpus > dragonfly_capacity(spec)) {
    throw std::invalid_argument(fmt::format("{} GPUs do not fit a dragonfly of {} groups of {} routers; the most is {}",
                                            spec.gpus, group_count(ports_of(spec)), spec.routers,
                                            dragonfly_capacity(spec)));
  }
  FabricBuilder fabric;
  static_cast<void>(fabric.tier("nvlink"));
  static_cast<void>(fabric.tier("pcie"));
  const TierId nic = fabric.tier("nic");
  const TierId local = fabric.tier("local");
  const TierId global = fabric.tier("global");
  std::vector<std::vector<VertexId>> groups(group_count(ports_of(spec)));
  std::vector<VertexId> routers;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g] = add_switches(fabric, VertexKind::router, spec.routers);
    for (std::size_t r = 0; r < groups[g].size(); ++r) {
      fabric.set_group(groups[g][r], static_cast<std::uint32_t>(g));
      routers.push_back(groups[g][r]);
      for (std::size_t other = 0; other < r; ++other) {
        fabric.connect(groups[g][other], groups[g][r], spec.local.value_or(fastest_nic(spec.node)), spec.cable.latency,
                       local);
      }
    }
  }
  connect_groups(fabric, groups, ports_of(spec), spec.global.value_or(fastest_nic(spec.node)), spec.global_latency,
                 global);
  fill_in_order(fabric, spec.node, nodes, routers, spec.hosts, nic);
  return std::move(fabric).build();
}

}  // namespace foretrain
