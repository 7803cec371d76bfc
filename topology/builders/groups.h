// What dragonfly and dragonfly+ share: groups of switches joined all to all, and NICs that fill them in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/builders/node.h"

namespace foretrain {

/// The global side of a group: `switches` switches with `links` ports each.
struct GlobalPorts {
  std::uint32_t switches = 1;
  std::uint32_t links = 1;
  std::uint32_t groups = 0;        ///< as asked; 0 = as many as there are ports, and one more
  std::uint64_t local_cables = 0;  ///< inside a group; for the limit on the size
};

/// Groups to build. Throws std::invalid_argument when the ports do not reach all of them.
[[nodiscard]] std::uint32_t group_count(const GlobalPorts& ports);

/// NICs that a group holds, in whole servers; throws std::invalid_argument when that leaves ports over.
[[nodiscard]] std::uint32_t nodes_per_group(const NodeSpec& node, std::uint64_t nic_ports);

/// Cables between every two groups, as many as the ports allow and equally many a pair: port k of a group, counted
/// switch by switch, leads to the k-th other group, round after round (Kim 2008's consecutive arrangement).
/// `switches[g]` are the switches of group g with global ports.
void connect_groups(FabricBuilder& fabric, std::span<const std::vector<VertexId>> switches, const GlobalPorts& ports,
                    Bandwidth bandwidth, Duration latency, TierId tier);

/// Adds the servers; NIC n of all goes to switch n / hosts of `edge`.
void fill_in_order(FabricBuilder& fabric, const NodeSpec& node, const std::vector<std::uint32_t>& gpus_of_nodes,
                   std::span<const VertexId> edge, std::uint32_t hosts, TierId tier);

}  // namespace foretrain
