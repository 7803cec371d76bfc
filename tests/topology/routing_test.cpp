// Routing: what comes in goes out, on the shortest ways, over nothing that does not forward.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <stdexcept>

#include "tests/topology/routes.h"
#include "tests/topology/shapes.h"
#include "topology/routing/router.h"

namespace foretrain {
namespace {

/// Links to `to` from every vertex that has a way, by a plain search that knows only: GPUs and hosts do not forward.
/// The oracle of the routers, which search over switches and attachments instead. Cables go both ways, so the search
/// may start at the end.
std::map<VertexId, std::size_t> plain_distances(const Fabric& fabric, GpuId to) {
  const VertexId end = fabric.vertex_of(to);
  std::map<VertexId, std::size_t> distance{{end, 0}};
  std::deque<VertexId> queue{end};
  while (!queue.empty()) {
    const VertexId here = queue.front();
    queue.pop_front();
    const VertexKind kind = fabric.vertex(here).kind;
    if (here != end && (kind == VertexKind::gpu || kind == VertexKind::host)) {
      continue;
    }
    for (LinkId l = fabric.out_links(here).first; l < fabric.out_links(here).last; ++l.value) {
      if (distance.try_emplace(fabric.link(l).to, distance[here] + 1).second) {
        queue.push_back(fabric.link(l).to);
      }
    }
  }
  return distance;
}

std::size_t plain_distance(const Fabric& fabric, GpuId from, GpuId to) {
  return plain_distances(fabric, to).at(fabric.vertex_of(from));
}

/// A fabric, a routing and a pair of its GPUs.
struct Case {
  Fabric fabric;
  std::unique_ptr<Router> router;
  Routing routing;
  GpuId from;
  GpuId to;
  std::uint64_t flow;
};

Case any_case(const rc::Gen<Routing>& routings) {
  Fabric fabric = build_shape(*rc::gen::elementOf(std::vector<Shape>(std::begin(all_shapes), std::end(all_shapes))));
  const Routing routing = *routings;
  const auto count = static_cast<std::uint32_t>(fabric.gpu_count());
  const GpuId from{*rc::gen::inRange(0U, count)};
  const GpuId to{*rc::gen::inRange(0U, count)};
  Case it{std::move(fabric), nullptr, routing, from, to, *rc::gen::arbitrary<std::uint64_t>()};
  return it;
}

rc::Gen<Routing> any_routing() {
  return rc::gen::elementOf(std::vector<Routing>(std::begin(all_routings), std::end(all_routings)));
}

RC_GTEST_PROP(Routing, WhatComesInGoesOut, ()) {
  const Case it = any_case(any_routing());
  const auto router = make_router(it.routing, it.fabric, 1);
  const std::vector<LinkShare> path = route(*router, it.from, it.to, it.flow);
  if (it.from == it.to) {
    RC_ASSERT(path.empty());
    return;
  }
  for (const auto& [vertex, net] : balance(it.fabric, path)) {
    const double expected = vertex == it.fabric.vertex_of(it.from) ? 1 : vertex == it.fabric.vertex_of(it.to) ? -1 : 0;
    RC_ASSERT(std::abs(net - expected) < 1e-12);
  }
}

RC_GTEST_PROP(Routing, SharesArePositiveAndEachLinkAppearsOnce, ()) {
  const Case it = any_case(any_routing());
  const auto router = make_router(it.routing, it.fabric, 1);
  std::map<LinkId, int> seen;
  for (const LinkShare& step : route(*router, it.from, it.to, it.flow)) {
    RC_ASSERT(step.share > 0 && step.share <= 1 + 1e-12);
    RC_ASSERT(++seen[step.link] == 1);
    RC_ASSERT(it.routing != Routing::ecmp || step.share == 1);
  }
}

RC_GTEST_PROP(Routing, NothingIsCrossedThatDoesNotForward, ()) {
  const Case it = any_case(any_routing());
  const auto router = make_router(it.routing, it.fabric, 1);
  const NodeId home = it.fabric.node_of(it.from);
  for (const LinkShare& step : route(*router, it.from, it.to, it.flow)) {
    const VertexId next = it.fabric.link(step.link).to;
    const Vertex& vertex = it.fabric.vertex(next);
    RC_ASSERT(vertex.kind != VertexKind::host);
    // The rail rule alone crosses a GPU, and only one of the source's node.
    const bool proxy = it.routing == Routing::rail && vertex.node == home;
    RC_ASSERT(vertex.kind != VertexKind::gpu || next == it.fabric.vertex_of(it.to) || proxy);
  }
}

/// The mean length weighted by share is the shortest length only if every way is a shortest one.
RC_GTEST_PROP(Routing, WaysAreShortest, ()) {
  const Case it =
      any_case(rc::gen::element(Routing::ecmp, Routing::spread, Routing::dimension_order, Routing::static_up_down));
  const auto router = make_router(it.routing, it.fabric, 1);
  const double length = total(route(*router, it.from, it.to, it.flow));
  RC_ASSERT(std::abs(length - static_cast<double>(plain_distance(it.fabric, it.from, it.to))) < 1e-9);
}

RC_GTEST_PROP(Routing, ThereIsAsFarAsBack, ()) {
  const Case it = any_case(any_routing());
  RC_PRE(it.routing != Routing::rail || it.fabric.gpu_count() > 8);
  const auto router = make_router(it.routing, it.fabric, 1);
  const double there = total(route(*router, it.from, it.to, it.flow));
  const double back = total(route(*router, it.to, it.from, it.flow));
  RC_ASSERT(std::abs(there - back) < 1e-9);
}

RC_GTEST_PROP(Routing, SameArgumentsSameAnswer, ()) {
  const Case it = any_case(any_routing());
  const auto one = make_router(it.routing, it.fabric, 7);
  const auto other = make_router(it.routing, it.fabric, 7);
  // The other one has answered another question first: caches must not show.
  static_cast<void>(route(*other, it.to, it.from, 3));
  const std::vector<LinkShare> a = route(*one, it.from, it.to, it.flow);
  const std::vector<LinkShare> b = route(*other, it.from, it.to, it.flow);
  const std::vector<LinkShare> c = route(*one, it.from, it.to, it.flow);
  const auto same = [](const LinkShare& x, const LinkShare& y) { return x.link == y.link && x.share == y.share; };
  RC_ASSERT(std::equal(a.begin(), a.end(), b.begin(), b.end(), same));
  RC_ASSERT(std::equal(a.begin(), a.end(), c.begin(), c.end(), same));
}

/// Spread is the mean of all shortest ways hop by hop: at each switch the shares of the links that it uses are equal.
RC_GTEST_PROP(Routing, SpreadIsEvenAtEverySwitch, ()) {
  const Case it = any_case(rc::gen::just(Routing::spread));
  const auto router = make_router(Routing::spread, it.fabric, 1);
  std::map<VertexId, std::vector<double>> out;
  for (const LinkShare& step : route(*router, it.from, it.to)) {
    out[it.fabric.link(step.link).from].push_back(step.share);
  }
  for (const auto& [vertex, shares] : out) {
    for (const double share : shares) {
      RC_ASSERT(std::abs(share - shares.front()) < 1e-12);
    }
  }
}

/// Spread leaves no shortest way out: where it passes, every link that leads nearer has a share. (Within a node it
/// keeps to NVLink even where a shared NIC is as near.)
RC_GTEST_PROP(Routing, SpreadUsesEveryShortestWay, ()) {
  const Case it = any_case(rc::gen::just(Routing::spread));
  RC_PRE(it.fabric.node_of(it.from) != it.fabric.node_of(it.to));
  const auto router = make_router(Routing::spread, it.fabric, 1);
  const std::map<VertexId, std::size_t> distance = plain_distances(it.fabric, it.to);
  std::map<VertexId, std::size_t> used;
  for (const LinkShare& step : route(*router, it.from, it.to)) {
    ++used[it.fabric.link(step.link).from];
  }
  for (const auto& [vertex, count] : used) {
    std::size_t nearer = 0;
    for (LinkId l = it.fabric.out_links(vertex).first; l < it.fabric.out_links(vertex).last; ++l.value) {
      const VertexId next = it.fabric.link(l).to;
      const VertexKind kind = it.fabric.vertex(next).kind;
      const bool forwards = kind != VertexKind::host && (kind != VertexKind::gpu || next == it.fabric.vertex_of(it.to));
      const auto known = distance.find(next);  // not there: no way from there at all
      nearer += forwards && known != distance.end() && known->second + 1 == distance.at(vertex) ? 1 : 0;
    }
    RC_ASSERT(count == nearer);
  }
}

/// ECMP's way is one of those that spread uses.
RC_GTEST_PROP(Routing, EcmpPicksAmongTheWaysOfSpread, ()) {
  const Case it = any_case(rc::gen::just(Routing::ecmp));
  const auto ecmp = make_router(Routing::ecmp, it.fabric, *rc::gen::arbitrary<std::uint64_t>());
  const auto spread = make_router(Routing::spread, it.fabric, 1);
  const std::vector<LinkShare> all = route(*spread, it.from, it.to);
  for (const LinkShare& step : route(*ecmp, it.from, it.to, it.flow)) {
    RC_ASSERT(std::any_of(all.begin(), all.end(), [&](const LinkShare& s) { return s.link == step.link; }));
  }
}

TEST(Routing, SpreadUsesAllUplinks) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 64, .nodes_per_group = 4});
  const auto router = make_router(Routing::spread, fabric, 1);
  // Same rail, other group: GPU > NIC > leaf > 4 spines > leaf > NIC > GPU.
  const std::vector<LinkShare> path = route(*router, GpuId{0}, GpuId{32});
  EXPECT_EQ(path.size(), 2U + 4U + 4U + 2U);
  EXPECT_EQ(std::count_if(path.begin(), path.end(), [](const LinkShare& s) { return s.share == 0.25; }), 8);
}

TEST(Routing, InANodeTheNvSwitchIsTheWay) {
  // GPUs 0 and 1 share a NIC, which is as near as the NVSwitch.
  const Fabric fabric = build_rail_optimised({.node = {.gpus = 8, .nics = 4}, .cable = {}, .gpus = 8});
  for (const Routing routing : all_routings) {
    const std::vector<LinkShare> path = route(*make_router(routing, fabric, 1), GpuId{0}, GpuId{1});
    ASSERT_EQ(path.size(), 2U);
    EXPECT_EQ(fabric.name(path[0].link), "node0/gpu0 > node0/nvswitch0");
    EXPECT_EQ(fabric.name(path[1].link), "node0/nvswitch0 > node0/gpu1");
  }
}

TEST(Routing, RailRuleTakesNvLinkToTheDestinationsRail) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 64, .nodes_per_group = 4});
  const auto router = make_router(Routing::rail, fabric, 1);
  EXPECT_THAT(
      names(fabric, route(*router, GpuId{2}, GpuId{8 + 5})),
      testing::ElementsAre("node0/gpu2 > node0/nvswitch0", "node0/nvswitch0 > node0/gpu5", "node0/gpu5 > node0/nic5",
                           "node0/nic5 > leaf5", "leaf5 > node1/nic5", "node1/nic5 > node1/gpu5"));
  // On its own rail there is nothing to change.
  EXPECT_THAT(names(fabric, route(*router, GpuId{2}, GpuId{8 + 2})),
              testing::ElementsAre("node0/gpu2 > node0/nic2", "node0/nic2 > leaf2", "leaf2 > node1/nic2",
                                   "node1/nic2 > node1/gpu2"));
}

TEST(Routing, RailRuleDoesNothingOnASharedLeaf) {
  const Fabric fabric = build_fat_tree({.node = {}, .cable = {}, .gpus = 32, .tiers = 2, .radix = 64});
  const auto router = make_router(Routing::rail, fabric, 1);
  EXPECT_THAT(names(fabric, route(*router, GpuId{2}, GpuId{8 + 5})),
              testing::ElementsAre("node0/gpu2 > node0/nic2", "node0/nic2 > leaf0", "leaf0 > node1/nic5",
                                   "node1/nic5 > node1/gpu5"));
}

TEST(Routing, RailRuleKeepsTheSpinesFreeWithinAGroup) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 32, .nodes_per_group = 4});
  const auto router = make_router(Routing::rail, fabric, 1);
  for (std::uint32_t a = 0; a < 32; ++a) {
    for (std::uint32_t b = 0; b < 32; ++b) {
      for (const LinkShare& step : route(*router, GpuId{a}, GpuId{b})) {
        EXPECT_NE(fabric.vertex(fabric.link(step.link).to).kind, VertexKind::spine);
      }
    }
  }
}

/// Flows between two leaves over u uplinks: each carries n/u of n flows, give or take. The count on one is binomial;
/// 5 standard deviations are passed once in 3.5 million draws, and the hash is fixed by the seed.
TEST(Routing, EcmpSpreadsFlowsEvenly) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 512});
  const auto router = make_router(Routing::ecmp, fabric, 1);
  constexpr int flows = 32000;
  std::map<LinkId, int> on_uplink;
  for (std::uint64_t flow = 0; flow < flows; ++flow) {
    for (const LinkShare& step : route(*router, GpuId{0}, GpuId{256}, flow)) {
      if (fabric.vertex(fabric.link(step.link).to).kind == VertexKind::spine) {
        ++on_uplink[step.link];
      }
    }
  }
  constexpr double p = 1.0 / 32;
  const double deviation = std::sqrt(flows * p * (1 - p));
  EXPECT_EQ(on_uplink.size(), 32U);
  for (const auto& [link, count] : on_uplink) {
    EXPECT_NEAR(count, flows * p, 5 * deviation) << fabric.name(link);
  }
}

/// Flows of different GPU pairs meet by chance, not by rule: of n flows on u uplinks u (1 - (1 - 1/u)^n) are used.
TEST(Routing, EcmpCollides) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 512});
  double used = 0;
  constexpr int seeds = 200;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto router = make_router(Routing::ecmp, fabric, seed);
    std::map<LinkId, int> on_uplink;
    for (std::uint32_t node = 0; node < 32; ++node) {
      for (const LinkShare& step : route(*router, GpuId{8 * node}, GpuId{8 * (node + 32)})) {
        if (fabric.vertex(fabric.link(step.link).to).kind == VertexKind::spine) {
          ++on_uplink[step.link];
        }
      }
    }
    used += static_cast<double>(on_uplink.size()) / seeds;
  }
  const double expected = 32 * (1 - std::pow(1 - 1.0 / 32, 32));
  // The number of used bins has a standard deviation below sqrt(u e^-1 (1 - 2 e^-1)) = 1.8 a seed.
  EXPECT_NEAR(used, expected, 5 * 1.8 / std::sqrt(seeds));
}

TEST(Routing, SeedChangesEcmp) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 512});
  const auto one = make_router(Routing::ecmp, fabric, 1);
  const auto two = make_router(Routing::ecmp, fabric, 2);
  int different = 0;
  for (std::uint64_t flow = 0; flow < 100; ++flow) {
    different +=
        names(fabric, route(*one, GpuId{0}, GpuId{256}, flow)) != names(fabric, route(*two, GpuId{0}, GpuId{256}, flow))
            ? 1
            : 0;
  }
  EXPECT_GT(different, 80);  // 1/32 of them agree by chance
}

// --- Torus --------------------------------------------------------------------------------------------------------

/// Routers on the way, without the ends' GPUs.
std::vector<std::uint32_t> routers(const Fabric& fabric, const std::vector<LinkShare>& path) {
  std::vector<std::uint32_t> out;
  for (const LinkShare& it : path) {
    if (const Vertex& v = fabric.vertex(fabric.link(it.link).to); v.kind == VertexKind::router) {
      out.push_back(v.ordinal);
    }
  }
  return out;
}

TEST(Routing, DimensionOrderGoesXThenYTheShorterWay) {
  const Fabric fabric = build_torus({.shape = {5, 4}});
  const auto router = make_router(Routing::dimension_order, fabric, 1);
  const auto way = [&](std::uint32_t a, std::uint32_t b) {
    return routers(fabric, route(*router, GpuId{a}, GpuId{b}));
  };
  using testing::ElementsAre;
  EXPECT_THAT(way(0, 7), ElementsAre(0U, 1U, 2U, 7U));    // (0,0) to (2,1)
  EXPECT_THAT(way(0, 4), ElementsAre(0U, 4U));            // round the back
  EXPECT_THAT(way(0, 10), ElementsAre(0U, 5U, 10U));      // two up or two down of four: up
  EXPECT_THAT(way(10, 0), ElementsAre(10U, 15U, 0U));     // and again up
  EXPECT_THAT(way(1, 19), ElementsAre(1U, 0U, 4U, 19U));  // (1,0) to (4,3): both ways round
}

TEST(Routing, DimensionOrderKnowsAMesh) {
  const Fabric fabric = build_torus({.shape = {5, 4}, .wraparound = false});
  const auto router = make_router(Routing::dimension_order, fabric, 1);
  EXPECT_THAT(routers(fabric, route(*router, GpuId{0}, GpuId{4})), testing::ElementsAre(0U, 1U, 2U, 3U, 4U));
  EXPECT_THAT(routers(fabric, route(*router, GpuId{4}, GpuId{0})), testing::ElementsAre(4U, 3U, 2U, 1U, 0U));
}

TEST(Routing, NoWayIsAnErrorThatNamesBothEnds) {
  FabricBuilder b;
  b.add(VertexKind::gpu, b.node());
  b.add(VertexKind::gpu, b.node());
  const Fabric fabric = std::move(b).build();
  for (const Routing routing : all_routings) {
    try {
      static_cast<void>(route(*make_router(routing, fabric, 1), GpuId{0}, GpuId{1}));
      ADD_FAILURE() << to_text(routing);
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no path from node0/gpu0 to node1/gpu0");
    }
  }
}

}  // namespace
}  // namespace foretrain
