// The networks beyond Clos and torus: counts, ports, bisection and diameter by formula; any of them in any numbers is
// joined and has the ports asked for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <stdexcept>

#include "tests/topology/shapes.h"
#include "topology/analysis.h"

namespace foretrain {
namespace {

template <class Build>
std::string refusal(Build build) {
  try {
    static_cast<void>(build());
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

/// A server so fast that only the network counts.
NodeSpec thin(std::uint32_t gpus = 1, std::uint32_t nics = 1) {
  return {.gpus = gpus, .nics = nics, .pcie = gigabytes_per_second(5000), .nic = gigabytes_per_second(5000)};
}

std::size_t ports_in(const Fabric& fabric, VertexId v, std::string_view tier) {
  std::size_t found = 0;
  const Fabric::LinkRange out = fabric.out_links(v);
  for (LinkId l = out.first; l < out.last; ++l.value) {
    found += fabric.tiers()[fabric.link(l).tier.index()].name == tier ? 1 : 0;
  }
  return found;
}

std::size_t links_in(const Fabric& fabric, std::string_view tier) {
  for (const Tier& it : fabric.tiers()) {
    if (it.name == tier) return it.links;
  }
  return 0;
}

/// Cables of the tier between every two groups.
std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> between_groups(const Fabric& fabric,
                                                                              std::string_view tier) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> cables;
  for (const Link& link : fabric.links()) {
    const std::uint32_t a = fabric.vertex(link.from).group.value_or(0), b = fabric.vertex(link.to).group.value_or(0);
    if (fabric.tiers()[link.tier.index()].name == tier && a < b) ++cables[{a, b}];
  }
  return cables;
}

// --- Rail-only ----------------------------------------------------------------------------------------------------

TEST(RailOnly, ASwitchARailAndNothingAbove) {
  const Fabric fabric = build_rail_only({.node = {}, .gpus = 8 * 12, .radix = 16});
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::leaf], 8U);
  EXPECT_EQ(counts[VertexKind::spine] + counts[VertexKind::core], 0U);
  for (const VertexId rail : vertices_of(fabric, VertexKind::leaf)) {
    EXPECT_EQ(ports(fabric, rail), 12U);
    for (const LinkId l : fabric.in_links(rail)) {
      EXPECT_EQ(fabric.vertex(fabric.link(l).from).in_node, fabric.vertex(rail).ordinal);
    }
  }
  EXPECT_EQ(refusal([] { return build_rail_only({.node = {}, .gpus = 8 * 17, .radix = 16}); }),
            "136 GPUs do not fit rails of 16 ports; the most is 128");
}

/// Non-blocking: half of the servers send all that their NICs can.
TEST(RailOnly, FullBisection) {
  const Fabric fabric = build_rail_only({.node = {}, .gpus = 8 * 10, .radix = 16});
  EXPECT_EQ(analyse(fabric).bisection, gigabits_per_second(400) * 8 * 5);
}

// --- Leaf-spine ---------------------------------------------------------------------------------------------------

LeafSpineSpec leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t cables) {
  return {.node = thin(2, 2),
          .gpus = 4 * leaves,
          .leaves = leaves,
          .leaf_ports = 5,  // two servers of two NICs, and a port over
          .spines = spines,
          .cables_per_spine = cables,
          .uplink = gigabytes_per_second(10)};
}

TEST(LeafSpine, CountsPortsBisectionDiameter) {
  for (const std::uint32_t cables : {1U, 2U}) {
    const Fabric fabric = build_leaf_spine(leaf_spine(6, 3, cables));
    auto counts = count_kinds(fabric);
    EXPECT_EQ(counts[VertexKind::leaf], 6U);
    EXPECT_EQ(counts[VertexKind::spine], 3U);
    for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) EXPECT_EQ(ports(fabric, leaf), 4 + 3 * cables);
    for (const VertexId spine : vertices_of(fabric, VertexKind::spine)) EXPECT_EQ(ports(fabric, spine), 6 * cables);
    const TopologyReport report = analyse(fabric);
    EXPECT_EQ(report.bisection, gigabytes_per_second(10) * 3 * cables * 3);  // half of the leaves, all their uplinks
    EXPECT_EQ(report.diameter_hops, 6U);                                     // GPU, NIC, leaf, spine, leaf, NIC, GPU
  }
}

TEST(LeafSpine, WhatDoesNotFitIsRefused) {
  LeafSpineSpec spec = leaf_spine(6, 3, 1);
  EXPECT_EQ(leaf_spine_capacity(spec), 24U);
  spec.gpus = 26;
  EXPECT_EQ(refusal([&] { return build_leaf_spine(spec); }), "26 GPUs do not fit 6 leaves of 5 ports; the most is 24");
  spec.leaf_ports = 1;
  EXPECT_EQ(refusal([&] { return build_leaf_spine(spec); }), "a node's 2 NICs do not fit a leaf of 1 ports");
  spec = leaf_spine(60000, 4000, 4000);
  EXPECT_NE(refusal([&] { return build_leaf_spine(spec); }), "");
}

// --- Dragonfly ----------------------------------------------------------------------------------------------------

/// Kim 2008, section 3.1: a = 2p = 2h; g = a h + 1 groups, N = a p g terminals, radix k = p + a - 1 + h = 4h - 1.
class Balanced : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Dragonfly, Balanced, testing::Values(1U, 2U, 3U));

TEST_P(Balanced, IsThePapers) {
  const std::uint32_t h = GetParam(), a = 2 * h, p = h, g = a * h + 1;
  DragonflySpec spec{.node = thin(), .gpus = a * p * g, .routers = a, .hosts = p, .global_links = h};
  EXPECT_EQ(dragonfly_capacity(spec), a * p * g);
  const Fabric fabric = build_dragonfly(spec);
  const std::vector<VertexId> routers = vertices_of(fabric, VertexKind::router);
  EXPECT_EQ(routers.size(), a * g);
  for (const VertexId router : routers) EXPECT_EQ(ports(fabric, router), 4 * h - 1);
  const auto cables = between_groups(fabric, "global");
  EXPECT_EQ(cables.size(), g * (g - 1) / 2);                      // every two groups ...
  for (const auto& [pair, count] : cables) EXPECT_EQ(count, 1U);  // ... by one cable
  // Local, global, local: three hops between routers, and NIC and GPU at both ends.
  EXPECT_EQ(analyse(fabric).diameter_hops, 3U + 4U);
  ++spec.gpus;
  EXPECT_NE(refusal([&] { return build_dragonfly(spec); }), "");
}

/// With fast groups only the cables between the halves count: (g/2)^2 pairs of groups.
TEST(Dragonfly, BisectionIsOfTheGlobalCables) {
  for (const std::uint32_t groups : {2U, 4U, 6U}) {
    const DragonflySpec spec{.node = thin(),
                             .gpus = groups * 8,
                             .routers = 4,
                             .hosts = 2,
                             .global_links = 3,
                             .groups = groups,
                             .local = gigabytes_per_second(5000),
                             .global = gigabytes_per_second(10)};
    const std::int64_t pairs = std::int64_t{groups} / 2 * (groups / 2);
    const std::int64_t cables = 4 * 3 / (groups - 1);
    EXPECT_EQ(analyse(build_dragonfly(spec)).bisection, gigabytes_per_second(10) * pairs * cables) << groups;
  }
}

TEST(Dragonfly, GroupsWithoutServersAreThere) {
  const Fabric fabric =
      build_dragonfly({.node = thin(), .gpus = 3, .routers = 4, .hosts = 2, .global_links = 2, .groups = 5});
  EXPECT_EQ(count_kinds(fabric)[VertexKind::router], 20U);
  EXPECT_TRUE(joined(fabric));
}

TEST(Dragonfly, NumbersThatMakeNoneAreRefused) {
  const auto with = [](std::uint32_t routers, std::uint32_t hosts, std::uint32_t links, std::uint32_t groups) {
    return refusal([&] {
      return build_dragonfly(
          {.node = {}, .gpus = 8, .routers = routers, .hosts = hosts, .global_links = links, .groups = groups});
    });
  };
  EXPECT_EQ(with(4, 2, 2, 9), "");
  EXPECT_EQ(with(4, 2, 2, 10),
            "10 groups of 4 switches with 2 global links each; allowed: 9 groups and 16777216 links in all");
  EXPECT_EQ(with(4, 3, 2, 9), "a group has 12 ports for nodes of 8 NICs; allowed: a multiple, up to 4194304");
  EXPECT_EQ(with(0, 2, 2, 9), "a group has 0 ports for nodes of 8 NICs; allowed: a multiple, up to 4194304");
  EXPECT_EQ(with(4, 2, 0, 9), "groups of 4 switches with 0 global links each; allowed: 1 to 4096");
  EXPECT_NE(with(4096, 8, 4096, 0), "");
  EXPECT_NE(with(4096, 8, 1, 0), "");  // 8 million cables inside each group
}

// --- Dragonfly+ ---------------------------------------------------------------------------------------------------

/// Shpiner 2017: a group is a complete bipartite graph of leaves and spines; spines join the groups.
TEST(DragonflyPlus, CountsPortsDiameter) {
  const std::uint32_t leaves = 4, spines = 3, hosts = 2, h = 2, groups = spines * h + 1;
  const DragonflyPlusSpec spec{.node = thin(),
                               .gpus = leaves * hosts * groups,
                               .leaves = leaves,
                               .spines = spines,
                               .hosts = hosts,
                               .global_links = h};
  EXPECT_EQ(dragonfly_plus_capacity(spec), spec.gpus);
  const Fabric fabric = build_dragonfly_plus(spec);
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) EXPECT_EQ(ports(fabric, leaf), hosts + spines);
  for (const VertexId spine : vertices_of(fabric, VertexKind::spine)) EXPECT_EQ(ports(fabric, spine), leaves + h);
  EXPECT_EQ(between_groups(fabric, "global").size(), groups * (groups - 1) / 2);
  EXPECT_EQ(between_groups(fabric, "leaf-spine").size(), 0U);  // stays inside
  EXPECT_EQ(analyse(fabric).diameter_hops, 3U + 4U);           // leaf, spine, spine, leaf
}

TEST(DragonflyPlus, BisectionIsOfTheGlobalCables) {
  const DragonflyPlusSpec spec{.node = thin(),
                               .gpus = 4 * 4,
                               .leaves = 2,
                               .spines = 2,
                               .hosts = 2,
                               .global_links = 3,
                               .groups = 4,
                               .local = gigabytes_per_second(5000),
                               .global = gigabytes_per_second(10)};
  EXPECT_EQ(analyse(build_dragonfly_plus(spec)).bisection, gigabytes_per_second(10) * (2 * 2) * (2 * 3 / 3));
}

// --- Torus --------------------------------------------------------------------------------------------------------

/// The halves of the last dimension meet in one layer of cables, in two with wraparound.
TEST(TorusBisection, DoublesWithWraparound) {
  for (const TorusShape& shape : {TorusShape{8}, TorusShape{3, 4}, TorusShape{2, 3, 4}, TorusShape{2, 2, 2, 4}}) {
    const auto all = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const Bandwidth layer = gigabytes_per_second(50) * (all / shape.back());
    EXPECT_EQ(analyse(build_torus({.shape = shape})).bisection, layer * 2);
    EXPECT_EQ(analyse(build_torus({.shape = shape, .wraparound = false})).bisection, layer);
  }
}

TEST(TorusDiameter, IsHalfOfEveryExtentOrAll) {
  for (const TorusShape& shape : {TorusShape{8}, TorusShape{3, 4}, TorusShape{4, 5, 3}, TorusShape{2, 2, 3, 3}}) {
    std::size_t halves = 0, lengths = 0;
    for (const std::uint32_t extent : shape) {
      halves += extent / 2;
      lengths += extent - 1;
    }
    EXPECT_EQ(analyse(build_torus({.shape = shape})).diameter_hops, 2 + halves);
    EXPECT_EQ(analyse(build_torus({.shape = shape, .wraparound = false})).diameter_hops, 2 + lengths);
  }
}

/// Google Cloud: tori where each dimension is a multiple of 4, meshes otherwise.
TEST(TpuSlice, ClosesWholeCubesOnly) {
  const auto closed = [](TorusShape shape) { return wraps({.shape = std::move(shape), .cube = 4}); };
  EXPECT_TRUE(closed({4, 4, 4}));
  EXPECT_TRUE(closed({4, 4, 8}));
  EXPECT_TRUE(closed({16, 16, 24}));
  EXPECT_FALSE(closed({2, 2, 1}));
  EXPECT_FALSE(closed({2, 4, 4}));
  EXPECT_FALSE(wraps({.shape = {4, 4, 8}, .wraparound = false, .cube = 4}));
  const Fabric slice = build_torus({.shape = {2, 2, 4}, .cube = 4});
  EXPECT_EQ(slice.link_count(), build_torus({.shape = {2, 2, 4}, .wraparound = false}).link_count());
  EXPECT_EQ(build_torus({.shape = {4, 4, 8}, .cube = 4}).link_count(), 2U * 128U * (3U + 1U));
}

// --- Pod tree -----------------------------------------------------------------------------------------------------

/// H100 white paper: 256 GPUs, 57.6 TB/s of all-to-all bandwidth both ways: 128 x 225 GB/s cross the middle each way.
TEST(PodTree, NvlinkSwitchSystem) {
  const PodTreeSpec spec{
      .levels = {{8, gigabytes_per_second(450), nanoseconds(500)}, {32, gigabytes_per_second(1800), nanoseconds(500)}},
      .gpus = 256};
  EXPECT_EQ(pod_tree_capacity(spec), 256U);
  const Fabric fabric = build_pod_tree(spec);
  auto counts = count_kinds(fabric);
  EXPECT_EQ(counts[VertexKind::leaf], 32U);
  EXPECT_EQ(counts[VertexKind::spine], 1U);
  const TopologyReport report = analyse(fabric);
  EXPECT_EQ(report.bisection, gigabytes_per_second(225) * 128);
  EXPECT_EQ(report.diameter_hops, 4U);
}

TEST(PodTree, WhatIsNoneIsRefused) {
  const PodTreeSpec::Level level{4, gigabytes_per_second(100), nanoseconds(500)};
  EXPECT_EQ(refusal([&] { return build_pod_tree({.levels = {level}, .gpus = 5}); }),
            "5 GPUs on a pod tree; allowed: 1 to 4");
  EXPECT_EQ(refusal([&] { return build_pod_tree({.levels = {}, .gpus = 1}); }),
            "a pod tree has 0 levels; allowed: 1 to 4");
  EXPECT_EQ(refusal([&] {
              return build_pod_tree({.levels = {{0, level.bandwidth, level.latency}}, .gpus = 1});
            }),
            "a switch has 0 children; allowed: 1 to 65536");
}

// --- Sites --------------------------------------------------------------------------------------------------------

SitesSpec two_sites() {
  SitesSpec spec;
  spec.site = RailSpec{.node = {}, .cable = {}, .gpus = 0, .nodes_per_group = 4};
  spec.gpus = 128;
  spec.gpus_per_site = 64;
  spec.links = {.bandwidth = gigabytes_per_second(40), .latency = milliseconds(1)};
  return spec;
}

TEST(Sites, MeetOverTheLongLinkOnly) {
  const Fabric fabric = build_sites(two_sites());
  EXPECT_EQ(fabric.gpu_count(), 128U);
  EXPECT_EQ(links_in(fabric, "site"), 2U);
  const TopologyReport report = analyse(fabric);
  EXPECT_EQ(report.bisection, gigabytes_per_second(40));
  EXPECT_EQ(report.diameter_hops, 9U);  // GPU, NIC, leaf, spine, border, border, spine, leaf, NIC, GPU
  // A border's cables into its site carry what its long links do.
  const VertexId border = vertices_of(fabric, VertexKind::router).front();
  Bandwidth inwards;
  for (LinkId l = fabric.out_links(border).first; l < fabric.out_links(border).last; ++l.value) {
    if (fabric.vertex(fabric.link(l).to).kind == VertexKind::spine) inwards = inwards + fabric.link(l).bandwidth;
  }
  EXPECT_EQ(inwards, gigabytes_per_second(40));
}

TEST(Sites, EverySwitchKnowsItsSite) {
  const Fabric fabric = build_sites(two_sites());
  for (const Link& link : fabric.links()) {
    const auto a = fabric.vertex(link.from).group, b = fabric.vertex(link.to).group;
    if (a && b) {
      EXPECT_EQ(*a != *b, fabric.tiers()[link.tier.index()].name == "site");
    }
  }
}

TEST(Sites, OneIsAsIfThereWereNoOther) {
  SitesSpec spec = two_sites();
  spec.gpus = 64;
  const Fabric alone = build_rail_optimised({.node = {}, .cable = {}, .gpus = 64, .nodes_per_group = 4});
  const Fabric fabric = build_sites(spec);
  EXPECT_EQ(fabric.vertex_count(), alone.vertex_count());
  EXPECT_EQ(fabric.link_count(), alone.link_count());
  EXPECT_EQ(analyse(fabric).bisection, analyse(alone).bisection);
  ASSERT_EQ(fabric.tiers().size(), alone.tiers().size());
  for (std::size_t t = 0; t < alone.tiers().size(); ++t) {
    EXPECT_EQ(fabric.tiers()[t].name, alone.tiers()[t].name);
    EXPECT_EQ(fabric.tiers()[t].links, alone.tiers()[t].links);
  }
}

TEST(Sites, WhatIsNoneIsRefused) {
  SitesSpec spec = two_sites();
  spec.gpus = 136;
  EXPECT_EQ(refusal([&] { return build_sites(spec); }), "136 GPUs do not fit 2 sites of 64");
  spec.gpus_per_site = 60;
  EXPECT_EQ(refusal([&] { return build_sites(spec); }),
            "2 sites of 60 GPUs in nodes of 8; allowed: 1 to 64 sites of whole nodes");
  std::vector<Fabric> tori;
  tori.push_back(build_torus({.shape = {4}}));
  EXPECT_EQ(refusal([&] { return join_sites(tori, {}); }), "site 0 has no leaf, spine or core to join others by");
}

// --- Any ----------------------------------------------------------------------------------------------------------

RC_GTEST_PROP(AnyNetwork, DragonfliesAreJoinedAndKeepTheirPorts, ()) {
  const auto a = *rc::gen::inRange(1U, 6U), p = *rc::gen::inRange(1U, 4U), h = *rc::gen::inRange(1U, 4U);
  const std::uint32_t groups = *rc::gen::inRange(1U, a * h + 2);
  const std::uint32_t gpus = *rc::gen::inRange(1U, a * p * groups + 1);
  const Fabric fabric =
      build_dragonfly({.node = thin(), .gpus = gpus, .routers = a, .hosts = p, .global_links = h, .groups = groups});
  RC_ASSERT(joined(fabric));
  RC_ASSERT(fabric.gpu_count() == gpus);
  const std::size_t each = groups > 1 ? a * h / (groups - 1) : 0;
  RC_ASSERT(links_in(fabric, "global") == std::size_t{groups} * (groups - 1) * each);
  for (const auto& [pair, count] : between_groups(fabric, "global")) RC_ASSERT(count == each);
  for (const VertexId router : vertices_of(fabric, VertexKind::router)) {
    RC_ASSERT(ports_in(fabric, router, "local") == a - 1);
    RC_ASSERT(ports_in(fabric, router, "global") <= h);
    RC_ASSERT(ports_in(fabric, router, "nic") <= p);
  }
}

RC_GTEST_PROP(AnyNetwork, DragonfliesPlusAreJoinedAndKeepTheirPorts, ()) {
  const auto leaves = *rc::gen::inRange(1U, 5U), spines = *rc::gen::inRange(1U, 5U), p = *rc::gen::inRange(1U, 4U);
  const auto h = *rc::gen::inRange(1U, 4U);
  const std::uint32_t groups = *rc::gen::inRange(1U, spines * h + 2);
  const std::uint32_t gpus = *rc::gen::inRange(1U, leaves * p * groups + 1);
  const Fabric fabric = build_dragonfly_plus({.node = thin(),
                                              .gpus = gpus,
                                              .leaves = leaves,
                                              .spines = spines,
                                              .hosts = p,
                                              .global_links = h,
                                              .groups = groups});
  RC_ASSERT(joined(fabric));
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) {
    RC_ASSERT(ports_in(fabric, leaf, "leaf-spine") == spines);
    RC_ASSERT(ports_in(fabric, leaf, "nic") <= p);
  }
  for (const VertexId spine : vertices_of(fabric, VertexKind::spine)) {
    RC_ASSERT(ports_in(fabric, spine, "leaf-spine") == leaves);
    RC_ASSERT(ports_in(fabric, spine, "global") <= h);
  }
}

RC_GTEST_PROP(AnyNetwork, LeafSpinesAreJoinedAndKeepTheirPorts, ()) {
  const auto leaves = *rc::gen::inRange(1U, 6U), spines = *rc::gen::inRange(1U, 5U);
  const std::uint32_t nodes = *rc::gen::inRange(1U, 2 * leaves + 1);
  LeafSpineSpec spec = leaf_spine(leaves, spines, *rc::gen::inRange(1U, 4U));
  spec.gpus = 2 * nodes;
  const Fabric fabric = build_leaf_spine(spec);
  RC_ASSERT(joined(fabric));
  RC_ASSERT(count_kinds(fabric)[VertexKind::leaf] == (nodes + 1) / 2);
  for (const VertexId leaf : vertices_of(fabric, VertexKind::leaf)) {
    RC_ASSERT(ports_in(fabric, leaf, "leaf-spine") == spines * spec.cables_per_spine);
    RC_ASSERT(ports_in(fabric, leaf, "nic") <= spec.leaf_ports);
  }
}

RC_GTEST_PROP(AnyNetwork, TreesHaveOneCableLessThanVertices, ()) {
  PodTreeSpec spec;
  const int levels = *rc::gen::inRange(1, 5);
  for (int l = 0; l < levels; ++l) {
    spec.levels.push_back({*rc::gen::inRange(1U, 6U), gigabytes_per_second(100), nanoseconds(500)});
  }
  spec.gpus = *rc::gen::inRange(1U, static_cast<std::uint32_t>(pod_tree_capacity(spec)) + 1);
  const Fabric fabric = build_pod_tree(spec);
  RC_ASSERT(fabric.gpu_count() == spec.gpus);
  RC_ASSERT(joined(fabric));
  RC_ASSERT(fabric.link_count() == 2 * (fabric.vertex_count() - 1));
}

RC_GTEST_PROP(AnyNetwork, ToriOfOneToFourDimensionsHaveTheirCables, ()) {
  TorusSpec spec;
  const int dimensions = *rc::gen::inRange(1, 5);
  for (int d = 0; d < dimensions; ++d) spec.shape.push_back(*rc::gen::inRange(1U, 6U));
  spec.wraparound = *rc::gen::arbitrary<bool>();
  spec.cube = *rc::gen::element(1U, 2U, 4U);
  const Fabric fabric = build_torus(spec);
  RC_ASSERT(joined(fabric));
  // Of each dimension: the cables of a line, times the lines.
  const auto all = std::accumulate(spec.shape.begin(), spec.shape.end(), std::size_t{1}, std::multiplies<>());
  std::size_t cables = 0;
  for (const std::uint32_t n : spec.shape) cables += all / n * (wraps(spec) && n > 2 ? n : n - 1);
  RC_ASSERT(links_in(fabric, "torus") == 2 * cables);
}

RC_GTEST_PROP(AnyNetwork, SitesAreJoined, ()) {
  SitesSpec spec;
  const NodeSpec node = thin(2, 2);
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      spec.site = RailSpec{.node = node, .cable = {}, .gpus = 0, .nodes_per_group = 2};
      break;
    case 1:
      spec.site = FatTreeSpec{.node = node, .cable = {}, .gpus = 0, .tiers = 3, .radix = 8};
      break;
    case 2:
      spec.site = MetaClosSpec{.node = node, .cable = {}, .gpus = 0, .gpus_per_rack = 4, .racks_per_pod = 2, .pods = 4};
      break;
    default:
      spec.site = LeafSpineSpec{.node = node, .cable = {}, .gpus = 0, .leaves = 8, .leaf_ports = 4, .spines = 3};
  }
  spec.sites = *rc::gen::inRange(1U, 5U);
  spec.gpus_per_site = 2 * *rc::gen::inRange(1U, 9U);
  spec.gpus = 2 * *rc::gen::inRange(1U, spec.sites * spec.gpus_per_site / 2 + 1);
  const Fabric fabric = build_sites(spec);
  RC_ASSERT(joined(fabric));
  RC_ASSERT(fabric.gpu_count() == spec.gpus);
  const std::size_t used = (spec.gpus - 1) / spec.gpus_per_site + 1;
  RC_ASSERT(links_in(fabric, "site") == used * (used - 1));
  for (std::size_t g = 0; g < spec.gpus; ++g) {  // numbered site by site
    const VertexId nic = fabric.nics_of(id_at<GpuId>(g)).front();
    for (LinkId l = fabric.out_links(nic).first; l < fabric.out_links(nic).last; ++l.value) {
      const auto site = fabric.vertex(fabric.link(l).to).group;
      RC_ASSERT(!site || *site == g / spec.gpus_per_site);
    }
  }
}

}  // namespace
}  // namespace foretrain
