// Fabrics and small helpers that several tests of this folder use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topology/builders/builders.h"
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
                                       Shape::part_of_a_node};

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

inline Fabric build_shape(Shape shape) {
  switch (shape) {
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

}  // namespace foretrain
