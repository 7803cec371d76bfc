// Fabrics built by hand for the tests of collectives: nodes with one NVSwitch, one NIC a GPU, leaves and spines.
#pragma once

#include <vector>

#include "topology/fabric.h"

namespace foretrain {

struct HandMade {
  std::uint32_t nodes = 2;
  std::uint32_t gpus = 8;  ///< a node
  std::uint32_t spines = 4;
  Bandwidth nvlink = gigabytes_per_second(450);
  Bandwidth nic = gigabits_per_second(400);
};

/// Leaf r takes NIC r of every node; every leaf reaches every spine, non-blocking.
inline Fabric hand_made(const HandMade& spec) {
  FabricBuilder b;
  const TierId nvlink = b.tier("nvlink");
  const TierId pcie = b.tier("pcie");
  const TierId nic_tier = b.tier("nic");
  const TierId spine_tier = b.tier("leaf-spine");
  const Duration hop = nanoseconds(500);
  std::vector<VertexId> leaves;
  for (std::uint32_t g = 0; g < spec.gpus; ++g) leaves.push_back(b.add(VertexKind::leaf));
  for (std::uint32_t n = 0; n < spec.nodes; ++n) {
    const NodeId node = b.node();
    const VertexId nvswitch = b.add(VertexKind::nvswitch, node);
    for (std::uint32_t g = 0; g < spec.gpus; ++g) {
      const VertexId gpu = b.add(VertexKind::gpu, node);
      const VertexId nic = b.add(VertexKind::nic, node);
      b.connect(gpu, nvswitch, spec.nvlink, hop, nvlink);
      b.connect(gpu, nic, spec.nic * 2, hop, pcie);
      b.connect(nic, leaves[g], spec.nic, hop, nic_tier);
    }
  }
  for (std::uint32_t s = 0; s < spec.spines; ++s) {
    const VertexId spine = b.add(VertexKind::spine);
    for (const VertexId leaf : leaves) b.connect(leaf, spine, spec.nic * spec.nodes, hop, spine_tier);
  }
  return std::move(b).build();
}

inline std::vector<GpuId> first_gpus(std::size_t count) {
  std::vector<GpuId> group;
  for (std::size_t i = 0; i < count; ++i) group.push_back(id_at<GpuId>(i));
  return group;
}

/// Every `stride`-th GPU from `first` on.
inline std::vector<GpuId> strided_gpus(std::size_t first, std::size_t stride, std::size_t count) {
  std::vector<GpuId> group;
  for (std::size_t i = 0; i < count; ++i) group.push_back(id_at<GpuId>(first + i * stride));
  return group;
}

}  // namespace foretrain
