#include "topology/builders/groups.h"

#include <fmt/format.h>

#include <stdexcept>

namespace foretrain {
namespace {
constexpr std::uint64_t cables_most = 1U << 24;
}  // namespace

std::uint32_t group_count(const GlobalPorts& ports) {
  constexpr std::uint32_t most = 4096;
  if (ports.switches == 0 || ports.switches > most || ports.links == 0 || ports.links > most) {
    throw std::invalid_argument(fmt::format("groups of {} switches with {} global links each; allowed: 1 to {}",
                                            ports.switches, ports.links, most));
  }
  const std::uint32_t reach = ports.switches * ports.links + 1;
  const std::uint32_t groups = ports.groups == 0 ? reach : ports.groups;
  const std::uint64_t in_all = std::uint64_t{groups} * ports.switches * ports.links;
  if (groups > reach || in_all > cables_most) {
    throw std::invalid_argument(
        fmt::format("{} groups of {} switches with {} global links each; allowed: {} groups and {} links in all",
                    groups, ports.switches, ports.links, reach, cables_most));
  }
  if (std::uint64_t{groups} * ports.local_cables > cables_most) {
    throw std::invalid_argument(fmt::format("{} groups of {} cables inside; allowed: {} cables in all", groups,
                                            ports.local_cables, cables_most));
  }
  return groups;
}

std::uint32_t nodes_per_group(const NodeSpec& node, std::uint64_t nic_ports) {
  check_node(node);
  if (nic_ports == 0 || nic_ports % node.nics != 0 || nic_ports > 1U << 22) {
    throw std::invalid_argument(fmt::format("a group has {} ports for nodes of {} NICs; allowed: a multiple, up to {}",
                                            nic_ports, node.nics, 1U << 22));
  }
  return static_cast<std::uint32_t>(nic_ports / node.nics);
}

void connect_groups(FabricBuilder& fabric, std::span<const std::vector<VertexId>> switches, const GlobalPorts& ports,
                    Bandwidth bandwidth, Duration latency, TierId tier) {
  const auto groups = static_cast<std::uint32_t>(switches.size());
  const std::uint32_t cables = groups > 1 ? ports.switches * ports.links / (groups - 1) : 0;  // a pair of groups
  // The switch of group `from` that holds its cable number `round` to group `to`.
  const auto end = [&](std::uint32_t from, std::uint32_t to, std::uint32_t round) {
    const std::uint32_t port = round * (groups - 1) + (to < from ? to : to - 1);
    return switches[from][port / ports.links];
  };
  for (std::uint32_t a = 0; a < groups; ++a) {
    for (std::uint32_t b = a + 1; b < groups; ++b) {
      for (std::uint32_t round = 0; round < cables; ++round) {
        fabric.connect(end(a, b, round), end(b, a, round), bandwidth, latency, tier);
      }
    }
  }
}

void fill_in_order(FabricBuilder& fabric, const NodeSpec& node, const std::vector<std::uint32_t>& gpus_of_nodes,
                   std::span<const VertexId> edge, std::uint32_t hosts, TierId tier) {
  std::size_t placed = 0;
  for (const std::uint32_t gpus : gpus_of_nodes) {
    for (const NicPort& port : add_node(fabric, node, gpus)) connect(fabric, port, edge[placed++ / hosts], tier);
  }
}

}  // namespace foretrain
