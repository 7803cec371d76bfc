// Builders: from a handful of numbers to a Fabric. One file a shape, each with its published source.
//
// All share NodeSpec: a server with `gpus` GPUs joined as its shape says, and NICs reached over PCIe. docs/fabrics.md
// draws them. A fabric has exactly the nodes that `gpus` needs (whole ones, or one filled in part), the
// leaves and pods that hold them, and above those the switches of the whole design, with bandwidths as if every leaf
// and pod were full: oversubscription and path diversity do not change with a partial fill. The number of uplinks is
// rounded up; each then has the bandwidth that makes the oversubscription exactly what was asked. Numbers that make no
// fabric throw std::invalid_argument with what is wrong and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

/// How the GPUs of a server reach each other.
enum class NodeShape : std::uint8_t {
  nvswitch,   ///< all on one NVSwitch, the switch chips taken together: HGX A100, H100, B200, NVL72
  full_mesh,  ///< every pair by a link of its own: MI300X (AMD CDNA 3 white paper), 4x A100 of Perlmutter
  cube_mesh,  ///< eight GPUs in the hybrid cube mesh of the DGX-1 (NVIDIA WP-08437)
  pcie,       ///< no link but PCIe
};
inline constexpr NodeShape all_node_shapes[] = {NodeShape::nvswitch, NodeShape::full_mesh, NodeShape::cube_mesh,
                                                NodeShape::pcie};
[[nodiscard]] std::string_view to_text(NodeShape shape);

struct OtherNodes;
/// A list of them. A NodeSpec holds one and is part of one, so its members are defined below, where both are complete.
struct OtherNodesList : std::vector<OtherNodes> {
  OtherNodesList();
  OtherNodesList(const OtherNodesList&);
  OtherNodesList(OtherNodesList&&) noexcept;
  OtherNodesList& operator=(const OtherNodesList&);
  OtherNodesList& operator=(OtherNodesList&&) noexcept;
  ~OtherNodesList();
};

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
  NodeShape shape = NodeShape::nvswitch;
  /// nvswitch: racks with an NVSwitch each, joined without loss by a second level (GB200 NVL576); divides gpus.
  std::uint32_t nvlink_racks = 1;
  // cube_mesh and pcie: the PCIe tree. Each socket has a host bridge; GPUs divide over the sockets in order, and so
  // many neighbours share a PCIe switch with their NICs. 0 = on the bridge itself.
  std::uint32_t sockets = 2;
  std::uint32_t gpus_per_switch = 2;
  Bandwidth cpu_link = gigabytes_per_second(20.8);  ///< between two sockets, one way: a UPI of 10.4 GT/s, 2 B each
  Duration cpu_latency = nanoseconds(500);          ///< order of magnitude
  /// Servers of another make in the same network, ascending: with as many GPUs and NICs each, and others of their own
  /// ignored. Leaves and spines are dimensioned for the fastest NICs.
  OtherNodesList others = {};
};

/// From the server of that number on, up to the next such entry.
struct OtherNodes {
  std::uint32_t from = 0;
  NodeSpec node;
};
inline OtherNodesList::OtherNodesList() = default;
inline OtherNodesList::OtherNodesList(const OtherNodesList&) = default;
inline OtherNodesList::OtherNodesList(OtherNodesList&&) noexcept = default;
inline OtherNodesList& OtherNodesList::operator=(const OtherNodesList&) = default;
inline OtherNodesList& OtherNodesList::operator=(OtherNodesList&&) noexcept = default;
inline OtherNodesList::~OtherNodesList() = default;

/// The make of server number `node`.
[[nodiscard]] const NodeSpec& make_of(const NodeSpec& spec, std::uint32_t node);

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

/// k-ary fat-tree of two to four tiers built from switches of `radix` ports.
struct FatTreeSpec {
  NodeSpec node;
  SwitchSpec cable;
  std::uint32_t gpus = 0;
  std::uint32_t tiers = 3;            ///< 2 to 4
  std::uint32_t radix = 64;           ///< ports a switch
  double leaf_oversubscription = 1;   ///< at the leaves
  double spine_oversubscription = 1;  ///< at the spines (three tiers or more)
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

/// Torus of accelerators of 1 to 6 dimensions: one router a GPU, the GPU's own links into it.
struct TorusSpec {
  std::vector<std::uint32_t> shape;           ///< extent by dimension, x fastest
  Bandwidth link = gigabytes_per_second(50);  ///< one direction of one cable to one neighbour
  Duration latency = nanoseconds(500);
  bool wraparound = true;
  /// With wraparound: close the lines only where every extent is a multiple of this. TPU v4 and v5p: 4, since optical
  /// switches close whole cubes of 4x4x4; smaller slices are meshes.
  std::uint32_t cube = 1;
};
/// Whether the lines of this shape are closed.
[[nodiscard]] bool wraps(const TorusSpec& spec);
/// Source: TPU v4 (Jouppi 2023, arXiv 2304.01433): 3D torus of chips. A dimension of 2 gets one cable, not two.
[[nodiscard]] Fabric build_torus(const TorusSpec& spec);

/// A switch a rail and nothing above: GPUs of unequal position meet over NVLink. Source: Wang et al., "Rail-only: A
/// Low-Cost High-Performance Network for Training LLMs with Trillion Parameters" (arXiv 2307.12169).
struct RailOnlySpec {
  NodeSpec node;
  std::uint32_t gpus = 0;
  std::uint32_t radix = 64;  ///< ports of a rail's switch: the most nodes
};
[[nodiscard]] Fabric build_rail_only(const RailOnlySpec& spec);
[[nodiscard]] std::uint64_t rail_only_capacity(const RailOnlySpec& spec);

/// Two tiers, all NICs of a node on one leaf, every leaf on every spine, in given numbers. Source: Alizadeh, Edsall,
/// "On the Data Path Performance of Leaf-Spine Datacenter Fabrics", HOTI 2013.
struct LeafSpineSpec {
  NodeSpec node;
  SwitchSpec cable;
  std::uint32_t gpus = 0;
  std::uint32_t leaves = 32;           ///< at most; those that hold servers are built
  std::uint32_t leaf_ports = 32;       ///< NICs a leaf
  std::uint32_t spines = 32;           ///< all built
  std::uint32_t cables_per_spine = 1;  ///< from each leaf
  std::optional<Bandwidth> uplink;     ///< of one cable, one direction; that of a NIC by default
};
[[nodiscard]] Fabric build_leaf_spine(const LeafSpineSpec& spec);
[[nodiscard]] std::uint64_t leaf_spine_capacity(const LeafSpineSpec& spec);

/// Groups of routers, all to all inside a group and all to all between groups. Source: Kim, Dally, Scott, Abts,
/// "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008; their balance is a = 2 h = 2 p.
struct DragonflySpec {
  NodeSpec node;
  SwitchSpec cable;  ///< inside a group
  std::uint32_t gpus = 0;
  std::uint32_t routers = 8;                   ///< a of the paper: routers a group
  std::uint32_t hosts = 4;                     ///< p: NICs a router
  std::uint32_t global_links = 4;              ///< h: a router
  std::uint32_t groups = 0;                    ///< all built; 0 = the most, a h + 1
  std::optional<Bandwidth> local;              ///< of a cable inside a group, one direction; a NIC's by default
  std::optional<Bandwidth> global;             ///< of a cable between groups
  Duration global_latency = nanoseconds(900);  ///< of a hop between groups: optical cables, order of magnitude
};
[[nodiscard]] Fabric build_dragonfly(const DragonflySpec& spec);
[[nodiscard]] std::uint64_t dragonfly_capacity(const DragonflySpec& spec);

/// Groups that are leaf-spine inside, joined all to all by their spines. Source: Shpiner et al., "Dragonfly+: Low Cost
/// Topology for Scaling Datacenters", HiPINEB 2017.
struct DragonflyPlusSpec {
  NodeSpec node;
  SwitchSpec cable;  ///< inside a group
  std::uint32_t gpus = 0;
  std::uint32_t leaves = 8;                    ///< a group
  std::uint32_t spines = 8;                    ///< a group
  std::uint32_t hosts = 8;                     ///< NICs a leaf
  std::uint32_t global_links = 8;              ///< a spine
  std::uint32_t groups = 0;                    ///< all built; 0 = the most, spines * global_links + 1
  std::optional<Bandwidth> local;              ///< of a cable leaf to spine, one direction; a NIC's by default
  std::optional<Bandwidth> global;             ///< of a cable between groups
  Duration global_latency = nanoseconds(900);  ///< as for the dragonfly
};
[[nodiscard]] Fabric build_dragonfly_plus(const DragonflyPlusSpec& spec);
[[nodiscard]] std::uint64_t dragonfly_plus_capacity(const DragonflyPlusSpec& spec);

/// Accelerators at the leaves of a tree of switches, each a node of its own. Source: NVIDIA H100 white paper
/// (WP-10792), NVLink Switch System: 8 GPUs of 450 GB/s, 32 such groups of 1,800 GB/s (a taper of 2:1).
struct PodTreeSpec {
  struct Level {
    std::uint32_t fan_out = 1;  ///< children of a switch of this level
    Bandwidth bandwidth;        ///< of one child, one direction
    Duration latency;
  };
  std::vector<Level> levels;  ///< from the accelerators up
  std::uint32_t gpus = 0;
};
[[nodiscard]] Fabric build_pod_tree(const PodTreeSpec& spec);
[[nodiscard]] std::uint64_t pod_tree_capacity(const PodTreeSpec& spec);

/// Long links between data centres. Each site gets a border switch above its topmost switches, and every two borders
/// are joined. Source: Gemini report (arXiv 2312.11805), section 3: one training job over several data centres joined
/// by the inter-cluster network; bandwidths and latencies are yours, 5 us a km of fibre.
struct SiteLinks {
  Bandwidth bandwidth = gigabits_per_second(1600);  ///< between two sites, one direction
  Duration latency = microseconds(500);             ///< one way: 100 km
};
/// The sites in order, so GPUs are numbered site by site; every switch is put in the group of its site's number.
/// A site without switches outside its servers has no place for a border: std::invalid_argument.
[[nodiscard]] Fabric join_sites(std::span<const Fabric> sites, const SiteLinks& links);

/// Equal sites, filled one after the other; those that hold servers are built.
struct SitesSpec {
  std::variant<RailSpec, FatTreeSpec, MetaClosSpec, LeafSpineSpec> site;
  std::uint32_t gpus = 0;
  std::uint32_t sites = 2;
  std::uint32_t gpus_per_site = 1024;  ///< whole nodes
  SiteLinks links;
};
[[nodiscard]] Fabric build_sites(const SitesSpec& spec);
[[nodiscard]] const NodeSpec& node_of(const SitesSpec& spec);

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
  std::string file;        ///< that it was read from, for texts; empty: none
};
/// The servers of the first `gpus` GPUs, whole but for GPUs past the last, and everything that is in no server.
/// GPUs are numbered node by node, in the order of `vertices` inside a node. Throws std::invalid_argument on a GPU
/// outside a node, a name used twice, a node without GPU, cables that join nothing, GPUs that no path joins.
[[nodiscard]] Fabric build_graph(const GraphSpec& spec);
[[nodiscard]] std::uint64_t graph_gpus(const GraphSpec& spec);

}  // namespace foretrain
