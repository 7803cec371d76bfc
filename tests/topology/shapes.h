// Fabrics and small helpers that several tests of this folder use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/builders/builders.h"
#include "topology/builders/node.h"
#include "topology/fabric.h"

namespace foretrain {

/// One of every builder's shapes, several of them odd on purpose.
enum class Shape : std::uint8_t {
  rail,
  rail_oversubscribed,
  fat_tree_two_tiers,
  fat_tree_three_tiers,
  meta,
  few_nics,
  many_nics,
  torus_3d,
  torus_mesh,
  one_node,
  part_of_a_node,
  two_planes,
};
inline constexpr Shape all_shapes[] = {Shape::rail,
                                       Shape::rail_oversubscribed,
                                       Shape::fat_tree_two_tiers,
                                       Shape::fat_tree_three_tiers,
                                       Shape::meta,
                                       Shape::few_nics,
                                       Shape::many_nics,
                                       Shape::torus_3d,
                                       Shape::torus_mesh,
                                       Shape::one_node,
                                       Shape::part_of_a_node,
                                       Shape::two_planes};

inline Fabric build_clos_shape(Shape shape) {
  switch (shape) {
    case Shape::rail:
      return build_rail_optimised({.node = {}, .cable = {}, .gpus = 64, .nodes_per_group = 4});
    case Shape::rail_oversubscribed:
      return build_rail_optimised({.node = {}, .cable = {}, .gpus = 80, .nodes_per_group = 4, .oversubscription = 3});
    case Shape::fat_tree_two_tiers:
      return build_fat_tree({.node = {}, .cable = {}, .gpus = 96, .tiers = 2, .radix = 32});
    case Shape::fat_tree_three_tiers:
      return build_fat_tree({.node = {.gpus = 2, .nics = 2},
                             .cable = {},
                             .gpus = 40,
                             .tiers = 3,
                             .radix = 8,
                             .leaf_oversubscription = 1,
                             .spine_oversubscription = 3});
    case Shape::meta:
      return build_meta_clos({.node = {},
                              .cable = {},
                              .gpus = 96,
                              .gpus_per_rack = 16,
                              .racks_per_pod = 2,
                              .pods = 3,
                              .cluster_switches = 4,
                              .aggregation_switches = 2});
    case Shape::few_nics:
      return build_fat_tree({.node = {.gpus = 8, .nics = 4}, .cable = {}, .gpus = 64, .tiers = 2, .radix = 16});
    case Shape::many_nics:
      return build_rail_optimised({.node = {.gpus = 2, .nics = 4}, .cable = {}, .gpus = 16, .nodes_per_group = 3});
    case Shape::one_node:
      return build_rail_optimised({.node = {}, .cable = {}, .gpus = 8});
    default:
      return build_rail_optimised({.node = {}, .cable = {}, .gpus = 3});
  }
}

/// Two networks that do not meet, plane p of leaves 2p and 2p + 1 under spine p. Servers of one GPU whose two NICs go
/// to one leaf of each plane, to the same leaf twice, or (the last server's one NIC) to one plane only: ways that are
/// equally long over different switches, ways that are not, and two ports into one switch.
inline Fabric build_two_planes() {
  FabricBuilder b;
  const TierId tier = b.tier("any");
  const Bandwidth rate = gigabytes_per_second(50);
  std::vector<VertexId> leaves;
  for (int plane = 0; plane < 2; ++plane) {
    const VertexId spine = b.add(VertexKind::spine);
    for (int leaf = 0; leaf < 2; ++leaf) {
      leaves.push_back(b.add(VertexKind::leaf));
      b.connect(leaves.back(), spine, rate, nanoseconds(600), tier);
    }
  }
  const std::vector<std::vector<std::size_t>> nics_to = {{0, 2}, {1, 3}, {1, 1}, {0, 3}, {0}};
  for (const std::vector<std::size_t>& server : nics_to) {
    const NodeId node = b.node();
    const VertexId gpu = b.add(VertexKind::gpu, node);
    for (const std::size_t leaf : server) {
      const VertexId nic = b.add(VertexKind::nic, node);
      b.connect(gpu, nic, rate, nanoseconds(500), tier);
      b.connect(nic, leaves[leaf], rate, nanoseconds(600), tier);
    }
  }
  return std::move(b).build();
}

inline Fabric build_shape(Shape shape) {
  switch (shape) {
    case Shape::two_planes:
      return build_two_planes();
    case Shape::torus_3d:
      return build_torus({.shape = {4, 3, 2}});
    case Shape::torus_mesh:
      return build_torus({.shape = {5, 4}, .wraparound = false});
    default:
      return build_clos_shape(shape);
  }
}

/// Vertices of each kind.
inline std::map<VertexKind, std::size_t> count_kinds(const Fabric& fabric) {
  std::map<VertexKind, std::size_t> counts;
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    ++counts[fabric.vertex(id_at<VertexId>(v)).kind];
  }
  return counts;
}

inline std::size_t ports(const Fabric& fabric, VertexId v) {
  return fabric.out_links(v).last.index() - fabric.out_links(v).first.index();
}

inline std::vector<VertexId> vertices_of(const Fabric& fabric, VertexKind kind) {
  std::vector<VertexId> found;
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    if (fabric.vertex(id_at<VertexId>(v)).kind == kind) {
      found.push_back(id_at<VertexId>(v));
    }
  }
  return found;
}

/// Whether every vertex can be reached from the first.
inline bool joined(const Fabric& fabric) {
  std::vector<bool> met(fabric.vertex_count(), false);
  std::vector<VertexId> queue{VertexId{0}};
  met[0] = true;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (LinkId l = fabric.out_links(queue[head]).first; l < fabric.out_links(queue[head]).last; ++l.value) {
      const VertexId to = fabric.link(l).to;
      if (!met[to.index()]) queue.push_back(to);
      met[to.index()] = true;
    }
  }
  return queue.size() == fabric.vertex_count();
}

/// One server (or a part of it) by itself.
inline Fabric server(const NodeSpec& spec, std::uint32_t gpus) {
  FabricBuilder fabric;
  static_cast<void>(add_node(fabric, spec, gpus));
  return std::move(fabric).build();
}

}  // namespace foretrain
