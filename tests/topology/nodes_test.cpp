// The shapes of a server: links, rates and PCIe trees by what their makers publish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <stdexcept>

#include "tests/topology/shapes.h"
#include "topology/analysis.h"
#include "topology/builders/node.h"

namespace foretrain {
namespace {

Fabric server(const NodeSpec& spec) { return server(spec, spec.gpus); }

std::string refusal(const NodeSpec& spec) {
  try {
    check_node(spec);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

std::vector<Link> links_of(const Fabric& fabric, VertexId v, std::string_view tier) {
  std::vector<Link> found;
  const Fabric::LinkRange out = fabric.out_links(v);
  for (LinkId l = out.first; l < out.last; ++l.value) {
    if (fabric.tiers()[fabric.link(l).tier.index()].name == tier) found.push_back(fabric.link(l));
  }
  return found;
}

Bandwidth sum(const std::vector<Link>& links) {
  Bandwidth all;
  for (const Link& link : links) all = all + link.bandwidth;
  return all;
}

std::set<std::string> tier_names(const Fabric& fabric) {
  std::set<std::string> names;
  for (const Tier& tier : fabric.tiers()) names.insert(tier.name);
  return names;
}

// --- Full mesh ----------------------------------------------------------------------------------------------------

/// AMD CDNA 3 white paper: 7 links of 64 GB/s to the other seven.
TEST(FullMesh, Mi300xHasSevenLinks) {
  const Fabric fabric = server({.nvlink = gigabytes_per_second(448), .shape = NodeShape::full_mesh});
  EXPECT_EQ(count_kinds(fabric)[VertexKind::nvswitch], 0U);
  for (std::size_t g = 0; g < 8; ++g) {
    const VertexId gpu = fabric.vertex_of(id_at<GpuId>(g));
    std::set<std::uint32_t> others;
    for (const Link& link : links_of(fabric, gpu, "nvlink")) {
      EXPECT_EQ(link.bandwidth, gigabytes_per_second(64));
      EXPECT_EQ(fabric.vertex(link.to).kind, VertexKind::gpu);
      others.insert(link.to.value);
    }
    EXPECT_EQ(others.size(), 7U);
    EXPECT_EQ(fabric.nics_of(id_at<GpuId>(g)).size(), 1U);
  }
}

/// Half to half every pair has its link: (n/2)^2 of them.
TEST(FullMesh, BisectionIsAQuarterOfTheSquare) {
  for (const std::uint32_t n : {2U, 4U, 8U}) {
    const Fabric fabric = server({.gpus = n,
                                  .nics = n,
                                  .nvlink = gigabytes_per_second(64) * (n - 1),
                                  .pcie = bytes_per_second(1),
                                  .shape = NodeShape::full_mesh});
    const auto links = std::int64_t{n / 2} * (n / 2);
    EXPECT_NEAR(analyse(fabric).bisection / (gigabytes_per_second(64) * links), 1, 1e-9) << n;
  }
}

// --- Cube mesh ----------------------------------------------------------------------------------------------------

/// WP-08437: six NVLinks of 25 GB/s a GPU; quads whose pairs are all joined, and one GPU of the other quad.
TEST(CubeMesh, EveryGpuHasSixLinksToFourOthers) {
  const Fabric fabric = server({.nics = 4, .nvlink = gigabytes_per_second(150), .shape = NodeShape::cube_mesh});
  for (std::uint32_t g = 0; g < 8; ++g) {
    const std::vector<Link> links = links_of(fabric, fabric.vertex_of(GpuId{g}), "nvlink");
    EXPECT_EQ(sum(links), gigabytes_per_second(150)) << g;
    EXPECT_EQ(links.size(), 6U);
    std::set<std::uint32_t> others;
    for (const Link& link : links) {
      others.insert(fabric.vertex(link.to).in_node);
      EXPECT_EQ(link.bandwidth, gigabytes_per_second(25));
    }
    std::set<std::uint32_t> expected{(g + 4) % 8};
    for (std::uint32_t mate = g / 4 * 4; mate < g / 4 * 4 + 4; ++mate) {
      if (mate != g) expected.insert(mate);
    }
    EXPECT_EQ(others, expected) << g;
  }
}

/// The doubled links make one ring over all eight, which is what lets NCCL run three rings each way.
TEST(CubeMesh, DoubledLinksMakeOneRing) {
  const Fabric fabric = server({.nics = 4, .nvlink = gigabytes_per_second(150), .shape = NodeShape::cube_mesh});
  std::vector<std::uint32_t> ring{0};
  std::uint32_t before = 8;
  do {
    const std::vector<Link> links = links_of(fabric, fabric.vertex_of(GpuId{ring.back()}), "nvlink");
    std::map<std::uint32_t, int> count;
    for (const Link& link : links) ++count[fabric.vertex(link.to).in_node];
    std::vector<std::uint32_t> doubled;
    for (const auto& [other, number] : count) {
      if (number == 2) doubled.push_back(other);
    }
    ASSERT_EQ(doubled.size(), 2U);
    const std::uint32_t next = doubled[0] != before ? doubled[0] : doubled[1];
    before = ring.back();
    ring.push_back(next);
  } while (ring.back() != 0 && ring.size() < 10);
  EXPECT_EQ(std::set<std::uint32_t>(ring.begin(), ring.end()).size(), 8U);
  EXPECT_EQ(ring.size(), 9U);
}

/// WP-08437: a NIC and two GPUs on each of four PCIe switches, two under each CPU.
TEST(CubeMesh, NicsShareASwitchWithTwoGpus) {
  const Fabric fabric = server({.nics = 4, .nvlink = gigabytes_per_second(150), .shape = NodeShape::cube_mesh});
  const std::vector<VertexId> switches = vertices_of(fabric, VertexKind::pcie_switch);
  ASSERT_EQ(switches.size(), 4U);
  for (const VertexId at : switches) {
    std::map<VertexKind, int> plugged;
    for (const Link& link : links_of(fabric, at, "pcie")) ++plugged[fabric.vertex(link.to).kind];
    EXPECT_EQ(plugged, (std::map<VertexKind, int>{{VertexKind::gpu, 2}, {VertexKind::nic, 1}, {VertexKind::host, 1}}));
  }
  const std::vector<VertexId> hosts = vertices_of(fabric, VertexKind::host);
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(links_of(fabric, hosts[0], "pcie").size(), 2U);
  EXPECT_EQ(links_of(fabric, hosts[0], "cpu").size(), 1U);
}

// --- PCIe boxes ---------------------------------------------------------------------------------------------------

TEST(PcieBox, HasNoNvlink) {
  const Fabric fabric = server({.shape = NodeShape::pcie});
  for (const Link& link : fabric.links()) {
    EXPECT_THAT(fabric.tiers()[link.tier.index()].name, testing::AnyOf("pcie", "cpu"));
  }
}

/// Between the halves lies the CPU link alone, however many PCIe lanes lead to it.
TEST(PcieBox, HalvesMeetOverTheCpuLink) {
  NodeSpec spec{.shape = NodeShape::pcie};
  spec.cpu_link = gigabytes_per_second(20);
  const Fabric fabric = server(spec);
  const std::vector<VertexId> hosts = vertices_of(fabric, VertexKind::host);
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(sum(links_of(fabric, hosts[0], "cpu")), gigabytes_per_second(20));
}

TEST(PcieBox, GpusHangOnTheBridgeWithoutSwitches) {
  NodeSpec spec{.gpus = 4, .nics = 1, .shape = NodeShape::pcie};
  spec.gpus_per_switch = 0;
  const Fabric fabric = server(spec);
  EXPECT_EQ(count_kinds(fabric)[VertexKind::pcie_switch], 0U);
  const std::vector<VertexId> hosts = vertices_of(fabric, VertexKind::host);
  EXPECT_EQ(links_of(fabric, hosts[0], "pcie").size(), 2U + 1U);  // two GPUs and the NIC
  EXPECT_EQ(links_of(fabric, hosts[1], "pcie").size(), 2U);
}

// --- NVLink over several racks ------------------------------------------------------------------------------------

/// NVL576: eight racks; every half of the racks reaches the other at the full rate of its GPUs.
TEST(NvlinkRacks, KeepTheFullBandwidth) {
  const NodeSpec spec{.gpus = 24, .nics = 24, .pcie = bytes_per_second(1), .nvlink_racks = 4};
  const Fabric fabric = server(spec);
  EXPECT_EQ(count_kinds(fabric)[VertexKind::nvswitch], 4U + 1U);
  EXPECT_NEAR(analyse(fabric).bisection / (spec.nvlink * 12), 1, 1e-9);
  // A part that fits one rack needs no second level.
  EXPECT_EQ(count_kinds(server(spec, 6))[VertexKind::nvswitch], 1U);
  EXPECT_EQ(count_kinds(server(spec, 7))[VertexKind::nvswitch], 2U + 1U);
}

// --- Servers of several makes -------------------------------------------------------------------------------------

NodeSpec two_makes() {
  NodeSpec spec{.nic = gigabits_per_second(200)};
  spec.others.push_back({2, {.nvlink = gigabytes_per_second(448), .shape = NodeShape::full_mesh}});
  return spec;
}

TEST(OtherNodes, AreThoseFromTheirNumberOn) {
  const NodeSpec spec = two_makes();
  EXPECT_EQ(make_of(spec, 1).shape, NodeShape::nvswitch);
  EXPECT_EQ(make_of(spec, 2).shape, NodeShape::full_mesh);
  EXPECT_EQ(make_of(spec, 9).shape, NodeShape::full_mesh);
  EXPECT_EQ(make_of(without_first(spec, 1), 1).shape, NodeShape::full_mesh);
  EXPECT_EQ(without_first(spec, 3).shape, NodeShape::full_mesh);
  EXPECT_TRUE(without_first(spec, 3).others.empty());
}

/// Leaf and spine carry what the fastest NICs send: nothing between the second make's servers is narrower than those.
TEST(OtherNodes, StandInOneNetworkForTheFastest) {
  const Fabric fabric = build_rail_optimised({.node = two_makes(), .gpus = 32, .nodes_per_group = 2});
  EXPECT_EQ(fabric.node_count(), 4U);
  EXPECT_EQ(count_kinds(fabric)[VertexKind::nvswitch], 2U);
  for (const VertexId nic : vertices_of(fabric, VertexKind::nic)) {
    const bool first = fabric.vertex(nic).node->value < 2;
    EXPECT_EQ(sum(links_of(fabric, nic, "nic")), gigabits_per_second(first ? 200 : 400));
  }
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) {
    EXPECT_EQ(sum(links_of(fabric, leaf, "leaf-spine")), gigabits_per_second(400) * 2);
  }
}

TEST(OtherNodes, WithOtherNumbersAreRefused) {
  NodeSpec fewer = two_makes();
  fewer.others[0].node.nics = 4;
  EXPECT_EQ(refusal(fewer), "servers of 8 GPUs and 4 NICs beside such of 8 and 8; allowed: the same numbers in all");
  NodeSpec first = two_makes();
  first.others[0].from = 0;
  EXPECT_EQ(refusal(first),
            "servers of another make from number 0 on after such from number 0 on; allowed: ascending, 1 or more");
}

// --- All ----------------------------------------------------------------------------------------------------------

TEST(NodeShapes, NumbersThatMakeNoneAreRefused) {
  EXPECT_EQ(refusal({.gpus = 4, .nics = 4, .shape = NodeShape::cube_mesh}), "a cube mesh of 4 GPUs; allowed: 8");
  EXPECT_EQ(refusal({.nvlink_racks = 3}),
            "3 NVLink racks of 8 GPUs in the shape nvswitch; allowed: a divisor of the GPUs, and 1 in other shapes "
            "than nvswitch");
  EXPECT_NE(refusal({.shape = NodeShape::full_mesh, .nvlink_racks = 2}), "");
  NodeSpec none{.shape = NodeShape::pcie};
  none.sockets = 0;
  EXPECT_EQ(refusal(none), "a node has 0 sockets; allowed: 1 to 64");
  EXPECT_EQ(refusal({}), "");
}

NodeSpec any_node() {
  NodeSpec spec;
  spec.shape = *rc::gen::elementOf(std::vector<NodeShape>(std::begin(all_node_shapes), std::end(all_node_shapes)));
  const auto small = *rc::gen::inRange(1U, 5U), times = *rc::gen::inRange(1U, 4U);
  spec.gpus = small * (*rc::gen::arbitrary<bool>() ? times : 1);
  spec.nics = spec.gpus == small ? small * times : small;
  if (spec.shape == NodeShape::cube_mesh) spec.gpus = spec.nics = 8;
  if (spec.shape == NodeShape::nvswitch && *rc::gen::arbitrary<bool>()) spec.nvlink_racks = spec.gpus;
  spec.sockets = *rc::gen::inRange(1U, 5U);
  spec.gpus_per_switch = *rc::gen::inRange(0U, 4U);
  return spec;
}

RC_GTEST_PROP(NodeShapes, AnyPartOfAnyNodeIsWhole, ()) {
  const NodeSpec spec = any_node();
  const std::uint32_t gpus = *rc::gen::inRange(1U, spec.gpus + 1);
  const Fabric fabric = server(spec, gpus);
  RC_ASSERT(fabric.gpu_count() == gpus);
  RC_ASSERT(joined(fabric));
  // NICs of the first GPUs, all of them in a whole node.
  const std::size_t nics = count_kinds(fabric)[VertexKind::nic];
  RC_ASSERT(nics ==
            (spec.nics >= spec.gpus ? gpus * (spec.nics / spec.gpus) : (gpus - 1) / (spec.gpus / spec.nics) + 1));
  const bool tree = spec.shape == NodeShape::cube_mesh || spec.shape == NodeShape::pcie;
  RC_ASSERT(count_kinds(fabric)[VertexKind::host] == (tree ? spec.sockets : 1U));
  RC_ASSERT(tier_names(fabric).count("cpu") == (tree && spec.sockets > 1 ? 1U : 0U));
  for (std::size_t g = 0; g < gpus; ++g) {
    const VertexId gpu = fabric.vertex_of(id_at<GpuId>(g));
    RC_ASSERT(!links_of(fabric, gpu, "pcie").empty());
    const Bandwidth line = sum(links_of(fabric, gpu, "nvlink"));
    RC_ASSERT(line <= spec.nvlink + bytes_per_second(spec.gpus));  // rates are rounded to whole bytes
    if (gpus == spec.gpus && gpus > 1 && spec.shape != NodeShape::pcie) {
      RC_ASSERT(line + bytes_per_second(spec.gpus) >= spec.nvlink);
    }
  }
}

}  // namespace
}  // namespace foretrain
