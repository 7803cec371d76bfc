// A fabric for tests: `nodes` servers of `gpus` on an NVSwitch, a NIC a GPU, all NICs on one leaf.
#pragma once

#include "topology/fabric.h"

namespace foretrain::test {

struct SmallFabric {
  std::uint32_t nodes = 1;
  std::uint32_t gpus = 8;
  Bandwidth nvlink = gigabytes_per_second(450);
  Bandwidth nic = gigabytes_per_second(50);
};

inline Fabric build(const SmallFabric& shape) {
  FabricBuilder b;
  const TierId nvlink = b.tier("nvlink");
  const TierId pcie = b.tier("pcie");
  const TierId cable = b.tier("nic");
  const VertexId leaf = b.add(VertexKind::leaf);
  for (std::uint32_t n = 0; n < shape.nodes; ++n) {
    const NodeId node = b.node();
    const VertexId nvswitch = b.add(VertexKind::nvswitch, node);
    for (std::uint32_t g = 0; g < shape.gpus; ++g) {
      const VertexId gpu = b.add(VertexKind::gpu, node);
      const VertexId nic = b.add(VertexKind::nic, node);
      b.connect(gpu, nvswitch, shape.nvlink, nanoseconds(500), nvlink);
      b.connect(gpu, nic, shape.nic * 2, nanoseconds(500), pcie);
      b.connect(nic, leaf, shape.nic, nanoseconds(600), cable);
    }
  }
  return std::move(b).build();
}

}  // namespace foretrain::test
