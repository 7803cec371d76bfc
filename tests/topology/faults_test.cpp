// Does a fabric with faults lose what the faults say, and nothing else?
#include "topology/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "topology/builders/builders.h"
#include "topology/routing/router.h"

namespace foretrain {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = FabricFault::Kind;

/// 4 groups of 8 nodes of 8 GPUs: each of the 32 leaves has 8 uplinks.
Fabric rails() { return build_rail_optimised({.node = {}, .cable = {}, .gpus = 256, .nodes_per_group = 8}); }

Fabric faulty(const Fabric& fabric, const std::vector<FabricFault>& faults) {
  const FaultReading read = resolve(fabric, faults);
  EXPECT_TRUE(read.mistakes.empty());
  return with_faults(fabric, read.remaining);
}

std::string refusal(const Fabric& fabric, const std::vector<FabricFault>& faults) {
  try {
    static_cast<void>(faulty(fabric, faults));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

std::vector<std::string> names_of_links(const Fabric& fabric) {
  std::vector<std::string> names;
  for (std::size_t l = 0; l < fabric.link_count(); ++l) names.push_back(fabric.name(id_at<LinkId>(l)));
  return names;
}

/// Shares of the links into the spines on the way.
std::vector<double> shares_to_spines(const Fabric& fabric, GpuId from, GpuId to) {
  std::vector<LinkShare> path;
  make_router(Routing::spread, fabric, 1)->route(from, to, 0, path);
  std::vector<double> shares;
  for (const LinkShare& share : path) {
    if (fabric.vertex(fabric.link(share.link).to).kind == VertexKind::spine) shares.push_back(share.share);
  }
  return shares;
}

TEST(Faults, NoneLeaveEveryLinkAsItWas) {
  const Fabric fabric = rails();
  const Fabric same = faulty(fabric, {});
  ASSERT_EQ(same.link_count(), fabric.link_count());
  for (std::size_t l = 0; l < fabric.link_count(); ++l) {
    const Link& was = fabric.link(id_at<LinkId>(l));
    const Link& is = same.link(id_at<LinkId>(l));
    ASSERT_TRUE(was.from == is.from && was.to == is.to && was.bandwidth == is.bandwidth && was.tier == is.tier &&
                was.latency == is.latency);
  }
  EXPECT_EQ(same.tiers()[3].name, fabric.tiers()[3].name);
  EXPECT_EQ(same.gpu_count(), fabric.gpu_count());
}

TEST(Faults, DeadUplinkTakesBothDirectionsAndRoutesAvoidIt) {
  const Fabric fabric = rails();
  const Fabric less = faulty(fabric, {{Kind::link, "leaf3 > spine1", 0}});
  EXPECT_EQ(less.link_count(), fabric.link_count() - 2);
  EXPECT_THAT(names_of_links(fabric), Contains("spine1 > leaf3"));
  EXPECT_THAT(names_of_links(less), Not(Contains("spine1 > leaf3")));
  EXPECT_THAT(names_of_links(less), Not(Contains("leaf3 > spine1")));
  // GPU 3 of node 0 to GPU 3 of node 8, the next group: over leaf3; 7 of 8 uplinks remain, each with more.
  EXPECT_EQ(shares_to_spines(fabric, GpuId{3}, GpuId{67}), std::vector<double>(8, 1.0 / 8));
  EXPECT_EQ(shares_to_spines(less, GpuId{3}, GpuId{67}), std::vector<double>(7, 1.0 / 7));
  EXPECT_EQ(shares_to_spines(less, GpuId{67}, GpuId{3}), std::vector<double>(7, 1.0 / 7));  // spine1 cannot come down
  EXPECT_EQ(shares_to_spines(less, GpuId{4}, GpuId{68}), std::vector<double>(8, 1.0 / 8));  // another rail
}

TEST(Faults, SlowNicIsSlowBothWaysTowardsTheNetworkOnly) {
  const Fabric fabric = rails();
  const Fabric slow = faulty(fabric, {{Kind::nic, "node12/nic3", 0.5}});
  std::size_t slower = 0;
  for (std::size_t l = 0; l < fabric.link_count(); ++l) {
    const Link& was = fabric.link(id_at<LinkId>(l));
    const Link& is = slow.link(id_at<LinkId>(l));
    if (is.bandwidth == was.bandwidth) continue;
    ++slower;
    EXPECT_EQ(is.bandwidth, scaled(was.bandwidth, 0.5));
    EXPECT_TRUE(slow.name(is.from) == "node12/nic3" || slow.name(is.to) == "node12/nic3");
    EXPECT_EQ(slow.tiers()[is.tier.index()].name, "nic");
  }
  EXPECT_EQ(slower, 2U);
}

TEST(Faults, BackgroundTakesItsPartOfEveryLinkOfTheTier) {
  const Fabric fabric = rails();
  const Fabric busy = faulty(fabric, {{Kind::tier, "leaf-spine", 0.75}});
  for (std::size_t l = 0; l < fabric.link_count(); ++l) {
    const Link& was = fabric.link(id_at<LinkId>(l));
    const bool hit = fabric.tiers()[was.tier.index()].name == "leaf-spine";
    ASSERT_EQ(busy.link(id_at<LinkId>(l)).bandwidth, hit ? scaled(was.bandwidth, 0.75) : was.bandwidth);
  }
}

TEST(Faults, OfOneLinkMultiply) {
  const Fabric fabric = rails();
  const FaultReading read =
      resolve(fabric, std::vector<FabricFault>{{Kind::link, "spine1 > leaf3", 0.5}, {Kind::tier, "leaf-spine", 0.8}});
  EXPECT_EQ(*std::min_element(read.remaining.begin(), read.remaining.end()), 0.5 * 0.8);
}

TEST(Faults, PartitionIsRefusedAndNamesBothSides) {
  const Fabric fabric = rails();
  // All NICs of node 0 down: its GPUs have their NVLink, and no way out.
  std::vector<FabricFault> nics;
  for (int n = 0; n < 8; ++n) nics.push_back({Kind::nic, "node0/nic" + std::to_string(n), 0});
  EXPECT_EQ(refusal(fabric, nics),
            "the faults cut the fabric apart: node0/gpu0 can no longer reach node1/gpu0 (8 of 256 GPUs have lost 248)");
  nics.pop_back();
  EXPECT_EQ(refusal(fabric, nics), "");
  std::vector<FabricFault> uplinks;
  for (int s = 0; s < 8; ++s) uplinks.push_back({Kind::link, "leaf3 > spine" + std::to_string(s), 0});
  // Rail 3 of group 0 then ends at its leaf.
  EXPECT_THAT(refusal(fabric, uplinks), HasSubstr("node0/gpu3 can no longer reach "));
  uplinks.pop_back();
  EXPECT_EQ(refusal(fabric, uplinks), "");
}

/// NCCL's PXN: GPU 3 of node 0, whose NIC is down, goes over NVLink to its neighbours and by their NICs, evenly.
TEST(Faults, AGpuWhoseNicIsDownBorrowsItsNeighbours) {
  const Fabric fabric = faulty(rails(), {{Kind::nic, "node0/nic3", 0}});
  const GpuId alone{3};
  const GpuId far{8 + 3};
  for (const Routing routing : {Routing::spread, Routing::rail, Routing::ecmp, Routing::static_up_down}) {
    SCOPED_TRACE(to_text(routing));
    const auto router = make_router(routing, fabric, 1);
    for (const auto& [from, to] : {std::pair{alone, far}, {far, alone}}) {
      std::vector<LinkShare> path;
      router->route(from, to, 0, path);
      double out = 0;
      std::map<VertexId, double> by_nic;
      for (const LinkShare& it : path) {
        const Link& link = fabric.link(it.link);
        if (link.from == fabric.vertex_of(from)) out += it.share;
        const VertexId nic = from == alone ? link.from : link.to;
        const VertexId leaf = from == alone ? link.to : link.from;
        const bool of_node = fabric.vertex(nic).kind == VertexKind::nic && fabric.vertex(nic).node == NodeId{0};
        if (of_node && fabric.vertex(leaf).kind == VertexKind::leaf) by_nic[nic] += it.share;
      }
      EXPECT_NEAR(out, 1, 1e-12);
      const bool divides = routing == Routing::spread || routing == Routing::rail;
      EXPECT_EQ(by_nic.size(), divides ? 7U : 1U);
      for (const auto& [nic, share] : by_nic) EXPECT_NEAR(share, divides ? 1.0 / 7 : 1, 1e-12);
    }
  }
  // Neighbours do not go by way of it to stay on their rail.
  std::vector<LinkShare> path;
  make_router(Routing::rail, fabric, 1)->route(GpuId{0}, far, 0, path);
  for (const LinkShare& it : path) EXPECT_NE(fabric.link(it.link).to, fabric.vertex_of(alone));
}

TEST(Faults, WhatWasApartBeforeIsNoNews) {
  // Two nodes on leaves that nothing joins: apart already.
  FabricBuilder b;
  const TierId tier = b.tier("nic");
  for (int n = 0; n < 2; ++n) {
    const VertexId leaf = b.add(VertexKind::leaf);
    const NodeId node = b.node();
    for (int g = 0; g < 2; ++g) {
      const VertexId gpu = b.add(VertexKind::gpu, node), nic = b.add(VertexKind::nic, node);
      b.connect(gpu, nic, gigabytes_per_second(50), nanoseconds(1), tier);
      b.connect(nic, leaf, gigabytes_per_second(50), nanoseconds(1), tier);
    }
  }
  const Fabric fabric = std::move(b).build();
  EXPECT_EQ(refusal(fabric, {{Kind::nic, "node0/nic1", 0.5}}), "");
  EXPECT_THAT(refusal(fabric, {{Kind::nic, "node0/nic1", 0}}), HasSubstr("node0/gpu1 can no longer reach node0/gpu0"));
}

TEST(Faults, TorusWithADeadCableIsRoutedAroundIt) {
  const Fabric torus = build_torus({.shape = {4, 4}});
  const Fabric less = faulty(torus, {{Kind::link, "router0 > router1", 0}});
  EXPECT_FALSE(less.torus().has_value());
  std::vector<LinkShare> path;
  make_router(Routing::dimension_order, less, 1)->route(GpuId{0}, GpuId{1}, 0, path);
  double arrives = 0;
  for (const LinkShare& share : path) {
    EXPECT_NE(less.name(share.link), "router0 > router1");
    if (less.link(share.link).to == less.vertex_of(GpuId{1})) arrives += share.share;
  }
  EXPECT_NEAR(arrives, 1.0, 1e-12);
}

TEST(Faults, UnknownNamesAreListedAllTogether) {
  const Fabric fabric = rails();
  const FaultReading read = resolve(fabric, std::vector<FabricFault>{{Kind::link, "leaf99 > spine1", 0},
                                                                     {Kind::nic, "node0/gpu3", 0},
                                                                     {Kind::tier, "leaf-core", 0.5},
                                                                     {Kind::link, "leaf0 > leaf1", 0},
                                                                     {Kind::link, "leaf0", 0}});
  ASSERT_EQ(read.mistakes.size(), 5U);
  EXPECT_EQ(read.mistakes[0].name, "leaf99");
  EXPECT_THAT(read.mistakes[0].known, Contains("leaf9"));
  EXPECT_EQ(read.mistakes[1].name, "node0/gpu3");
  EXPECT_THAT(read.mistakes[1].known, Contains("node0/nic3"));
  EXPECT_EQ(read.mistakes[2].name, "leaf-core");
  EXPECT_THAT(read.mistakes[2].known, Contains("leaf-spine"));
  EXPECT_EQ(read.mistakes[3].name, "");
  EXPECT_THAT(read.mistakes[3].known, Contains("leaf0 > spine0"));
  EXPECT_EQ(read.mistakes[4].name, "leaf0");
  EXPECT_EQ(std::count(read.remaining.begin(), read.remaining.end(), 1.0),
            static_cast<std::ptrdiff_t>(fabric.link_count()));
}

/// Whatever cables die: either a pair is named that has no route, or every pair has one and no dead cable is on it.
RC_GTEST_PROP(Faults, EveryPairKeepsARouteOrThePartitionIsTold, ()) {
  const Fabric fabric =
      build_rail_optimised({.node = {.gpus = 2, .nics = 2}, .cable = {}, .gpus = 8, .nodes_per_group = 2});
  std::vector<double> remaining(fabric.link_count(), 1.0);
  const auto dead = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, remaining.size()));
  for (const std::size_t l : dead) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    for (std::size_t o = 0; o < remaining.size(); ++o) {
      const Link& other = fabric.link(id_at<LinkId>(o));
      if (o == l || (other.from == link.to && other.to == link.from)) remaining[o] = 0;
    }
  }
  const auto all_routed = [](const Fabric& f) {
    const auto router = make_router(Routing::spread, f, 1);
    for (std::size_t a = 0; a < f.gpu_count(); ++a) {
      for (std::size_t b = 0; b < f.gpu_count(); ++b) {
        std::vector<LinkShare> path;
        router->route(id_at<GpuId>(a), id_at<GpuId>(b), 0, path);
      }
    }
  };
  bool refused = false;
  try {
    const Fabric less = with_faults(fabric, remaining);
    all_routed(less);  // throws if not
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  RC_CLASSIFY(refused, "partition");
  if (!refused) return;
  // The opposite: what is refused has indeed a pair without a route. Built by hand, without the check.
  FabricBuilder b;
  for (const Tier& tier : fabric.tiers()) b.tier(tier.name);
  for (std::size_t n = 0; n < fabric.node_count(); ++n) b.node();
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    const Vertex& vertex = fabric.vertex(id_at<VertexId>(v));
    vertex.node ? b.add(vertex.kind, *vertex.node) : b.add(vertex.kind);
  }
  for (std::size_t l = 0; l < remaining.size(); ++l) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    if (remaining[l] > 0) b.connect_one_way(link.from, link.to, link.bandwidth, link.latency, link.tier);
  }
  const Fabric cut = std::move(b).build();
  RC_ASSERT_THROWS_AS(all_routed(cut), std::runtime_error);
}

}  // namespace
}  // namespace foretrain
