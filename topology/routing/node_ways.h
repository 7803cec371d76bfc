// Ways inside one node, which no switch of the network takes part in: NVLink from GPU to GPU, NVSwitches, and PCIe.
//
// A GPU never forwards for another: two GPUs use their direct NVLinks, or NVSwitches, or else PCIe switches, host
// bridges and the link between the sockets. (NCCL's NVB, which forwards over a GPU in between, is not modelled.) NICs
// end a way, they do not forward either.
#pragma once

#include <optional>
#include <vector>

#include "topology/fabric.h"
#include "topology/routing/router.h"

namespace foretrain {

/// The link between two vertices, the first of several; none when they are not neighbours.
[[nodiscard]] std::optional<LinkId> find_link(const Fabric& fabric, VertexId from, VertexId to);

/// The ways from one GPU to another of its node that lead over one NVSwitch.
struct NvSwitchHop {
  LinkId up;
  LinkId down;
};
/// Fills `hops` (cleared first) when both GPUs are of one node; empty when no NVSwitch joins them.
void find_nvswitch_hops(const Fabric& fabric, GpuId from, GpuId to, std::vector<NvSwitchHop>& hops);

/// Appends the way over the direct NVLinks of the two GPUs (parallel ones carry even parts, as the hardware stripes
/// them), else evenly over the NVSwitches of the node; false when there is none.
bool route_over_nvlink(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path);

/// As `route_over_nvlink`, else over PCIe and hosts by the fewest hops; false when the node does not join them.
bool route_in_node(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path);

/// The fewest links from a GPU over PCIe switches and hosts to a NIC of its node; empty when there is no such way.
[[nodiscard]] std::vector<LinkId> way_to_nic(const Fabric& fabric, VertexId gpu, VertexId nic);

/// The fewest links from one GPU to another of its node over NVLink, the first such way; empty when there is none.
[[nodiscard]] std::vector<LinkId> way_over_nvlink(const Fabric& fabric, VertexId from, VertexId to);

}  // namespace foretrain
