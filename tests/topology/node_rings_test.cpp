// The rings inside a node: closed ways over direct links, no link overfull, as many as the published machines run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/topology/shapes.h"
#include "topology/builders/node.h"
#include "topology/faults.h"
#include "topology/node_rings.h"

namespace foretrain {
namespace {

NodeSpec full_mesh(std::uint32_t gpus) {
  return {.gpus = gpus, .nics = gpus, .nvlink = gigabytes_per_second(64) * (gpus - 1), .shape = NodeShape::full_mesh};
}
NodeSpec cube_mesh() { return {.nics = 4, .nvlink = gigabytes_per_second(150), .shape = NodeShape::cube_mesh}; }

std::vector<GpuId> gpus_at(std::vector<std::uint32_t> numbers) {
  std::vector<GpuId> gpus;
  for (const std::uint32_t n : numbers) gpus.push_back(GpuId{n});
  return gpus;
}
std::vector<GpuId> first(std::uint32_t count) {
  std::vector<GpuId> gpus;
  for (std::uint32_t g = 0; g < count; ++g) gpus.push_back(GpuId{g});
  return gpus;
}

LinkCounts all_pairs(std::size_t n, std::uint32_t links) {
  LinkCounts counts{n, std::vector<std::uint32_t>(n * n, links)};
  for (std::size_t i = 0; i < n; ++i) counts.links[i * n + i] = 0;
  return counts;
}

/// By ordered pair: rings that go from the one to the other.
std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> uses(const std::vector<NodeRing>& rings) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> count;
  for (const NodeRing& ring : rings) {
    for (std::size_t i = 0; i < ring.size(); ++i) ++count[{ring[i], ring[(i + 1) % ring.size()]}];
  }
  return count;
}

bool visits_all_once(const NodeRing& ring, std::size_t n) {
  return ring.size() == n && std::set<std::uint32_t>(ring.begin(), ring.end()).size() == n &&
         *std::max_element(ring.begin(), ring.end()) == n - 1;
}

// ---- full meshes -----------------------------------------------------------------------------------------------

/// Every directed link of K_n is in the same number of rings: R rings of n hops over n (n-1) links.
TEST(NodeRings, FillAFullMeshEvenly) {
  for (std::size_t n = 3; n <= 17; ++n) {
    const std::vector<NodeRing> rings = rings_over(all_pairs(n, 1));
    ASSERT_EQ(rings.size(), n % 2 == 0 ? 2 * (n - 1) : n - 1) << n;
    for (const NodeRing& ring : rings) EXPECT_TRUE(visits_all_once(ring, n)) << n;
    const auto count = uses(rings);
    EXPECT_EQ(count.size(), n * (n - 1)) << n;
    for (const auto& [pair, number] : count) EXPECT_EQ(number * (n - 1), rings.size()) << n;
  }
}

/// n-1 of the MI300X's seven links of 64 GB/s lead to the others of the group; two GPUs have one.
TEST(NodeRings, OfAPartOfAMeshHaveTheLinksOfThePart) {
  const Fabric fabric = server(full_mesh(8), 8);
  for (std::uint32_t n = 2; n <= 8; ++n) {
    EXPECT_EQ(find_node_rings(fabric, first(n)).rate, gigabytes_per_second(64) * (n - 1)) << n;
  }
  EXPECT_EQ(find_node_rings(fabric, gpus_at({6, 1, 3})).rate, gigabytes_per_second(128));
  EXPECT_EQ(find_node_rings(fabric, first(1)).rings, (std::vector<NodeRing>{{0}}));
}

/// Four V100s with two links between every two: the graph that NCCL dumps has six channels (NVIDIA/nccl issue 713).
TEST(NodeRings, OfFourGpusAreSix) { EXPECT_EQ(rings_over(all_pairs(4, 2)).size(), 6U); }

// ---- the cube mesh ----------------------------------------------------------------------------------------------

/// WP-08437: three rings over single links, each used both ways; six links of 25 GB/s a GPU are then all in use.
TEST(NodeRings, OfADgx1AreThreeEachWay) {
  const Fabric fabric = server(cube_mesh(), 8);
  const NodeRings found = find_node_rings(fabric, first(8));
  EXPECT_EQ(found.rings.size(), 6U);
  EXPECT_EQ(found.rate, gigabytes_per_second(150));
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> links;
  for (const Link& link : fabric.links()) {
    if (fabric.tiers()[link.tier.index()].name != "nvlink") continue;
    ++links[{fabric.vertex(link.from).in_node, fabric.vertex(link.to).in_node}];
  }
  EXPECT_EQ(uses(found.rings), links);
}

/// A quad has four or five links a GPU inside it: two rings each way at least, and at most 4 links' worth.
TEST(NodeRings, OfAQuadUseTheLinksInsideIt) {
  const NodeRings found = find_node_rings(server(cube_mesh(), 8), first(4));
  EXPECT_EQ(found.rate, gigabytes_per_second(100));
}

TEST(NodeRings, WithoutAClosedWayAreOneInOrder) {
  const Fabric fabric = server(cube_mesh(), 8);
  EXPECT_EQ(find_node_rings(fabric, gpus_at({0, 5})).rings, (std::vector<NodeRing>{{0, 1}}));
  EXPECT_EQ(find_node_rings(fabric, gpus_at({0, 5})).rate, std::nullopt);
  const NodeRings line = find_node_rings(fabric, gpus_at({0, 1, 5}));  // 0-1 and 1-5, not 0-5
  EXPECT_EQ(line.rings, (std::vector<NodeRing>{{0, 1, 2}}));
  EXPECT_EQ(line.rate, gigabytes_per_second(25));
}

// ---- others -----------------------------------------------------------------------------------------------------

TEST(NodeRings, OnASwitchOrPcieAreOneInOrder) {
  for (const NodeShape shape : {NodeShape::nvswitch, NodeShape::pcie}) {
    const NodeRings found = find_node_rings(server({.shape = shape}, 8), gpus_at({5, 2, 7}));
    EXPECT_EQ(found.rings, (std::vector<NodeRing>{{0, 1, 2}}));
    EXPECT_EQ(found.rate, std::nullopt);
  }
}

Fabric with_fault(const Fabric& fabric, double remaining) {
  const FabricFault fault{FabricFault::Kind::link, "node0/gpu0 > node0/gpu3", remaining};
  return with_faults(fabric, resolve(fabric, std::span(&fault, 1)).remaining);
}

/// Slow links keep their rings and slow them; two that are down leave four of the two GPUs' six: two rings each way.
TEST(NodeRings, GoAroundLinksThatAreDownNotSlowOnes) {
  const Fabric whole = server(cube_mesh(), 8);
  const Fabric slow = with_fault(whole, 0.25);
  EXPECT_EQ(find_node_rings(slow, first(8)).rings, find_node_rings(whole, first(8)).rings);
  EXPECT_EQ(find_node_rings(slow, first(8)).rate, scaled(gigabytes_per_second(150), 0.25));
  const NodeRings around = find_node_rings(with_fault(whole, 0), first(8));
  EXPECT_EQ(around.rate, gigabytes_per_second(100));
  EXPECT_FALSE(uses(around.rings).contains({0, 3}));
}

LinkCounts any_counts() {
  const auto n = *rc::gen::inRange<std::size_t>(2, 8);
  LinkCounts counts{n, std::vector<std::uint32_t>(n * n)};
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) counts.links[a * n + b] = counts.links[b * n + a] = *rc::gen::inRange(0U, 4U);
  }
  return counts;
}

RC_GTEST_PROP(NodeRings, AreClosedWaysBothWaysRoundOverLinksThatAreThere, ()) {
  const LinkCounts counts = any_counts();
  const std::vector<NodeRing> rings = rings_over(counts);
  const auto count = uses(rings);
  std::uint32_t least_degree = 1000;
  for (std::size_t a = 0; a < counts.size; ++a) {
    const auto row = counts.links.begin() + static_cast<std::ptrdiff_t>(a * counts.size);
    least_degree = std::min(least_degree, std::accumulate(row, row + static_cast<std::ptrdiff_t>(counts.size), 0U));
  }
  for (const NodeRing& ring : rings) RC_ASSERT(visits_all_once(ring, counts.size));
  // No link is used more often than twice, and then by half rings: R rings of 1/R fill at most all links of a GPU.
  double fullest = 0;
  for (const auto& [pair, number] : count) {
    const std::uint32_t links = counts.at(pair.first, pair.second);
    RC_ASSERT(links > 0U);
    RC_ASSERT(number <= 2 * links);
    fullest = std::max(fullest, static_cast<double>(number) / links);
    RC_ASSERT(count.at({pair.second, pair.first}) == number);
  }
  if (!rings.empty()) RC_ASSERT(static_cast<double>(rings.size()) / fullest <= least_degree + 1e-9);
}

/// Whether a closed way over all exists does not hang on how the GPUs are numbered.
RC_GTEST_PROP(NodeRings, AreFoundWhateverTheOrderOfTheGpus, ()) {
  const Fabric fabric = server(cube_mesh(), 8);
  std::vector<std::uint32_t> order(8);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  RC_ASSERT(find_node_rings(fabric, gpus_at(order)).rate == gigabytes_per_second(150));
}

}  // namespace
}  // namespace foretrain
