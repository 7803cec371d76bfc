// Rail-optimised leaf-spine. A group of servers has one leaf per NIC position ("rail"): leaf r of the group takes NIC r
// of each of its servers, so that GPUs of equal position reach each other over one switch. Every leaf has one cable to
// every spine.
//
// Source: NVIDIA DGX SuperPOD reference architecture (DGX H100, RA-11333-001): scalable units of 32 servers, 8 leaves.

#include <fmt/format.h>

#include <stdexcept>

#include "topology/builders/builders.h"
#include "topology/builders/node.h"

namespace foretrain {
Fabric build_rail_optimised(const RailSpec& spec) {
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  if (spec.nodes_per_group == 0 || spec.nodes_per_group > 65536) {
    throw std::invalid_argument(fmt::format("a rail group has {} nodes; allowed: 1 to 65536", spec.nodes_per_group));
  }
  // The leaf is planned for a full group: a partial one keeps its uplinks.
  const Uplinks up =
      plan_uplinks(fastest_nic(spec.node) * spec.nodes_per_group, spec.nodes_per_group, spec.oversubscription);
  FabricBuilder fabric;
  const ClosTiers tiers = declare_tiers(fabric);
  const std::vector<VertexId> spines = add_switches(fabric, VertexKind::spine, up.cables);
  std::vector<VertexId> leaves;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (n % spec.nodes_per_group == 0) {
      leaves = add_switches(fabric, VertexKind::leaf, spec.node.nics);
      for (const VertexId leaf : leaves) {
        for (const VertexId spine : spines) {
          fabric.connect(leaf, spine, up.each, spec.cable.latency, tiers.leaf_spine);
        }
      }
    }
    const std::vector<NicPort> nics = add_node(fabric, spec.node, nodes[n]);
    for (std::size_t rail = 0; rail < nics.size(); ++rail) {
      connect(fabric, nics[rail], leaves[rail], tiers.nic);
    }
  }
  return std::move(fabric).build();
}

}  // namespace foretrain
