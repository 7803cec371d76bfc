// The policies that have a structure of their own: static up/down, several flows a pair, tori of all dimensions, and
// the two of the dragonfly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/topology/node_shapes.h"
#include "tests/topology/routes.h"
#include "tests/topology/shapes.h"
#include "topology/builders/builders.h"
#include "topology/routing/router.h"

namespace foretrain {
namespace {

bool is_between_switches(const Fabric& fabric, LinkId link) {
  const auto is_switch = [&](VertexId v) { return fabric.vertex(v).kind >= VertexKind::leaf; };
  return is_switch(fabric.link(link).from) && is_switch(fabric.link(link).to);
}

// --- Static up/down -----------------------------------------------------------------------------------------------

/// D-Mod-K on a full fat-tree is free of contention for every shift (Zahavi 2012, theorem 2): source i to i + s.
TEST(Static, ShiftsDoNotCollideOnAFullFatTree) {
  const FatTreeSpec spec{.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = 128, .tiers = 3, .radix = 8};
  ASSERT_EQ(fat_tree_capacity(spec), spec.gpus);
  const Fabric fabric = build_fat_tree(spec);
  const auto router = make_router(Routing::static_up_down, fabric, 1);
  for (std::uint32_t shift = 1; shift < spec.gpus; ++shift) {
    std::set<LinkId> used;
    for (std::uint32_t from = 0; from < spec.gpus; ++from) {
      for (const LinkShare& step : route(*router, GpuId{from}, GpuId{(from + shift) % spec.gpus})) {
        ASSERT_TRUE(used.insert(step.link).second) << "shift " << shift << ", " << fabric.name(step.link);
      }
    }
  }
}

/// As forwarding tables do: from where ways to one destination meet they go on together, whatever the flow.
RC_GTEST_PROP(Static, WaysToOneDestinationStayTogether, ()) {
  const Fabric fabric =
      build_shape(*rc::gen::element(Shape::rail, Shape::rail_oversubscribed, Shape::meta, Shape::fat_tree_two_tiers,
                                    Shape::fat_tree_three_tiers, Shape::torus_3d));
  const auto count = static_cast<std::uint32_t>(fabric.gpu_count());
  const auto router = make_router(Routing::static_up_down, fabric, *rc::gen::arbitrary<std::uint64_t>());
  const GpuId to{*rc::gen::inRange(0U, count)};
  std::map<VertexId, LinkId> next;
  for (std::uint32_t from = 0; from < count; ++from) {
    if (fabric.node_of(GpuId{from}) == fabric.node_of(to)) {
      continue;
    }
    for (const LinkShare& step : route(*router, GpuId{from}, to, *rc::gen::arbitrary<std::uint64_t>())) {
      RC_ASSERT(step.share == 1);
      RC_ASSERT(next.try_emplace(fabric.link(step.link).from, step.link).first->second == step.link);
    }
  }
}

/// All-to-all: every uplink of a full leaf carries the same number of ways, give or take the remainder of a division.
TEST(Static, AllToAllIsEvenOverTheUplinks) {
  const Fabric fabric =
      build_fat_tree({.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = 128, .tiers = 3, .radix = 8});
  const auto router = make_router(Routing::static_up_down, fabric, 1);
  std::map<LinkId, int> load;
  for (std::uint32_t a = 0; a < 128; ++a) {
    for (std::uint32_t b = 0; b < 128; ++b) {
      for (const LinkShare& step : route(*router, GpuId{a}, GpuId{b})) {
        const Link& link = fabric.link(step.link);
        if (fabric.vertex(link.from).kind == VertexKind::leaf && fabric.vertex(link.to).kind == VertexKind::spine) {
          ++load[step.link];
        }
      }
    }
  }
  EXPECT_EQ(load.size(), 32U * 4U);
  for (const auto& [link, ways] : load) {
    EXPECT_EQ(ways, 4 * 124 / 4) << fabric.name(link);  // 4 sources, 124 destinations elsewhere, 4 uplinks
  }
}

// --- Several flows a pair -----------------------------------------------------------------------------------------

TEST(ManyFlows, OneIsThePlainRoute) {
  const Fabric fabric = build_shape(Shape::fat_tree_three_tiers);
  const auto plain = make_router(Routing::ecmp, fabric, 5);
  const auto one = make_router(Routing::ecmp, fabric, RouterOptions{.seed = 5, .flows_per_pair = 1});
  for (std::uint32_t to = 2; to < 40; ++to) {
    EXPECT_EQ(names(fabric, route(*plain, GpuId{0}, GpuId{to}, 3)), names(fabric, route(*one, GpuId{0}, GpuId{to}, 3)));
  }
}

TEST(ManyFlows, TheirNumberIsChecked) {
  const Fabric fabric = build_shape(Shape::one_node);
  EXPECT_THROW(static_cast<void>(make_router(Routing::ecmp, fabric, RouterOptions{.flows_per_pair = 0})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make_router(Routing::ecmp, fabric, RouterOptions{.flows_per_pair = 257})),
               std::invalid_argument);
  EXPECT_NO_THROW(static_cast<void>(make_router(Routing::ecmp, fabric, RouterOptions{.flows_per_pair = 256})));
}

RC_GTEST_PROP(ManyFlows, WhatComesInGoesOutInWholeFlows, ()) {
  const Shape shape = *rc::gen::elementOf(std::vector<Shape>(std::begin(all_shapes), std::end(all_shapes)));
  const bool dragonfly = *rc::gen::arbitrary<bool>();
  const Fabric fabric = dragonfly ? build_small_dragonfly(4, 2) : build_shape(shape);
  const auto flows = *rc::gen::inRange(2U, 64U);
  const auto router = make_router(*rc::gen::element(Routing::ecmp, Routing::valiant), fabric,
                                  RouterOptions{.seed = 1, .flows_per_pair = flows});
  const auto count = static_cast<std::uint32_t>(fabric.gpu_count());
  const GpuId from{*rc::gen::inRange(0U, count)};
  const GpuId to{*rc::gen::inRange(0U, count)};
  RC_PRE(from != to);
  const std::vector<LinkShare> path = route(*router, from, to, *rc::gen::arbitrary<std::uint64_t>());
  std::set<LinkId> seen;
  for (const LinkShare& step : path) {
    RC_ASSERT(seen.insert(step.link).second);
  }
  for (const auto& [vertex, net] : balance(fabric, path)) {
    const double expected = vertex == fabric.vertex_of(from) ? 1 : vertex == fabric.vertex_of(to) ? -1 : 0;
    RC_ASSERT(std::abs(net - expected) < 1e-9);
  }
}

/// The parts of n flows on u uplinks vary by sqrt(n/u (1 - 1/u)) / n about 1/u: the mean square distance to the spread,
/// over all links and pairs, falls as 1/n.
TEST(ManyFlows, ApproachTheSpreadAsTheyGrow) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 512});
  const auto distance_to_even = [&](std::uint32_t flows) {
    const auto router = make_router(Routing::ecmp, fabric, RouterOptions{.seed = 1, .flows_per_pair = flows});
    double sum = 0;
    constexpr int pairs = 200;
    for (std::uint32_t i = 0; i < pairs; ++i) {
      double square = 0;
      int used = 0;
      for (const LinkShare& step : route(*router, GpuId{i}, GpuId{i + 256})) {
        if (fabric.vertex(fabric.link(step.link).to).kind == VertexKind::spine) {
          square += (step.share - 1.0 / 32) * (step.share - 1.0 / 32);
          ++used;
        }
      }
      sum += square + (32 - used) / (32.0 * 32);  // those without a flow are 1/32 off
    }
    return sum / pairs;
  };
  for (const std::uint32_t flows : {1U, 4U, 16U, 64U, 256U}) {
    // 32 uplinks times the variance of a binomial share. The mean over 200 pairs has a standard deviation of
    // sqrt(2 / 31 / 200) = 2 % of it (chi-square with 31 degrees of freedom).
    const double expected = 32 * (1.0 / 32) * (1 - 1.0 / 32) / flows;
    EXPECT_NEAR(distance_to_even(flows), expected, 5 * 0.02 * expected) << flows;
  }
}

// --- Torus --------------------------------------------------------------------------------------------------------

std::uint32_t ring_distance(std::uint32_t a, std::uint32_t b, std::uint32_t extent, bool wraps) {
  const std::uint32_t straight = a > b ? a - b : b - a;
  return wraps ? std::min(straight, extent - straight) : straight;
}

/// 1 to 4 dimensions, with and without wraparound: the length is the sum of the distances by dimension, and the
/// dimensions come in their order. Held for ECMP and spread too (order aside), whose distances come from coordinates.
RC_GTEST_PROP(Torus, WaysAreSumsOverTheDimensions, ()) {
  TorusShape shape(*rc::gen::inRange<std::size_t>(1, 5));
  for (std::uint32_t& extent : shape) {
    extent = *rc::gen::inRange(1U, 6U);
  }
  shape.front() = *rc::gen::inRange(2U, 6U);
  const bool wraps = *rc::gen::arbitrary<bool>();
  const Fabric fabric = build_torus({.shape = shape, .wraparound = wraps});
  const auto count = static_cast<std::uint32_t>(fabric.gpu_count());
  const GpuId from{*rc::gen::inRange(0U, count)};
  const GpuId to{(from.value + *rc::gen::inRange(1U, count)) % count};
  std::uint32_t expected = 2;  // GPU > router and router > GPU
  std::uint32_t stride = 1;
  for (const std::uint32_t extent : shape) {
    expected += ring_distance(from.value / stride % extent, to.value / stride % extent, extent, wraps);
    stride *= extent;
  }
  for (const Routing routing :
       {Routing::dimension_order, Routing::ecmp, Routing::spread, Routing::static_up_down, Routing::valiant}) {
    RC_ASSERT(std::abs(total(route(*make_router(routing, fabric, 1), from, to)) - expected) < 1e-9);
  }
  std::size_t dimension = 0;
  for (const LinkShare& step : route(*make_router(Routing::dimension_order, fabric, 1), from, to)) {
    if (!is_between_switches(fabric, step.link)) {
      continue;
    }
    const std::uint32_t a = fabric.vertex(fabric.link(step.link).from).ordinal;
    const std::uint32_t b = fabric.vertex(fabric.link(step.link).to).ordinal;
    std::size_t crossed = 0;
    stride = 1;
    for (std::size_t d = 0; d < shape.size(); stride *= shape[d], ++d) {
      crossed = a / stride % shape[d] != b / stride % shape[d] ? d : crossed;
    }
    RC_ASSERT(crossed >= dimension);
    dimension = crossed;
  }
}

/// A ring of six routers, cut between 0 and 1.
Fabric build_cut_ring() {
  FabricBuilder b;
  const TierId tier = b.tier("torus");
  std::vector<VertexId> routers;
  for (int i = 0; i < 6; ++i) {
    routers.push_back(b.add(VertexKind::router));
    b.connect(b.add(VertexKind::gpu, b.node()), routers.back(), gigabytes_per_second(50), Duration{}, tier);
  }
  for (std::size_t i = 1; i < 6; ++i) {
    b.connect(routers[i], routers[(i + 1) % 6], gigabytes_per_second(50), nanoseconds(500), tier);
  }
  b.set_torus({6});
  return std::move(b).build();
}

TEST(Torus, AMissingCableIsGoneAround) {
  const Fabric fabric = build_cut_ring();
  for (const Routing routing : all_routings) {
    const auto router = make_router(routing, fabric, 1);
    EXPECT_EQ(total(route(*router, GpuId{0}, GpuId{1})), 5 + 2) << to_text(routing);
    EXPECT_EQ(total(route(*router, GpuId{0}, GpuId{5})), 1 + 2) << to_text(routing);
  }
}

// --- Dragonfly ----------------------------------------------------------------------------------------------------

/// Links between groups, by share.
double global_hops(const Fabric& fabric, const std::vector<LinkShare>& path) {
  double hops = 0;
  for (const LinkShare& step : path) {
    const Link& link = fabric.link(step.link);
    if (is_between_switches(fabric, step.link) && fabric.vertex(link.from).group != fabric.vertex(link.to).group) {
      hops += step.share;
    }
  }
  return hops;
}

std::uint32_t group_of(const Fabric& fabric, GpuId gpu) {
  const LinkId first = fabric.out_links(fabric.vertex_of(gpu)).first;
  return *fabric.vertex(fabric.link(first).to).group;
}

struct DragonflyCase {
  Fabric fabric;
  GpuId from;
  GpuId to;
};

DragonflyCase any_dragonfly_case() {
  Fabric fabric = build_small_dragonfly(*rc::gen::inRange(2U, 6U), *rc::gen::inRange(1U, 3U));
  const auto count = static_cast<std::uint32_t>(fabric.gpu_count());
  const GpuId from{*rc::gen::inRange(0U, count)};
  const GpuId to{*rc::gen::inRange(0U, count)};
  return {std::move(fabric), from, to};
}

RC_GTEST_PROP(Dragonfly, MinimalIsLocalGlobalLocal, ()) {
  const DragonflyCase it = any_dragonfly_case();
  RC_PRE(it.from != it.to);
  const std::vector<LinkShare> path = route(*make_router(Routing::minimal, it.fabric, 1), it.from, it.to);
  const bool same_group = group_of(it.fabric, it.from) == group_of(it.fabric, it.to);
  RC_ASSERT(std::abs(global_hops(it.fabric, path) - (same_group ? 0 : 1)) < 1e-12);
  // GPU > router, at most local, global, local, router > GPU; all routers of a group are neighbours.
  RC_ASSERT(total(path) <= (same_group ? 1 : 3) + 2 + 1e-12);
  for (const auto& [vertex, net] : balance(it.fabric, path)) {
    const double expected = vertex == it.fabric.vertex_of(it.from) ? 1 : vertex == it.fabric.vertex_of(it.to) ? -1 : 0;
    RC_ASSERT(std::abs(net - expected) < 1e-12);
  }
}

RC_GTEST_PROP(Dragonfly, ValiantCrossesAtMostTwoGlobalLinks, ()) {
  const DragonflyCase it = any_dragonfly_case();
  RC_PRE(it.from != it.to);
  const auto router = make_router(Routing::valiant, it.fabric, *rc::gen::arbitrary<std::uint64_t>());
  const auto flow = *rc::gen::arbitrary<std::uint64_t>();
  const std::vector<LinkShare> path = route(*router, it.from, it.to, flow);
  const bool same_group = group_of(it.fabric, it.from) == group_of(it.fabric, it.to);
  RC_ASSERT(global_hops(it.fabric, path) == (same_group ? 0 : 2));
  // l g l g l between the two ends.
  RC_ASSERT(total(path) <= 5 + 2);
  VertexId here = it.fabric.vertex_of(it.from);
  std::set<VertexId> seen{here};
  for (const LinkShare& step : path) {
    RC_ASSERT(step.share == 1);
    RC_ASSERT(it.fabric.link(step.link).from == here);  // one way, link after link, that meets no place twice
    here = it.fabric.link(step.link).to;
    RC_ASSERT(seen.insert(here).second);
  }
  RC_ASSERT(here == it.fabric.vertex_of(it.to));
  RC_ASSERT(names(it.fabric, path) == names(it.fabric, route(*router, it.from, it.to, flow)));
}

/// The group in between is drawn evenly: of g groups g - 2 can be it.
TEST(Dragonfly, ValiantDrawsAllOtherGroupsEvenly) {
  const Fabric fabric = build_small_dragonfly(4, 2);  // 9 groups of 4
  const auto router = make_router(Routing::valiant, fabric, 1);
  std::map<std::uint32_t, int> through;
  constexpr int flows = 9000;
  for (std::uint64_t flow = 0; flow < flows; ++flow) {
    std::set<std::uint32_t> groups;
    for (const LinkShare& step : route(*router, GpuId{0}, GpuId{20}, flow)) {
      if (const auto group = fabric.vertex(fabric.link(step.link).to).group) {
        groups.insert(*group);
      }
    }
    groups.erase(group_of(fabric, GpuId{0}));
    groups.erase(group_of(fabric, GpuId{20}));
    ASSERT_EQ(groups.size(), 1U);
    ++through[*groups.begin()];
  }
  EXPECT_EQ(through.size(), 7U);
  constexpr double p = 1.0 / 7;
  for (const auto& [group, count] : through) {
    EXPECT_NEAR(count, flows * p, 5 * std::sqrt(flows * p * (1 - p))) << group;
  }
}

/// All of a group send to one other: minimally all cross the one link between the two, by Valiant they spread.
TEST(Dragonfly, ValiantRelievesTheOneLinkBetweenTwoGroups) {
  const Fabric fabric = build_small_dragonfly(8, 1);  // 9 groups of 8
  const auto busiest_global = [&](Routing routing) {
    const auto router = make_router(routing, fabric, RouterOptions{.seed = 1, .flows_per_pair = 256});
    std::map<LinkId, double> load;
    double most = 0;
    for (std::uint32_t i = 0; i < 8; ++i) {
      for (const LinkShare& step : route(*router, GpuId{i}, GpuId{i + 8})) {
        if (fabric.tiers()[fabric.link(step.link).tier.index()].name == "global") {
          most = std::max(most, load[step.link] += step.share);
        }
      }
    }
    return most;
  };
  EXPECT_NEAR(busiest_global(Routing::minimal), 8, 1e-12);
  // 8 pairs of 256 flows over 7 groups: 8/7 each, with the deviation of a binomial; the busiest of 14 links is above.
  constexpr double p = 1.0 / 7;
  const double deviation = std::sqrt(8 * 256 * p * (1 - p)) / 256;
  EXPECT_NEAR(busiest_global(Routing::valiant), 8.0 / 7, 5 * deviation);
  EXPECT_GT(busiest_global(Routing::valiant), 8.0 / 7);
}

/// Three groups in a row, one router each: the outer two have no link of their own, so the way has two global links.
TEST(Dragonfly, WithoutALinkBetweenTheGroupsTheShortestWay) {
  FabricBuilder b;
  const TierId tier = b.tier("any");
  std::vector<VertexId> routers;
  for (std::uint32_t g = 0; g < 3; ++g) {
    routers.push_back(b.add(VertexKind::router));
    b.set_group(routers.back(), g);
    b.connect(b.add(VertexKind::gpu, b.node()), routers.back(), gigabytes_per_second(25), Duration{}, tier);
  }
  b.connect(routers[0], routers[1], gigabytes_per_second(25), Duration{}, tier);
  b.connect(routers[1], routers[2], gigabytes_per_second(25), Duration{}, tier);
  const Fabric fabric = std::move(b).build();
  for (const Routing routing : {Routing::minimal, Routing::valiant}) {
    const auto router = make_router(routing, fabric, 1);
    EXPECT_EQ(total(route(*router, GpuId{0}, GpuId{2})), 4) << to_text(routing);
    EXPECT_EQ(total(route(*router, GpuId{0}, GpuId{1})), 3) << to_text(routing);  // no third group joined to both
  }
}

/// On fabrics without groups both are `spread`.
RC_GTEST_PROP(Dragonfly, ElsewhereBothPoliciesSpread, ()) {
  const Fabric fabric =
      build_shape(*rc::gen::elementOf(std::vector<Shape>(std::begin(all_shapes), std::end(all_shapes))));
  const auto count = static_cast<std::uint32_t>(fabric.gpu_count());
  const GpuId from{*rc::gen::inRange(0U, count)};
  const GpuId to{*rc::gen::inRange(0U, count)};
  const std::vector<std::string> spread = names(fabric, route(*make_router(Routing::spread, fabric, 1), from, to));
  RC_ASSERT(names(fabric, route(*make_router(Routing::minimal, fabric, 1), from, to)) == spread);
  RC_ASSERT(names(fabric, route(*make_router(Routing::valiant, fabric, 1), from, to)) == spread);
}

/// Two islands of a dragonfly, and a GPU without any cable.
TEST(Dragonfly, APartitionIsAnErrorThatNamesBothEnds) {
  FabricBuilder b;
  const TierId tier = b.tier("any");
  for (std::uint32_t g = 0; g < 4; ++g) {
    const VertexId router = b.add(VertexKind::router);
    b.set_group(router, g);
    b.connect(b.add(VertexKind::gpu, b.node()), router, gigabytes_per_second(25), Duration{}, tier);
    if (g % 2 == 1) {
      b.connect(router, VertexId{router.value - 2}, gigabytes_per_second(25), Duration{}, tier);
    }
  }
  b.add(VertexKind::gpu, b.node());
  const Fabric fabric = std::move(b).build();
  for (const Routing routing : all_routings) {
    for (const auto& [from, to] : {std::pair{0U, 3U}, std::pair{2U, 4U}, std::pair{4U, 1U}}) {
      try {
        static_cast<void>(
            route(*make_router(routing, fabric, RouterOptions{.flows_per_pair = 4}), GpuId{from}, GpuId{to}));
        ADD_FAILURE() << to_text(routing);
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(),
                  "no path from node" + std::to_string(from) + "/gpu0 to node" + std::to_string(to) + "/gpu0");
      }
    }
  }
}

}  // namespace
}  // namespace foretrain
