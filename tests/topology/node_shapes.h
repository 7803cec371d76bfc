// Small servers without an NVSwitch, and other fabrics for the tests of routing, built by hand.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

/// What the hand-made nodes are made of.
class NodeDrafts {
 public:
  FabricBuilder& builder() { return b_; }
  void nvlink(VertexId a, VertexId b) { b_.connect(a, b, gigabytes_per_second(25), nanoseconds(700), nvlink_); }
  void pcie(VertexId a, VertexId b) { b_.connect(a, b, gigabytes_per_second(16), nanoseconds(500), pcie_); }
  void cpu(VertexId a, VertexId b) { b_.connect(a, b, gigabytes_per_second(20), nanoseconds(300), cpu_); }
  void cable(VertexId a, VertexId b) { b_.connect(a, b, gigabytes_per_second(12), nanoseconds(600), nic_); }

 private:
  FabricBuilder b_;
  TierId nvlink_ = b_.tier("nvlink");
  TierId pcie_ = b_.tier("pcie");
  TierId cpu_ = b_.tier("cpu");
  TierId nic_ = b_.tier("nic");
};

/// Two sockets joined by a CPU link, two PCIe switches each, on each switch two GPUs and a NIC; returns the GPUs.
///
///   host0 ------ host1
///   pcie0 pcie1  pcie2 pcie3      pcie k: GPUs 2k and 2k + 1, NIC k
inline std::vector<VertexId> add_pcie_box(NodeDrafts& d, VertexId leaf) {
  FabricBuilder& b = d.builder();
  const NodeId node = b.node();
  const std::array hosts{b.add(VertexKind::host, node), b.add(VertexKind::host, node)};
  d.cpu(hosts[0], hosts[1]);
  std::vector<VertexId> gpus;
  for (std::size_t k = 0; k < 4; ++k) {
    const VertexId pcie = b.add(VertexKind::pcie_switch, node);
    d.pcie(hosts.at(k / 2), pcie);
    const VertexId nic = b.add(VertexKind::nic, node);
    d.pcie(pcie, nic);
    d.cable(nic, leaf);
    for (int g = 0; g < 2; ++g) {
      gpus.push_back(b.add(VertexKind::gpu, node));
      d.pcie(pcie, gpus.back());
    }
  }
  return gpus;
}

/// PCIe boxes under one leaf.
inline Fabric build_pcie_boxes(int count) {
  NodeDrafts d;
  const VertexId leaf = d.builder().add(VertexKind::leaf);
  for (int i = 0; i < count; ++i) {
    add_pcie_box(d, leaf);
  }
  return std::move(d.builder()).build();
}

/// The same boxes, with NVLink between GPUs as in the two quads of a cube mesh: all pairs of a quad once, neighbours
/// 0-3 and 1-2 twice (two cables), and GPU i to GPU i + 4 twice.
inline Fabric build_cube_meshes(int count) {
  NodeDrafts d;
  const VertexId leaf = d.builder().add(VertexKind::leaf);
  for (int n = 0; n < count; ++n) {
    const std::vector<VertexId> gpus = add_pcie_box(d, leaf);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = i + 1; j < 4; ++j) {
        for (std::size_t cables = 0; cables < (i + j == 3 ? 2U : 1U); ++cables) {
          d.nvlink(gpus[i], gpus[j]);
          d.nvlink(gpus[i + 4], gpus[j + 4]);
        }
      }
      d.nvlink(gpus[i], gpus[i + 4]);
      d.nvlink(gpus[i], gpus[i + 4]);
    }
  }
  return std::move(d.builder()).build();
}

/// Dragonfly (Kim 2008): groups of `routers`, all joined in a group; router r of a group holds `global` cables to other
/// groups, so that there are routers * global + 1 groups, each pair joined once. One GPU a router, on it directly.
inline Fabric build_small_dragonfly(std::uint32_t routers, std::uint32_t global) {
  FabricBuilder b;
  const TierId tier = b.tier("gpu-router");
  const TierId local = b.tier("local");
  const TierId far = b.tier("global");
  const Bandwidth rate = gigabytes_per_second(25);
  const std::uint32_t groups = routers * global + 1;
  std::vector<VertexId> all;
  for (std::uint32_t g = 0; g < groups; ++g) {
    for (std::uint32_t r = 0; r < routers; ++r) {
      all.push_back(b.add(VertexKind::router));
      b.set_group(all.back(), 10 * g);  // names of groups need not be dense
      b.connect(b.add(VertexKind::gpu, b.node()), all.back(), rate, nanoseconds(100), tier);
      for (std::uint32_t other = 0; other < r; ++other) {
        b.connect(all[g * routers + other], all.back(), rate, nanoseconds(100), local);
      }
    }
  }
  // Port p of group g leads to the p-th of the other groups.
  const auto holder = [&](std::uint32_t g, std::uint32_t other) {
    return all[g * routers + (other < g ? other : other - 1) / global];
  };
  for (std::uint32_t g = 0; g < groups; ++g) {
    for (std::uint32_t other = g + 1; other < groups; ++other) {
      b.connect(holder(g, other), holder(other, g), rate, nanoseconds(300), far);
    }
  }
  return std::move(b).build();
}

}  // namespace foretrain
