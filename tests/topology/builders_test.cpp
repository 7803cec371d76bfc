// Builders: counts, ports and oversubscription by the formulas of the designs.
#include "topology/builders/builders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "tests/topology/shapes.h"
#include "topology/analysis.h"

namespace foretrain {
namespace {

/// The message of the std::invalid_argument that `build` throws; empty when it throws none.
template <class Build>
std::string refusal(Build build) {
  try {
    static_cast<void>(build());
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

double oversubscription(const Fabric& fabric, const std::string& tier) {
  for (const TierReport& report : analyse(fabric).tiers) {
    if (report.name == tier) {
      return report.oversubscription.value_or(0);
    }
  }
  return -1;
}

// --- Nodes --------------------------------------------------------------------------------------------------------

TEST(Node, GpuHasItsOwnNic) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 16});
  for (std::size_t g = 0; g < 16; ++g) {
    const auto nics = fabric.nics_of(id_at<GpuId>(g));
    ASSERT_EQ(nics.size(), 1U);
    EXPECT_EQ(fabric.vertex(nics[0]).in_node, g % 8);
    EXPECT_EQ(fabric.vertex(nics[0]).node, fabric.node_of(id_at<GpuId>(g)));
  }
}

TEST(Node, NeighboursShareANicWhenThereAreFewer) {
  const Fabric fabric = build_rail_optimised({.node = {.gpus = 8, .nics = 4}, .cable = {}, .gpus = 8});
  for (std::size_t g = 0; g < 8; ++g) {
    const auto nics = fabric.nics_of(id_at<GpuId>(g));
    ASSERT_EQ(nics.size(), 1U);
    EXPECT_EQ(fabric.vertex(nics[0]).in_node, g * 4 / 8);
  }
}

TEST(Node, GpuHasSeveralNicsWhenThereAreMore) {
  const Fabric fabric = build_rail_optimised({.node = {.gpus = 4, .nics = 8}, .cable = {}, .gpus = 8});
  for (std::size_t g = 0; g < 8; ++g) {
    const auto nics = fabric.nics_of(id_at<GpuId>(g));
    ASSERT_EQ(nics.size(), 2U);
    EXPECT_EQ(fabric.vertex(nics[0]).in_node, g % 4 * 2);
    EXPECT_EQ(fabric.vertex(nics[1]).in_node, g % 4 * 2 + 1);
  }
}

TEST(Node, HostHangsOnTheNicsOnly) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 8});
  const std::vector<VertexId> hosts = vertices_of(fabric, VertexKind::host);
  ASSERT_EQ(hosts.size(), 1U);
  EXPECT_EQ(ports(fabric, hosts[0]), 8U);
  for (LinkId l = fabric.out_links(hosts[0]).first; l < fabric.out_links(hosts[0]).last; ++l.value) {
    EXPECT_EQ(fabric.vertex(fabric.link(l).to).kind, VertexKind::nic);
  }
}

TEST(Node, PartOfANodeHasTheGpusAskedFor) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 3});
  EXPECT_EQ(fabric.gpu_count(), 3U);
  EXPECT_EQ(fabric.node_count(), 1U);
  EXPECT_EQ(count_kinds(fabric)[VertexKind::nic], 3U);
}

TEST(Node, NumbersThatMakeNoNodeAreRefused) {
  const auto with = [](NodeSpec node, std::uint32_t gpus) {
    return refusal([&] { return build_rail_optimised({.node = node, .cable = {}, .gpus = gpus}); });
  };
  EXPECT_EQ(with({}, 0), "the fabric has 0 GPUs; allowed: 1 or more");
  EXPECT_EQ(with({}, 12), "the fabric has 12 GPUs in nodes of 8; allowed: a multiple of 8, or fewer");
  EXPECT_EQ(with({.gpus = 0}, 8), "a node has 0 GPUs; allowed: 1 to 65536");
  EXPECT_EQ(with({.gpus = 8, .nics = 3}, 8),
            "a node has 3 NICs for 8 GPUs; allowed: a number that divides that of the GPUs or is a multiple of it");
  EXPECT_EQ(with({.gpus = 8, .nics = 8, .nvlink = {}}, 8), "a cable's bandwidth must be above 0, not 0B/s");
  EXPECT_EQ(with({}, 4'000'000'000U), "the fabric has 4000000000 GPUs; the most is 4194304");
}

// --- Rail-optimised -----------------------------------------------------------------------------------------------

TEST(RailOptimised, CountsAndPorts) {
  const std::size_t nodes = 128;
  const std::size_t groups = nodes / 32;
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 8 * nodes});
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::leaf], 8 * groups);
  EXPECT_EQ(counts[VertexKind::spine], 32U);
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) {
    EXPECT_EQ(ports(fabric, leaf), 32U + 32U);  // the SuperPOD's 64-port switch, half down and half up
  }
  for (const VertexId spine : vertices_of(fabric, VertexKind::spine)) {
    EXPECT_EQ(ports(fabric, spine), 8 * groups);
  }
}

TEST(RailOptimised, LeafTakesOneRail) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 64, .nodes_per_group = 4});
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) {
    const std::uint32_t rail = fabric.vertex(leaf).ordinal % 8;
    std::size_t nics = 0;
    for (const LinkId l : fabric.in_links(leaf)) {
      const Vertex& below = fabric.vertex(fabric.link(l).from);
      if (below.kind == VertexKind::nic) {
        EXPECT_EQ(below.in_node, rail);
        EXPECT_EQ(below.node->value / 4, fabric.vertex(leaf).ordinal / 8);
        ++nics;
      }
    }
    EXPECT_EQ(nics, 4U);
  }
}

// --- Oversubscription, every builder ------------------------------------------------------------------------------

class Ratio : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Builders, Ratio, testing::Values(1.0, 1.2, 1.5, 2.0, 3.0, 7.0, 100.0));

TEST_P(Ratio, IsExactWhateverTheNumberOfCables) {
  const double ratio = GetParam();
  // Rates are whole bytes a second: of 1e9 and more, half a byte is 1e-9.
  const double tolerance = 1e-8 * ratio;
  EXPECT_NEAR(oversubscription(build_rail_optimised({.node = {}, .cable = {}, .gpus = 512, .oversubscription = ratio}),
                               "leaf-spine"),
              ratio, tolerance);
  const Fabric two =
      build_fat_tree({.node = {}, .cable = {}, .gpus = 512, .tiers = 2, .radix = 64, .leaf_oversubscription = ratio});
  EXPECT_NEAR(oversubscription(two, "leaf-spine"), ratio, tolerance);
  FatTreeSpec tree{.node = {.gpus = 1, .nics = 1},
                   .cable = {},
                   .gpus = 0,
                   .tiers = 3,
                   .radix = 8,
                   .leaf_oversubscription = 1.5,
                   .spine_oversubscription = ratio};
  tree.gpus = static_cast<std::uint32_t>(fat_tree_capacity(tree));
  const Fabric three = build_fat_tree(tree);
  EXPECT_NEAR(oversubscription(three, "leaf-spine"), 1.5, tolerance);
  EXPECT_NEAR(oversubscription(three, "spine-core"), ratio, tolerance);
  const Fabric meta = build_meta_clos({.node = {},
                                       .cable = {},
                                       .gpus = 512,
                                       .gpus_per_rack = 16,
                                       .racks_per_pod = 8,
                                       .pods = 4,
                                       .aggregation_oversubscription = ratio});
  EXPECT_NEAR(oversubscription(meta, "leaf-spine"), 1, tolerance);
  EXPECT_NEAR(oversubscription(meta, "spine-core"), ratio, tolerance);
}

TEST_P(Ratio, SwitchesKeepToTheirRadix) {
  for (const std::uint32_t radix : {8U, 16U, 30U, 64U}) {
    const FatTreeSpec spec{.node = {.gpus = 1, .nics = 1},
                           .cable = {},
                           .gpus = 128,
                           .tiers = 3,
                           .radix = radix,
                           .leaf_oversubscription = GetParam(),
                           .spine_oversubscription = GetParam()};
    for (const SwitchRadix& it : analyse(build_fat_tree(spec)).switches) {
      if (it.kind != VertexKind::nvswitch) {
        EXPECT_LE(it.ports_max, radix);
      }
    }
  }
}

// --- Fat-tree -----------------------------------------------------------------------------------------------------

class Radix : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(FatTree, Radix, testing::Values(2U, 4U, 6U, 8U, 12U));

/// Al-Fares 2008, section 2.2: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.
TEST_P(Radix, ThreeTiersAreTheKAryFatTree) {
  const std::uint32_t k = GetParam();
  FatTreeSpec spec{.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = k * k * k / 4, .tiers = 3, .radix = k};
  EXPECT_EQ(fat_tree_capacity(spec), k * k * k / 4);
  const Fabric fabric = build_fat_tree(spec);
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::leaf], k * k / 2);
  EXPECT_EQ(counts[VertexKind::spine], k * k / 2);
  EXPECT_EQ(counts[VertexKind::core], k * k / 4);
  for (const VertexKind kind : {VertexKind::leaf, VertexKind::spine, VertexKind::core}) {
    for (const VertexId v : vertices_of(fabric, kind)) {
      EXPECT_EQ(ports(fabric, v), k) << fabric.name(v);
    }
  }
  for (const Link& link : fabric.links()) {
    if (fabric.tiers()[link.tier.index()].name != "nvlink" && fabric.tiers()[link.tier.index()].name != "pcie") {
      EXPECT_EQ(link.bandwidth, gigabits_per_second(400));
    }
  }
  ++spec.gpus;
  EXPECT_NE(refusal([&] { return build_fat_tree(spec); }), "");
}

/// Two tiers of k ports: k leaves with k/2 hosts each under k/2 spines.
TEST_P(Radix, TwoTiersHoldHalfTheSquare) {
  const std::uint32_t k = GetParam();
  const FatTreeSpec spec{.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = k * k / 2, .tiers = 2, .radix = k};
  EXPECT_EQ(fat_tree_capacity(spec), k * k / 2);
  auto counts = count_kinds(build_fat_tree(spec));
  EXPECT_EQ(counts[VertexKind::leaf], k);
  EXPECT_EQ(counts[VertexKind::spine], k / 2);
}

/// Four tiers: k super-pods, each a three-tier tree of k/2 pods whose (k/2)^2 cores have k/2 ports up; (k/2)^3 at the
/// top.
TEST_P(Radix, FourTiersRepeatTheConstruction) {
  const std::uint32_t k = GetParam();
  const std::uint32_t half = k / 2;
  FatTreeSpec spec{.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = 0, .tiers = 4, .radix = k};
  spec.gpus = static_cast<std::uint32_t>(fat_tree_capacity(spec));
  EXPECT_EQ(spec.gpus, 2 * half * half * half * half);  // k^4/8
  const Fabric fabric = build_fat_tree(spec);
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::leaf], k * half * half);
  EXPECT_EQ(counts[VertexKind::spine], k * half * half);
  EXPECT_EQ(counts[VertexKind::core], k * half * half + half * half * half);
  for (const VertexKind kind : {VertexKind::leaf, VertexKind::spine, VertexKind::core}) {
    for (const VertexId v : vertices_of(fabric, kind)) EXPECT_EQ(ports(fabric, v), k) << fabric.name(v);
  }
  ++spec.gpus;
  EXPECT_NE(refusal([&] { return build_fat_tree(spec); }), "");
}

TEST(FatTree, ANodeHangsOnOneLeaf) {
  const Fabric fabric = build_fat_tree({.node = {}, .cable = {}, .gpus = 1024});
  EXPECT_EQ(count_kinds(fabric)[VertexKind::leaf], 1024U / 32U);
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) {
    std::map<std::uint32_t, std::size_t> nics_of_node;
    for (const LinkId l : fabric.in_links(leaf)) {
      if (const Vertex& below = fabric.vertex(fabric.link(l).from); below.kind == VertexKind::nic) {
        ++nics_of_node[below.node->value];
      }
    }
    EXPECT_EQ(nics_of_node.size(), 4U);
    for (const auto& [node, nics] : nics_of_node) {
      EXPECT_EQ(nics, 8U) << node;
    }
  }
}

TEST(FatTree, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal([] { return build_fat_tree({.node = {}, .cable = {}, .gpus = 2056, .tiers = 2, .radix = 64}); }),
            "2056 GPUs do not fit a fat-tree of 2 tiers of 64-port switches; the most is 2048");
  EXPECT_EQ(refusal([] { return build_fat_tree({.node = {}, .cable = {}, .gpus = 8, .tiers = 5}); }),
            "a fat-tree has 5 tiers; allowed: 2 to 4");
  EXPECT_EQ(refusal([] { return build_fat_tree({.node = {}, .cable = {}, .gpus = 8, .tiers = 4, .radix = 130}); }),
            "switches have 130 ports; allowed: 2 to 128");
  EXPECT_EQ(refusal([] { return build_fat_tree({.node = {}, .cable = {}, .gpus = 8, .tiers = 2, .radix = 1}); }),
            "switches have 1 ports; allowed: 2 to 1024");
  EXPECT_EQ(refusal([] { return build_fat_tree({.node = {}, .cable = {}, .gpus = 8, .tiers = 2, .radix = 8}); }),
            "a node's 8 NICs do not fit the down ports of a leaf of 8 ports at 1:1");
  EXPECT_EQ(refusal([] {
              return build_fat_tree({.node = {}, .cable = {}, .gpus = 8, .leaf_oversubscription = std::nan("")});
            }),
            "oversubscription is nan; allowed: 0.1 to 1000000 (1 = none)");
}

// --- Meta ---------------------------------------------------------------------------------------------------------

/// Llama 3, section 3.3.1: 16 GPUs a rack, 192 racks a pod, 8 pods, 24,576 GPUs.
TEST(MetaClos, IsAsPublished) {
  const Fabric fabric = build_meta_clos({.node = {}, .cable = {}, .gpus = 24576});
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::gpu], 24576U);
  EXPECT_EQ(counts[VertexKind::leaf], 192U * 8U);
  EXPECT_EQ(counts[VertexKind::spine], 16U * 8U);
  EXPECT_EQ(counts[VertexKind::core], 16U);
  for (const VertexId rack : vertices_of(fabric, VertexKind::leaf)) {
    EXPECT_EQ(ports(fabric, rack), 16U + 16U);
  }
}

/// 16,384 GPUs = 5 1/3 pods: the sixth is there with all its cluster switches, and its uplinks are a full pod's.
TEST(MetaClos, APartOfAPodKeepsItsUplinks) {
  const Fabric fabric = build_meta_clos({.node = {}, .cable = {}, .gpus = 16384});
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::leaf], 16384U / 16U);
  EXPECT_EQ(counts[VertexKind::spine], 6U * 16U);
  for (const Link& link : fabric.links()) {
    if (fabric.tiers()[link.tier.index()].name == "spine-core") {
      // 192 rack cables of 50 GB/s over 16 aggregation cables at 7:1
      EXPECT_NEAR(static_cast<double>(link.bandwidth.bytes_per_s()), 192 * 50e9 / 16 / 7, 1);
    }
  }
}

TEST(MetaClos, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal([] { return build_meta_clos({.node = {}, .cable = {}, .gpus = 24584}); }),
            "24584 GPUs do not fit 8 pods of 192 racks of 16 GPUs; the most is 24576");
  EXPECT_EQ(refusal([] { return build_meta_clos({.node = {}, .cable = {}, .gpus = 8, .gpus_per_rack = 12}); }),
            "a rack has 12 GPUs in nodes of 8; allowed: a multiple of 8");
}

// --- Torus --------------------------------------------------------------------------------------------------------

TEST(Torus, CountsAndPorts) {
  const Fabric fabric = build_torus({.shape = {4, 5, 6}});
  EXPECT_EQ(fabric.gpu_count(), 4U * 5U * 6U);
  EXPECT_EQ(*fabric.torus(), (TorusShape{4, 5, 6}));
  for (const VertexId router : vertices_of(fabric, VertexKind::router)) {
    EXPECT_EQ(ports(fabric, router), 6U + 1U);
  }
  // A GPU is as fast as its router's cables together.
  EXPECT_EQ(fabric.link(fabric.out_links(fabric.vertex_of(GpuId{0})).first).bandwidth, gigabytes_per_second(50) * 6);
}

/// Cables of a line of n: n with wraparound, n - 1 without; of 2 always one, of 1 none.
TEST(Torus, CablesOfALine) {
  for (const std::uint32_t n : {1U, 2U, 3U, 4U, 7U}) {
    for (const bool wraparound : {true, false}) {
      const std::size_t cables = wraparound && n > 2 ? n : n - 1;
      EXPECT_EQ(build_torus({.shape = {n}, .wraparound = wraparound}).link_count(), 2 * (n + cables)) << n;
    }
  }
}

TEST(Torus, ShapesThatAreNoneAreRefused) {
  EXPECT_EQ(refusal([] { return build_torus({}); }), "a torus has 0 dimensions; allowed: 1 to 6");
  EXPECT_EQ(refusal([] {
              return build_torus({.shape = {4, 0}});
            }),
            "a torus has shape 4x0; allowed: extents of 1 or more, at most 4194304 accelerators");
  EXPECT_NE(refusal([] { return build_torus({.shape = {65536, 65536, 65536, 65536}}); }), "");
}

}  // namespace
}  // namespace foretrain
