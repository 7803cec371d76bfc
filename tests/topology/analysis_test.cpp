// Bisection by formula, max-flow against brute force over all cuts, diameter against all pairs.
#include "topology/analysis.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/topology/shapes.h"
#include "topology/routing/router.h"

namespace foretrain {
namespace {

double rate(Bandwidth b) { return static_cast<double>(b.bytes_per_s()); }
const double nic = rate(gigabits_per_second(400));

// --- Bisection by formula -----------------------------------------------------------------------------------------

TEST(Bisection, FullFatTreeIsFull) {
  for (const std::uint32_t k : {4U, 8U}) {
    const std::uint32_t gpus = k * k * k / 4;
    const TopologyReport report =
        analyse(build_fat_tree({.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = gpus, .tiers = 3, .radix = k}));
    EXPECT_EQ(rate(report.bisection), gpus / 2.0 * nic);
    EXPECT_EQ(report.bisection_of_injection, 1);
    EXPECT_EQ(report.diameter_hops, 8U);  // GPU NIC leaf spine core spine leaf NIC GPU
  }
}

TEST(Bisection, FullFatTreeOfFourTiersIsFull) {
  const TopologyReport report =
      analyse(build_fat_tree({.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = 32, .tiers = 4, .radix = 4}));
  EXPECT_EQ(rate(report.bisection), 16 * nic);
  EXPECT_EQ(report.bisection_of_injection, 1);
  EXPECT_EQ(report.diameter_hops, 10U);  // GPU NIC leaf spine core top core spine leaf NIC GPU
}

/// Leaves of 40 ports, d down and d / o up: 40 o / (1 + o) down is whole for these. Eight full leaves, four a half.
TEST(Bisection, FallsByTheLeavesOversubscription) {
  for (const double ratio : {1.0, 1.5, 3.0, 4.0}) {
    const double down = 40 * ratio / (1 + ratio);
    const TopologyReport report = analyse(build_fat_tree({.node = {.gpus = 1, .nics = 1},
                                                          .cable = {},
                                                          .gpus = static_cast<std::uint32_t>(8 * down),
                                                          .tiers = 2,
                                                          .radix = 40,
                                                          .leaf_oversubscription = ratio}));
    EXPECT_NEAR(rate(report.bisection), 4 * down * nic / ratio, 1e-8 * 4 * down * nic);
    EXPECT_NEAR(report.bisection_of_injection, 1 / ratio, 1e-8);
  }
}

/// Pods of a three-tier tree at a spine oversubscription: a cut between whole pods lets that part through.
TEST(Bisection, FallsByTheSpinesOversubscription) {
  for (const double ratio : {1.0, 3.0, 7.0}) {
    FatTreeSpec spec{.node = {.gpus = 1, .nics = 1},
                     .cable = {},
                     .gpus = 0,
                     .tiers = 3,
                     .radix = 8,
                     .leaf_oversubscription = 1,
                     .spine_oversubscription = ratio};
    spec.gpus = static_cast<std::uint32_t>(fat_tree_capacity(spec));
    EXPECT_NEAR(analyse(build_fat_tree(spec)).bisection_of_injection, 1 / ratio, 1e-8);
  }
}

TEST(Bisection, RailOptimisedIsFullUnlessOversubscribed) {
  for (const double ratio : {1.0, 2.0, 4.0}) {
    const TopologyReport report =
        analyse(build_rail_optimised({.node = {}, .cable = {}, .gpus = 1024, .oversubscription = ratio}));
    EXPECT_NEAR(rate(report.bisection), 512 * nic / ratio, 1e-8 * 512 * nic);
    EXPECT_EQ(report.diameter_hops, 6U);
  }
}

/// Inside a group the leaves join all nodes: no spine is needed, whatever the oversubscription.
TEST(Bisection, OfOneRailGroupNeedsNoSpine) {
  const TopologyReport report =
      analyse(build_rail_optimised({.node = {}, .cable = {}, .gpus = 256, .oversubscription = 16}));
  EXPECT_EQ(rate(report.bisection), 128 * nic);
}

/// Llama 3: full bisection in a pod, a seventh of it between pods.
TEST(Bisection, MetaPodIsFullAndPodsMeetAtASeventh) {
  const TopologyReport pod = analyse(build_meta_clos({.node = {}, .cable = {}, .gpus = 3072}));
  EXPECT_EQ(rate(pod.bisection), 1536 * nic);
  const TopologyReport two = analyse(build_meta_clos({.node = {}, .cable = {}, .gpus = 6144}));
  EXPECT_NEAR(rate(two.bisection), 3072 * nic / 7, 1e-8 * 3072 * nic);
  const TopologyReport all = analyse(build_meta_clos({.node = {}, .cable = {}, .gpus = 24576}));
  EXPECT_NEAR(all.bisection_of_injection, 1.0 / 7, 1e-8);
  EXPECT_EQ(all.diameter_hops, 8U);
}

/// A torus cut across its last dimension of even extent: the product of the others, twice (the wrap), once without.
TEST(Bisection, OfATorus) {
  const double link = rate(gigabytes_per_second(50));
  EXPECT_EQ(rate(analyse(build_torus({.shape = {8}})).bisection), 2 * link);
  EXPECT_EQ(rate(analyse(build_torus({.shape = {4, 4, 8}})).bisection), 2 * 4 * 4 * link);
  EXPECT_EQ(rate(analyse(build_torus({.shape = {4, 4, 8}, .wraparound = false})).bisection), 4 * 4 * link);
  EXPECT_EQ(rate(analyse(build_torus({.shape = {4, 4, 2}})).bisection), 4 * 4 * link);  // one cable of two
}

TEST(Bisection, OfOneNodeIsItsNvLink) {
  const TopologyReport report = analyse(build_rail_optimised({.node = {}, .cable = {}, .gpus = 8}));
  // Four GPUs, and by NIC and leaf as well: NIC r hangs on leaf r and the spines are there.
  EXPECT_EQ(rate(report.bisection), 4 * 450e9 + 4 * nic);
  EXPECT_EQ(report.diameter_hops, 2U);
}

// --- Max-flow against all cuts ------------------------------------------------------------------------------------

/// A random fabric small enough to try every cut: GPUs in nodes of their own, switches, hosts, any cables.
struct RandomFabric {
  Fabric fabric;
  std::vector<GpuId> from;
  std::vector<GpuId> to;
};

RandomFabric any_fabric() {
  FabricBuilder b;
  const TierId tier = b.tier("t");
  const int gpus = *rc::gen::inRange(2, 5);
  const int switches = *rc::gen::inRange(1, 6);
  std::vector<VertexId> vertices;
  vertices.reserve(static_cast<std::size_t>(gpus + switches));
  for (int g = 0; g < gpus; ++g) {
    vertices.push_back(b.add(VertexKind::gpu, b.node()));
  }
  for (int s = 0; s < switches; ++s) {
    vertices.push_back(b.add(*rc::gen::element(VertexKind::leaf, VertexKind::spine, VertexKind::host)));
  }
  const auto cables = *rc::gen::inRange(1, 20);
  for (int c = 0; c < cables; ++c) {
    const VertexId x = *rc::gen::elementOf(vertices);
    const VertexId y = *rc::gen::elementOf(vertices);
    if (x != y) {
      b.connect(x, y, bytes_per_second(*rc::gen::inRange<std::int64_t>(1, 9)), Duration{}, tier);
    }
  }
  RandomFabric out{std::move(b).build(), {GpuId{0}}, {GpuId{1}}};
  if (gpus > 2) {
    out.from.push_back(GpuId{2});  // of four GPUs the last is in neither set
  }
  return out;
}

/// The least capacity of all cuts (Ford and Fulkerson 1956: equal to the maximum flow).
std::int64_t least_cut(const RandomFabric& it) {
  const Fabric& fabric = it.fabric;
  const auto is_in = [&](const std::vector<GpuId>& set, VertexId v) {
    const auto gpu = fabric.gpu_at(v);
    return gpu && std::find(set.begin(), set.end(), *gpu) != set.end();
  };
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t cut = 0; cut < (1U << fabric.vertex_count()); ++cut) {
    const auto in_cut = [&](VertexId v) { return ((cut >> v.value) & 1U) != 0; };
    bool legal = true;
    for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
      const auto id = id_at<VertexId>(v);
      legal = legal && (in_cut(id) ? !is_in(it.to, id) : !is_in(it.from, id));
    }
    if (!legal) {
      continue;
    }
    std::int64_t capacity = 0;
    for (const Link& link : fabric.links()) {
      const auto forwards = [&](VertexId v) {
        const VertexKind kind = fabric.vertex(v).kind;
        return kind == VertexKind::gpu ? is_in(it.from, v) || is_in(it.to, v) : kind != VertexKind::host;
      };
      const bool counts = forwards(link.from) && forwards(link.to) && in_cut(link.from) && !in_cut(link.to);
      capacity += counts ? link.bandwidth.bytes_per_s() : 0;
    }
    least = std::min(least, capacity);
  }
  return least;
}

RC_GTEST_PROP(MaxFlow, IsTheLeastCut, ()) {
  const RandomFabric it = any_fabric();
  RC_ASSERT(max_flow(it.fabric, it.from, it.to).bytes_per_s() == least_cut(it));
}

TEST(MaxFlow, IsSymmetric) {
  for (const Shape shape : all_shapes) {
    const Fabric fabric = build_shape(shape);
    const std::vector<GpuId> a{GpuId{0}};
    const std::vector<GpuId> b{id_at<GpuId>(fabric.gpu_count() - 1)};
    EXPECT_EQ(max_flow(fabric, a, b), max_flow(fabric, b, a));
  }
}

// --- The rest of the report ---------------------------------------------------------------------------------------

class AnalysisOf : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Analysis, AnalysisOf, testing::ValuesIn(all_shapes));

/// The longest of all routes, which find their ways by other code.
TEST_P(AnalysisOf, DiameterIsTheLongestRoute) {
  const Fabric fabric = build_shape(GetParam());
  const auto router = make_router(Routing::ecmp, fabric, 1);
  std::size_t longest = 0;
  for (std::size_t a = 0; a < fabric.gpu_count(); ++a) {
    for (std::size_t b = 0; b < fabric.gpu_count(); ++b) {
      std::vector<LinkShare> path;
      router->route(id_at<GpuId>(a), id_at<GpuId>(b), 0, path);
      longest = std::max(longest, path.size());
    }
  }
  EXPECT_EQ(analyse(fabric).diameter_hops, longest);
}

TEST_P(AnalysisOf, CountsAddUp) {
  const Fabric fabric = build_shape(GetParam());
  const TopologyReport report = analyse(fabric);
  std::size_t links = 0;
  for (const TierReport& tier : report.tiers) {
    links += tier.links;
    EXPECT_LE(tier.link_min, tier.link_max);
  }
  EXPECT_EQ(links, fabric.link_count());
  auto counts = count_kinds(fabric);
  std::size_t switches = 0;
  for (const SwitchRadix& radix : report.switches) {
    EXPECT_EQ(radix.count, counts[radix.kind]);
    switches += radix.count;
  }
  EXPECT_EQ(report.gpus + report.nics + counts[VertexKind::host] + switches, report.vertices);
}

TEST_P(AnalysisOf, BisectionIsNoMoreThanInjection) {
  const TopologyReport report = analyse(build_shape(GetParam()));
  if (report.nodes > 1) {
    EXPECT_GT(report.bisection_of_injection, 0);
    EXPECT_LE(report.bisection_of_injection, 1 + 1e-12);
  }
}

/// Diameter of a torus: half of each extent, rounded down; of a mesh all but one of each. Plus the two GPUs' links.
TEST(Diameter, OfATorus) {
  EXPECT_EQ(analyse(build_torus({.shape = {6, 5, 4}})).diameter_hops, 2U + 3 + 2 + 2);
  EXPECT_EQ(analyse(build_torus({.shape = {6, 5, 4}, .wraparound = false})).diameter_hops, 2U + 5 + 4 + 3);
  // More routers than one batch of the search
  EXPECT_EQ(analyse(build_torus({.shape = {30, 40}})).diameter_hops, 2U + 15 + 20);
}

TEST(Dot, DrawsEveryVertexOrFoldsNodes) {
  const Fabric fabric = build_rail_optimised({.node = {}, .cable = {}, .gpus = 16, .nodes_per_group = 2});
  const std::string all = to_dot(fabric);
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    EXPECT_THAT(all, testing::HasSubstr(fmt::format("\"{}\" [", fabric.name(id_at<VertexId>(v)))));
  }
  EXPECT_EQ(static_cast<std::size_t>(std::count(all.begin(), all.end(), '-')), fabric.link_count() / 2 * 2);
  const std::string folded = to_dot(fabric, 10);
  EXPECT_THAT(folded, testing::Not(testing::HasSubstr("gpu0")));
  EXPECT_THAT(folded, testing::HasSubstr("\"leaf0\" -- \"node1\" [label=\"50GB/s\"]"));
  EXPECT_THAT(to_dot(fabric), testing::Eq(all));
}

}  // namespace
}  // namespace foretrain
