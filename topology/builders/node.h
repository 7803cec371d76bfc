// The server that every builder with NICs places: GPUs in one of the shapes, NICs on PCIe, hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/builders/builders.h"
#include "topology/fabric.h"

namespace foretrain {

/// Throws std::invalid_argument when the numbers of a server make no sense.
void check_node(const NodeSpec& spec);

/// The part of that which is about `shape`.
void check_shape(const NodeSpec& spec);

/// GPUs in each node of a fabric of `gpus`: whole nodes, or one node filled in part. Throws std::invalid_argument
/// when `gpus` is neither.
[[nodiscard]] std::vector<std::uint32_t> fill_nodes(const NodeSpec& spec, std::uint32_t gpus);

/// A NIC, and the cable that it comes with.
struct NicPort {
  VertexId nic;
  Bandwidth rate;
  Duration latency;
};
/// Adds the next server, of the make that its number says, with the first `gpus` of its GPUs and the NICs that serve
/// those; returns the NICs in order.
std::vector<NicPort> add_node(FabricBuilder& fabric, const NodeSpec& spec, std::uint32_t gpus);
void connect(FabricBuilder& fabric, const NicPort& port, VertexId to, TierId tier);

/// The same servers without the first `count`.
[[nodiscard]] NodeSpec without_first(const NodeSpec& spec, std::uint32_t count);
/// Line rate of the fastest NIC of any make.
[[nodiscard]] Bandwidth fastest_nic(const NodeSpec& spec);

/// The tiers that all Clos fabrics have, listed from the GPU outwards.
struct ClosTiers {
  TierId nvlink;
  TierId pcie;
  TierId nic;
  TierId leaf_spine;
};
ClosTiers declare_tiers(FabricBuilder& fabric);

[[nodiscard]] std::vector<VertexId> add_switches(FabricBuilder& fabric, VertexKind kind, std::uint32_t count);

/// Cables that carry `down / oversubscription` upwards. A number of cables is whole, so each gets the bandwidth that
/// makes the ratio exact (to the byte a second) rather than that of a NIC.
struct Uplinks {
  std::uint32_t cables = 0;
  Bandwidth each;
};
/// As few cables of at most `down / ports` each as will do. Throws std::invalid_argument unless 0.1 <= ratio.
[[nodiscard]] Uplinks plan_uplinks(Bandwidth down, std::uint32_t ports, double oversubscription);
/// The same bandwidth on a given number of cables.
[[nodiscard]] Bandwidth uplink_bandwidth(Bandwidth down, std::uint32_t cables, double oversubscription);

}  // namespace foretrain
