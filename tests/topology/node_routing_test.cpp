// Inside servers without an NVSwitch: the NVLink between two GPUs, or PCIe, and the PCIe to the nearest NICs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/topology/node_shapes.h"
#include "tests/topology/routes.h"
#include "topology/analysis.h"
#include "topology/routing/router.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(NodeRouting, OverTheFewestPcieHops) {
  const Fabric fabric = build_pcie_boxes(1);
  for (const Routing routing : all_routings) {
    const auto router = make_router(routing, fabric, 1);
    const auto way = [&](std::uint32_t a, std::uint32_t b) {
      return names(fabric, route(*router, GpuId{a}, GpuId{b}));
    };
    EXPECT_THAT(way(0, 1), ElementsAre("node0/gpu0 > node0/pcie0", "node0/pcie0 > node0/gpu1"));
    EXPECT_THAT(way(0, 2), ElementsAre("node0/gpu0 > node0/pcie0", "node0/pcie0 > node0/host0",
                                       "node0/host0 > node0/pcie1", "node0/pcie1 > node0/gpu2"));
    EXPECT_THAT(way(7, 1),
                ElementsAre("node0/gpu7 > node0/pcie3", "node0/pcie3 > node0/host1", "node0/host1 > node0/host0",
                            "node0/host0 > node0/pcie0", "node0/pcie0 > node0/gpu1"));
  }
}

/// No GPU forwards: 0 and 5 have no NVLink, though 0 - 1 - 5 and 0 - 4 - 5 have.
TEST(NodeRouting, CubeMeshTakesNvLinkOnlyDirectly) {
  const Fabric fabric = build_cube_meshes(1);
  for (const Routing routing : all_routings) {
    const auto router = make_router(routing, fabric, 1);
    const std::vector<LinkShare> one = route(*router, GpuId{0}, GpuId{1});
    EXPECT_THAT(names(fabric, one), ElementsAre("node0/gpu0 > node0/gpu1"));
    const std::vector<LinkShare> two = route(*router, GpuId{3}, GpuId{0});
    EXPECT_THAT(names(fabric, two), ElementsAre("node0/gpu3 > node0/gpu0", "node0/gpu3 > node0/gpu0"));
    EXPECT_NE(two[0].link, two[1].link);
    EXPECT_EQ(two[0].share, 0.5);
    EXPECT_EQ(two[1].share, 0.5);
    EXPECT_EQ(route(*router, GpuId{0}, GpuId{5}).size(), 5U);  // over both sockets
  }
}

/// GPUs of two NVLink racks meet over the switch above both; the spread covers parallel switches.
TEST(NodeRouting, TwoLevelsOfNvSwitches) {
  NodeDrafts d;
  FabricBuilder& b = d.builder();
  const NodeId node = b.node();
  const std::vector<VertexId> above{b.add(VertexKind::nvswitch, node), b.add(VertexKind::nvswitch, node)};
  for (int rack = 0; rack < 2; ++rack) {
    const VertexId below = b.add(VertexKind::nvswitch, node);
    d.nvlink(below, above[0]);
    d.nvlink(below, above[1]);
    d.nvlink(b.add(VertexKind::gpu, node), below);
    d.nvlink(b.add(VertexKind::gpu, node), below);
  }
  const Fabric fabric = std::move(b).build();
  for (const Routing routing : all_routings) {
    const auto router = make_router(routing, fabric, 1);
    EXPECT_EQ(route(*router, GpuId{0}, GpuId{1}).size(), 2U);
    EXPECT_THAT(names(fabric, route(*router, GpuId{0}, GpuId{3})),
                UnorderedElementsAre("node0/gpu0 > node0/nvswitch2", "node0/nvswitch2 > node0/nvswitch0",
                                     "node0/nvswitch2 > node0/nvswitch1", "node0/nvswitch0 > node0/nvswitch3",
                                     "node0/nvswitch1 > node0/nvswitch3", "node0/nvswitch3 > node0/gpu3"));
  }
  EXPECT_EQ(analyse(fabric).diameter_hops, 4U);
}

TEST(NodeRouting, NicsAreTheNearestOverPcie) {
  const Fabric fabric = build_pcie_boxes(2);
  for (std::uint32_t g = 0; g < 16; ++g) {
    const auto nics = fabric.nics_of(GpuId{g});
    ASSERT_EQ(nics.size(), 1U);
    EXPECT_EQ(fabric.vertex(nics[0]).in_node, g % 8 / 2);
    EXPECT_EQ(fabric.vertex(nics[0]).node, fabric.node_of(GpuId{g}));
  }
}

/// GPU 0 on a switch with two NICs, GPU 1 on the host, as near to all three NICs of the host's switches and its own.
TEST(NodeRouting, AllNicsAtTheLeastDistanceCount) {
  NodeDrafts d;
  FabricBuilder& b = d.builder();
  const NodeId node = b.node();
  const VertexId leaf = b.add(VertexKind::leaf);
  const VertexId host = b.add(VertexKind::host, node);
  std::vector<VertexId> nics;
  for (const int count : {2, 1}) {
    const VertexId pcie = b.add(VertexKind::pcie_switch, node);
    d.pcie(host, pcie);
    for (int n = 0; n < count; ++n) {
      nics.push_back(b.add(VertexKind::nic, node));
      d.pcie(pcie, nics.back());
      d.cable(nics.back(), leaf);
    }
    if (count == 2) {
      d.pcie(pcie, b.add(VertexKind::gpu, node));
    }
  }
  d.pcie(host, b.add(VertexKind::gpu, node));
  // A GPU whose only way to a NIC leads over another GPU, and one over an NVSwitch.
  const VertexId nvswitch = b.add(VertexKind::nvswitch, node);
  const VertexId lonely = b.add(VertexKind::gpu, node);
  d.nvlink(lonely, nvswitch);
  d.nvlink(nvswitch, host);
  const Fabric fabric = std::move(b).build();
  EXPECT_THAT(fabric.nics_of(GpuId{0}), ElementsAre(nics[0], nics[1]));
  EXPECT_THAT(fabric.nics_of(GpuId{1}), ElementsAre(nics[0], nics[1], nics[2]));
  EXPECT_TRUE(fabric.nics_of(GpuId{2}).empty());
}

TEST(NodeRouting, BetweenNodesOverTheChainToTheNic) {
  const Fabric fabric = build_pcie_boxes(2);
  for (const Routing routing : all_routings) {
    const auto router = make_router(routing, fabric, 1);
    EXPECT_THAT(names(fabric, route(*router, GpuId{1}, GpuId{8 + 6})),
                ElementsAre("node0/gpu1 > node0/pcie0", "node0/pcie0 > node0/nic0", "node0/nic0 > leaf0",
                            "leaf0 > node1/nic3", "node1/nic3 > node1/pcie3", "node1/pcie3 > node1/gpu6"));
  }
}

TEST(NodeRouting, AnalysisKnowsPcie) {
  const TopologyReport report = analyse(build_pcie_boxes(2));
  EXPECT_EQ(report.diameter_hops, 6U);  // GPU > PCIe > NIC > leaf and back; inside at most 5
  // Four NICs of 12 GB/s a node.
  EXPECT_EQ(report.bisection, gigabytes_per_second(4 * 12));
  EXPECT_EQ(report.bisection_of_injection, 1);
  // GPUs 0 to 3 and 4 to 7 meet over the CPU link, and each NIC has the leaf.
  EXPECT_EQ(analyse(build_pcie_boxes(1)).diameter_hops, 5U);
}

/// Shares of the ways, conserved at every vertex, and nothing crossed that does not forward inside a node.
RC_GTEST_PROP(NodeRouting, WhatComesInGoesOut, ()) {
  const Fabric fabric = *rc::gen::arbitrary<bool>() ? build_pcie_boxes(2) : build_cube_meshes(2);
  const Routing routing = *rc::gen::elementOf(std::vector<Routing>(std::begin(all_routings), std::end(all_routings)));
  const auto flows = *rc::gen::inRange(1U, 17U);
  const auto router = make_router(routing, fabric, RouterOptions{.seed = 3, .flows_per_pair = flows});
  const GpuId from{*rc::gen::inRange(0U, 16U)};
  const GpuId to{*rc::gen::inRange(0U, 16U)};
  const std::vector<LinkShare> path = route(*router, from, to);
  if (from == to) {
    RC_ASSERT(path.empty());
    return;
  }
  std::set<LinkId> seen;
  const bool in_node = fabric.node_of(from) == fabric.node_of(to);
  for (const LinkShare& step : path) {
    RC_ASSERT(seen.insert(step.link).second);
    const VertexId next = fabric.link(step.link).to;
    const VertexKind kind = fabric.vertex(next).kind;
    const bool proxy = routing == Routing::rail && fabric.vertex(next).node == fabric.node_of(from);
    RC_ASSERT(kind != VertexKind::gpu || next == fabric.vertex_of(to) || proxy);
    RC_ASSERT(kind != VertexKind::nic || !in_node);
  }
  for (const auto& [vertex, net] : balance(fabric, path)) {
    const double expected = vertex == fabric.vertex_of(from) ? 1 : vertex == fabric.vertex_of(to) ? -1 : 0;
    RC_ASSERT(std::abs(net - expected) < 1e-12);
  }
}

}  // namespace
}  // namespace foretrain
