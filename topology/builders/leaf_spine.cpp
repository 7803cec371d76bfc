// Leaf-spine in given numbers: the NICs of a server on one leaf, servers fill the leaves in order, `cables_per_spine`
// cables from every leaf to every spine.
//
// Source: Alizadeh, Edsall, "On the Data Path Performance of Leaf-Spine Datacenter Fabrics", HOTI 2013.

#include <fmt/format.h>

#include <stdexcept>

#include "topology/builders/node.h"

namespace foretrain {
namespace {

std::uint32_t nodes_per_leaf(const LeafSpineSpec& spec) {
  check_node(spec.node);
  const std::uint32_t nodes = spec.leaf_ports / spec.node.nics;
  if (nodes == 0) {
    throw std::invalid_argument(
        fmt::format("a node's {} NICs do not fit a leaf of {} ports", spec.node.nics, spec.leaf_ports));
  }
  if (spec.leaves == 0 || spec.leaves > 65536 || spec.spines == 0 || spec.spines > 4096 || spec.cables_per_spine == 0 ||
      spec.cables_per_spine > 4096) {
    throw std::invalid_argument(
        fmt::format("{} leaves, {} spines, {} cables between; allowed: 1 to 65536, 1 to 4096, 1 to 4096", spec.leaves,
                    spec.spines, spec.cables_per_spine));
  }
  constexpr std::uint64_t cables_most = 1U << 24;
  if (std::uint64_t{spec.leaves} * spec.spines * spec.cables_per_spine > cables_most) {
    throw std::invalid_argument(fmt::format("{} leaves with {} cables to each of {} spines; allowed: {} in all",
                                            spec.leaves, spec.cables_per_spine, spec.spines, cables_most));
  }
  return nodes;
}

}  // namespace

std::uint64_t leaf_spine_capacity(const LeafSpineSpec& spec) {
  return std::uint64_t{nodes_per_leaf(spec)} * spec.leaves * spec.node.gpus;
}

Fabric build_leaf_spine(const LeafSpineSpec& spec) {
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  const std::uint32_t per_leaf = nodes_per_leaf(spec);
  if (spec.gpus > leaf_spine_capacity(spec)) {
    throw std::invalid_argument(fmt::format("{} GPUs do not fit {} leaves of {} ports; the most is {}", spec.gpus,
                                            spec.leaves, spec.leaf_ports, leaf_spine_capacity(spec)));
  }
  FabricBuilder fabric;
  const ClosTiers tiers = declare_tiers(fabric);
  const std::vector<VertexId> spines = add_switches(fabric, VertexKind::spine, spec.spines);
  VertexId leaf;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (n % per_leaf == 0) {
      leaf = fabric.add(VertexKind::leaf);
      for (std::size_t c = 0; c < spines.size() * spec.cables_per_spine; ++c) {
        fabric.connect(leaf, spines[c % spines.size()], spec.uplink.value_or(fastest_nic(spec.node)),
                       spec.cable.latency, tiers.leaf_spine);
      }
    }
    for (const NicPort& port : add_node(fabric, spec.node, nodes[n])) connect(fabric, port, leaf, tiers.nic);
  }
  return std::move(fabric).build();
}

}  // namespace foretrain
