// Builders: from a handful of numbers to a Fabric. One file a shape, each with its published source.
//
// All share NodeSpec: a server with `gpus` GPUs on one NVSwitch (the switch chips of a node taken together), and
// NICs reached over PCIe. A fabric has exactly the nodes that `gpus` needs (whole ones, or one filled in part), the
// leaves and pods that hold them, and above those the switches of the whole design, with bandwidths as if every leaf
// and pod were full: oversubscription and path diversity do not change with a partial fill. The number of uplinks is
// rounded up; each then has the bandwidth that makes the oversubscription exactly what was asked. Numbers that make no
// fabric throw std::invalid_argument with what is wrong and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

/// A server. HGX H100: 8 GPUs, 450 GB/s NVLink each way a GPU, 8 NICs of 400 Gb/s on PCIe Gen5 x16 (64 GB/s).
struct NodeSpec {
  std::uint32_t gpus = 8;
  std::uint32_t nics = 8;                        ///< divides gpus or is a multiple of it
  Bandwidth nvlink = gigabytes_per_second(450);  ///< a GPU, one direction
  Duration nvlink_latency = nanoseconds(500);
  Bandwidth pcie = gigabytes_per_second(64);  ///< GPU to NIC, one direction
  Duration pcie_latency = nanoseconds(500);
  Bandwidth nic = gigabits_per_second(400);
  Duration nic_latency = nanoseconds(600);  ///< NIC to its leaf: cable, NIC and port
};

/// Cables between switches.
struct SwitchSpec {
  Duration latency = nanoseconds(600);  ///< one hop: cable and switch
};

/// Rail-optimised leaf-spine: leaf r of a group takes NIC r of every node of that group.
struct RailSpec {
  NodeSpec node;
  SwitchSpec cable;
  std::uint32_t gpus = 0;
  std::uint32_t nodes_per_group = 32;  ///< DGX SuperPOD scalable unit: 32 nodes, 8 leaves
  double oversubscription = 1;         ///< leaf down over leaf up; nodes_per_group over it = spines
};
/// Source: NVIDIA DGX SuperPOD reference architecture (H100): rail-optimised, 8 leaves a scalable unit.
[[nodiscard]] Fabric build_rail_optimised(const RailSpec& spec);

/// k-ary fat-tree of two or three tiers built from switches of `radix` ports.
struct FatTreeSpec {
  NodeSpec node;
  SwitchSpec cable;
  std::uint32_t gpus = 0;
  std::uint32_t tiers = 3;            ///< 2 or 3
  std::uint32_t radix = 64;           ///< ports a switch
  double leaf_oversubscription = 1;   ///< at the leaves
  double spine_oversubscription = 1;  ///< at the spines (three tiers)
};
/// Source: Al-Fares 2008 (k-ary fat-tree). Throws std::invalid_argument when `gpus` do not fit the radix.
[[nodiscard]] Fabric build_fat_tree(const FatTreeSpec& spec);
/// The most GPUs that the shape can carry, for the error message and for the loader.
[[nodiscard]] std::uint64_t fat_tree_capacity(const FatTreeSpec& spec);

/// Meta's RoCE cluster: 16 GPUs (two servers) a rack switch, 192 racks = 3,072 GPUs a pod at full bisection, 8 pods
/// under an aggregation layer oversubscribed 1:7. Source: Llama 3 (arXiv 2407.21783), section 3.3.1.
struct MetaClosSpec {
  NodeSpec node;
  SwitchSpec cable;
  std::uint32_t gpus = 0;
  std::uint32_t gpus_per_rack = 16;
  std::uint32_t racks_per_pod = 192;
  std::uint32_t pods = 8;
  std::uint32_t cluster_switches = 16;      ///< a pod; each takes one NIC-speed cable from every rack switch
  std::uint32_t aggregation_switches = 16;  ///< above all pods
  double aggregation_oversubscription = 7;
};
[[nodiscard]] Fabric build_meta_clos(const MetaClosSpec& spec);

/// 2D or 3D torus of accelerators with wraparound: one router a GPU, the GPU's own links into it.
struct TorusSpec {
  std::vector<std::uint32_t> shape;           ///< extent by dimension, x fastest
  Bandwidth link = gigabytes_per_second(50);  ///< one direction of one cable to one neighbour
  Duration latency = nanoseconds(500);
  bool wraparound = true;
};
/// Source: TPU v4 (Jouppi 2023, arXiv 2304.01433): 3D torus of chips. A dimension of 2 gets one cable, not two.
[[nodiscard]] Fabric build_torus(const TorusSpec& spec);

/// Any graph, vertex by vertex: written inline in YAML, or read from a file of somebody's own cluster.
struct GraphSpec {
  struct Vertex {
    std::string name;  ///< unique; for messages and files, the fabric has names of its own
    VertexKind kind = VertexKind::gpu;
    std::optional<std::uint32_t> node;   ///< the server it is in, from 0; none for switches of the network
    std::optional<std::uint32_t> group;  ///< dragonfly group or site of a switch
  };
  /// `count` equal cables between two vertices, by their positions in `vertices`.
  struct Cable {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    Bandwidth bandwidth;  ///< of one cable, one direction
    Duration latency;
    std::string tier;
    std::uint32_t count = 1;
  };
  std::vector<Vertex> vertices;
  std::vector<Cable> cables;
  std::uint32_t gpus = 0;  ///< the first so many, node by node; 0 = all
};
/// The servers of the first `gpus` GPUs, whole but for GPUs past the last, and everything that is in no server.
/// GPUs are numbered node by node, in the order of `vertices` inside a node. Throws std::invalid_argument on a GPU
/// outside a node, a name used twice, a node without GPU, cables that join nothing, GPUs that no path joins.
[[nodiscard]] Fabric build_graph(const GraphSpec& spec);
[[nodiscard]] std::uint64_t graph_gpus(const GraphSpec& spec);

}  // namespace foretrain
