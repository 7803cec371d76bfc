// The collision report: flows counted, what they cost against an even spread, and against the statistics of hashing.
#include "topology/collisions.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/topology/shapes.h"
#include "topology/builders/builders.h"

namespace foretrain {
namespace {

/// Two leaves with four servers each, two spines: every pair from leaf to leaf chooses one of two uplinks.
Fabric build_two_leaves() {
  return build_rail_optimised(
      {.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = 8, .nodes_per_group = 4, .oversubscription = 2});
}

TEST(Collisions, StaticShiftLosesNothing) {
  const Fabric fabric = build_fat_tree({.node = {}, .cable = {}, .gpus = 512, .tiers = 3, .radix = 16});
  const CollisionReport report = find_collisions(fabric, ring_pairs(fabric), Routing::static_up_down, {});
  EXPECT_EQ(report.pairs, 512U);
  EXPECT_NEAR(report.lost_bandwidth, 0, 1e-9);
}

TEST(Collisions, SpreadLosesNothingByDefinition) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 1024});
  const CollisionReport report = find_collisions(fabric, ring_pairs(fabric), Routing::spread, {});
  EXPECT_EQ(report.lost_bandwidth, 0);
  for (const TierCollisions& tier : report.tiers) {
    EXPECT_EQ(tier.idle, 0U);
  }
}

/// Two pairs by one spine use one of two uplinks, each half as wide as two NICs: worked out by hand. ECMP puts both on
/// one uplink or on different ones; the report says which, and costs half of the bandwidth exactly in the first case.
TEST(Collisions, CostsWhatTheBusiestLinkNeeds) {
  const Fabric fabric = build_two_leaves();
  const std::vector<GpuPair> pairs{
      {GpuId{0}, GpuId{4}}, {GpuId{1}, GpuId{5}}, {GpuId{2}, GpuId{6}}, {GpuId{3}, GpuId{7}}};
  std::set<int> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const CollisionReport report = find_collisions(fabric, pairs, Routing::ecmp, {.seed = seed});
    ASSERT_EQ(report.tiers.size(), 2U);
    const TierCollisions& up = report.tiers[0];
    EXPECT_EQ(up.direction, Direction::up);
    EXPECT_EQ(up.tier, "leaf-spine");
    EXPECT_EQ(up.links, 2U);
    EXPECT_DOUBLE_EQ(up.flows_mean, 2);
    EXPECT_DOUBLE_EQ(up.flows_min + up.flows_max, 4);
    // Even: 2 pairs an uplink. The down links mirror the uplinks on so small a fabric.
    EXPECT_NEAR(report.lost_bandwidth, 1 - 2 / up.flows_max, 1e-9);
    seen.insert(static_cast<int>(up.flows_max));
  }
  EXPECT_EQ(seen, (std::set{2, 3, 4}));
}

/// n pairs on u uplinks of a leaf: a link is idle with probability (1 - 1/u)^n.
TEST(Collisions, IdleLinksAreAsManyAsChanceSays) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 2048});
  std::vector<GpuPair> pairs;  // every GPU to the group after its own, on its rail
  for (std::uint32_t g = 0; g < 2048; ++g) {
    pairs.push_back({GpuId{g}, GpuId{(g + 256) % 2048}});
  }
  const CollisionReport report = find_collisions(fabric, pairs, Routing::ecmp, {.seed = 1});
  const TierCollisions& up = report.tiers.at(0);
  EXPECT_EQ(up.links, 8U * 8U * 32U);  // groups, rails, spines
  const double expected = 2048 * std::pow(1 - 1.0 / 32, 32);
  // Idle bins of one leaf have a standard deviation below 1.8 (see routing_test.cpp); 64 leaves draw independently.
  EXPECT_NEAR(static_cast<double>(up.idle), expected, 5 * 1.8 * 8);
  EXPECT_GT(report.lost_bandwidth, 0.5);  // of 2048 uplinks some carry more than two
}

TEST(Collisions, MoreFlowsLoseLess) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 2048});
  std::vector<GpuPair> pairs;
  for (std::uint32_t g = 0; g < 2048; ++g) {
    pairs.push_back({GpuId{g}, GpuId{(g + 256) % 2048}});
  }
  double before = 1;
  for (const std::uint32_t flows : {1U, 16U, 256U}) {
    const CollisionReport report = find_collisions(fabric, pairs, Routing::ecmp, {.seed = 1, .flows_per_pair = flows});
    EXPECT_LT(report.lost_bandwidth, before);
    EXPECT_GT(report.lost_bandwidth, 0);
    before = report.lost_bandwidth;
    // Mean flows: 32 pairs on 32 uplinks of a leaf.
    EXPECT_NEAR(report.tiers.at(0).flows_mean, flows, 1e-9);
  }
}

TEST(Collisions, RingPairsSkipShorterNodes) {
  FabricBuilder b;
  for (const int gpus : {2, 1, 2}) {
    const NodeId node = b.node();
    for (int g = 0; g < gpus; ++g) {
      b.add(VertexKind::gpu, node);
    }
  }
  const std::vector<GpuPair> pairs = ring_pairs(std::move(b).build());
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected{{0, 2}, {1, 4}, {2, 3}, {3, 0}, {4, 1}};
  ASSERT_EQ(pairs.size(), expected.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(pairs[i].from, GpuId{expected[i].first});
    EXPECT_EQ(pairs[i].to, GpuId{expected[i].second});
  }
  EXPECT_TRUE(ring_pairs(build_shape(Shape::one_node)).empty());
}

RC_GTEST_PROP(Collisions, CountsAddUp, ()) {
  const Fabric fabric =
      build_shape(*rc::gen::elementOf(std::vector<Shape>(std::begin(all_shapes), std::end(all_shapes))));
  RC_PRE(fabric.node_count() < 6 || fabric.gpu_count() > 8);  // the two planes are not joined
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::vector<GpuPair> pairs = permutation_pairs(fabric, seed);
  std::set<GpuId> to;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    RC_ASSERT(pairs[i].from == id_at<GpuId>(i));
    RC_ASSERT(pairs[i].from != pairs[i].to);
    RC_ASSERT(to.insert(pairs[i].to).second);
  }
  const Routing routing = *rc::gen::element(Routing::ecmp, Routing::static_up_down, Routing::rail);
  CollisionReport report;
  try {
    report = find_collisions(fabric, pairs, routing, {.seed = seed, .flows_per_pair = *rc::gen::inRange(1U, 20U)});
  } catch (const std::runtime_error&) {
    RC_DISCARD("two planes: not every pair is joined");
  }
  for (const TierCollisions& tier : report.tiers) {
    RC_ASSERT(tier.flows_min <= tier.flows_mean + 1e-9 && tier.flows_mean <= tier.flows_max + 1e-9);
    std::size_t links = 0;
    for (const auto& [flows, count] : tier.histogram) {
      links += count;
    }
    RC_ASSERT(links == tier.links && tier.idle <= tier.links);
  }
  RC_ASSERT(report.lost_bandwidth < 1);
  RC_ASSERT(report.busiest.has_value());
}

}  // namespace
}  // namespace foretrain
