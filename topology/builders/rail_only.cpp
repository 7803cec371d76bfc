// Rail-only: switch r takes NIC r of every server, and there is nothing above. A GPU reaches another rail over the
// NVLinks of its own server first.
//
//   rails    r0    r1    r2    r3
//   server   g0 -- g1 -- g2 -- g3      NVLink
//
// Source: Wang, Ghobadi, Shakeri, Zhang, Hasani, "Rail-only: A Low-Cost High-Performance Network for Training LLMs with
// Trillion Parameters" (arXiv 2307.12169).

#include <fmt/format.h>

#include <stdexcept>

#include "topology/builders/node.h"

namespace foretrain {

std::uint64_t rail_only_capacity(const RailOnlySpec& spec) { return std::uint64_t{spec.radix} * spec.node.gpus; }

Fabric build_rail_only(const RailOnlySpec& spec) {
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  if (nodes.size() > spec.radix) {
    throw std::invalid_argument(fmt::format("{} GPUs do not fit rails of {} ports; the most is {}", spec.gpus,
                                            spec.radix, rail_only_capacity(spec)));
  }
  FabricBuilder fabric;
  static_cast<void>(fabric.tier("nvlink"));
  static_cast<void>(fabric.tier("pcie"));
  const TierId nic_tier = fabric.tier("nic");
  const std::vector<VertexId> rails = add_switches(fabric, VertexKind::leaf, spec.node.nics);
  for (const std::uint32_t gpus : nodes) {
    const std::vector<NicPort> nics = add_node(fabric, spec.node, gpus);
    for (std::size_t rail = 0; rail < nics.size(); ++rail) {
      connect(fabric, nics[rail], rails[rail], nic_tier);
    }
  }
  return std::move(fabric).build();
}

}  // namespace foretrain
