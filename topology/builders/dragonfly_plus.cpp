// Dragonfly+. A group is a leaf-spine of its own: every leaf on every spine of the group; the spines hold the global
// cables, which join the groups all to all. NICs fill the leaves in order. All groups are built, as for the dragonfly.
//
// Source: Shpiner, Haramaty, Eliad, Zdornov, Gafni, Zahavi, "Dragonfly+: Low Cost Topology for Scaling Datacenters",
// HiPINEB 2017.

#include <fmt/format.h>

#include <stdexcept>

#include "topology/builders/groups.h"

namespace foretrain {
namespace {

GlobalPorts ports_of(const DragonflyPlusSpec& spec) {
  const std::uint64_t local = std::uint64_t{spec.leaves} * spec.spines;
  return {.switches = spec.spines, .links = spec.global_links, .groups = spec.groups, .local_cables = local};
}

}  // namespace

std::uint64_t dragonfly_plus_capacity(const DragonflyPlusSpec& spec) {
  return std::uint64_t{nodes_per_group(spec.node, std::uint64_t{spec.leaves} * spec.hosts)} *
         group_count(ports_of(spec)) * spec.node.gpus;
}

Fabric build_dragonfly_plus(const DragonflyPlusSpec& spec) {
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  if (spec.gpus > dragonfly_plus_capacity(spec)) {
    throw std::invalid_argument(fmt::format("{} GPUs do not fit a dragonfly+ of {} groups of {} leaves; the most is {}",
                                            spec.gpus, group_count(ports_of(spec)), spec.leaves,
                                            dragonfly_plus_capacity(spec)));
  }
  FabricBuilder fabric;
  const ClosTiers tiers = declare_tiers(fabric);
  const TierId global = fabric.tier("global");
  std::vector<std::vector<VertexId>> spines(group_count(ports_of(spec)));
  std::vector<VertexId> leaves;
  for (std::size_t g = 0; g < spines.size(); ++g) {
    spines[g] = add_switches(fabric, VertexKind::spine, spec.spines);
    for (const VertexId spine : spines[g]) {
      fabric.set_group(spine, static_cast<std::uint32_t>(g));
    }
    for (std::uint32_t l = 0; l < spec.leaves; ++l) {
      leaves.push_back(fabric.add(VertexKind::leaf));
      fabric.set_group(leaves.back(), static_cast<std::uint32_t>(g));
      for (const VertexId spine : spines[g]) {
        fabric.connect(leaves.back(), spine, spec.local.value_or(fastest_nic(spec.node)), spec.cable.latency,
                       tiers.leaf_spine);
      }
    }
  }
  connect_groups(fabric, spines, ports_of(spec), spec.global.value_or(fastest_nic(spec.node)), spec.global_latency,
                 global);
  fill_in_order(fabric, spec.node, nodes, leaves, spec.hosts, tiers.nic);
  return std::move(fabric).build();
}

}  // namespace foretrain
