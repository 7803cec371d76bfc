// Does any algorithm beat what the links allow, and do those that should reach the bound? Every link at its line rate
// (perfect_transport), so what is compared is bytes and bandwidths.
//
// The bound: for a cut of the GPUs into A and B, the bytes that a call must bring from A to B, over the max-flow from A
// to B. Cuts: halves, each GPU, each node, random ones.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cmath>

#include "sim/collectives/timing.h"
#include "tests/sim/hand_made_fabric.h"
#include "tests/sim/usage_reading.h"
#include "topology/analysis.h"
#include "topology/builders/builders.h"

namespace foretrain {
namespace {

double rate(Bandwidth b) { return static_cast<double>(b.bytes_per_s()); }

NodeSpec node_of(std::uint32_t gpus) { return {.gpus = gpus, .nics = gpus}; }

Fabric torus(std::vector<std::uint32_t> shape, bool wraparound = true) {
  return build_torus(
      {.shape = std::move(shape), .link = gigabytes_per_second(50), .latency = {}, .wraparound = wraparound});
}

/// `groups` of `routers` each with one GPU, all-to-all inside a group, and one cable between every two groups (Kim,
/// Dally, Scott and Abts, ISCA 2008), on the router whose turn it is.
Fabric dragonfly(std::uint32_t groups, std::uint32_t routers, Bandwidth global_rate = gigabytes_per_second(50)) {
  FabricBuilder b;
  const TierId nic_tier = b.tier("nic");
  const TierId local = b.tier("local");
  const TierId global = b.tier("global");
  std::vector<VertexId> all;
  for (std::uint32_t r = 0; r < groups * routers; ++r) {
    const NodeId node = b.node();
    const VertexId gpu = b.add(VertexKind::gpu, node);
    const VertexId nic = b.add(VertexKind::nic, node);
    all.push_back(b.add(VertexKind::router));
    b.connect(gpu, nic, gigabytes_per_second(64), nanoseconds(500), nic_tier);
    b.connect(nic, all.back(), gigabytes_per_second(50), nanoseconds(500), nic_tier);
    for (std::uint32_t i = r / routers * routers; i < r; ++i) {
      b.connect(all[i], all[r], gigabytes_per_second(50), nanoseconds(500), local);
    }
  }
  for (std::uint32_t g = 0; g < groups; ++g) {
    for (std::uint32_t h = g + 1; h < groups; ++h) {
      b.connect(all[g * routers + (h - 1) % routers], all[h * routers + g % routers], global_rate, nanoseconds(500),
                global);
    }
  }
  return std::move(b).build();
}

enum class Kind : std::uint8_t { rail, fat_tree, oversubscribed, torus_3d, torus_flat, mesh, dragonfly, one_node };
constexpr Kind all_kinds[] = {Kind::rail,       Kind::fat_tree, Kind::oversubscribed, Kind::torus_3d,
                              Kind::torus_flat, Kind::mesh,     Kind::dragonfly,      Kind::one_node};

Fabric fabric_of(Kind kind) {
  switch (kind) {
    case Kind::rail:
      return build_rail_optimised({.node = node_of(4), .cable = {}, .gpus = 32, .nodes_per_group = 4});
    case Kind::fat_tree:
      return build_fat_tree({.node = node_of(2), .cable = {}, .gpus = 24, .tiers = 3, .radix = 8});
    case Kind::oversubscribed:
      return build_fat_tree({.node = node_of(2),
                             .cable = {},
                             .gpus = 24,
                             .tiers = 3,
                             .radix = 8,
                             .leaf_oversubscription = 1,
                             .spine_oversubscription = 4});
    case Kind::torus_3d:
      return torus({4, 3, 2});
    case Kind::torus_flat:
      return torus({5, 4});
    case Kind::mesh:
      return torus({4, 4}, false);
    case Kind::dragonfly:
      return dragonfly(5, 4);
    case Kind::one_node:
      break;
  }
  return hand_made({.nodes = 1, .gpus = 8});
}

/// Bytes that must go from A (of `a` of the n ranks, with the root or not) to the rest, of the message.
double across(Collective op, double a, double n, bool root_in_a) {
  switch (op) {
    case Collective::all_reduce:
      return 1;  // somebody outside needs the sum, of which A has a share in every byte
    case Collective::all_gather:
      return a / n;
    case Collective::reduce_scatter:
      return (n - a) / n;
    case Collective::all_to_all:
    case Collective::all_to_allv:  // of equal parts here
    case Collective::all_to_allv_back:
      return a * (n - a) / n;
    case Collective::broadcast:
      return root_in_a ? 1 : 0;
    case Collective::reduce:
      return root_in_a ? 0 : 1;
    case Collective::gather:
      return root_in_a ? 0 : a / n;
    case Collective::scatter:
      return root_in_a ? (n - a) / n : 0;
    case Collective::send_recv:
    case Collective::shift:  // depends on who is whose neighbour
    case Collective::barrier:
      break;
  }
  return 0;
}

struct Cut {
  std::vector<GpuId> a, b;
  double flow = 0;
};

Cut cut_of(const Fabric& fabric, const std::vector<bool>& in_a) {
  Cut cut;
  for (std::uint32_t g = 0; g < in_a.size(); ++g) (in_a[g] ? cut.a : cut.b).push_back(GpuId{g});
  cut.flow = rate(max_flow(fabric, cut.a, cut.b));
  return cut;
}

std::vector<Cut> plain_cuts(const Fabric& fabric) {
  const std::size_t n = fabric.gpu_count();
  std::vector<Cut> cuts;
  const auto add = [&](auto in_a) {
    std::vector<bool> side(n);
    for (std::size_t g = 0; g < n; ++g) side[g] = in_a(g);
    cuts.push_back(cut_of(fabric, side));
  };
  add([&](std::size_t g) { return g < n / 2; });
  add([&](std::size_t g) { return g >= n / 2; });
  add([&](std::size_t g) { return g % 2 == 0; });
  for (std::size_t one = 0; one < n; one += 3) {
    add([&](std::size_t g) { return g == one; });
    add([&](std::size_t g) { return g != one; });
  }
  for (std::uint32_t node = 0; node + 1 < fabric.node_count(); node += 2) {
    add([&](std::size_t g) { return fabric.node_of(id_at<GpuId>(g)) == NodeId{node}; });
  }
  return cuts;
}

double bound_of(const std::vector<Cut>& cuts, Collective op, double n) {
  double least = std::numeric_limits<double>::infinity();
  for (const Cut& cut : cuts) {
    const double bytes = across(op, static_cast<double>(cut.a.size()), n, cut.a.front() == GpuId{0});
    if (bytes > 0) least = std::min(least, cut.flow / bytes);
  }
  return least;
}

TEST(Bounds, NoAlgorithmBeatsBisectionAndInjection) {
  for (const Kind kind : all_kinds) {
    for (const Routing routing : {Routing::spread, Routing::ecmp, Routing::dimension_order}) {
      const Ground s(fabric_of(kind), perfect_transport(), routing);
      const auto group = first_gpus(s.fabric.gpu_count());
      const auto cuts = plain_cuts(s.fabric);
      std::size_t compared = 0;
      for (const Collective op : all_collectives) {
        if (op == Collective::send_recv || op == Collective::shift || op == Collective::barrier) continue;
        const double bound = bound_of(cuts, op, static_cast<double>(group.size()));
        for (const Algorithm how : all_algorithms) {
          if (!s.supports(how, op, group)) continue;
          ++compared;
          EXPECT_LE(s.rate(how, op, group), bound * (1 + 1e-9))
              << to_text(how) << " " << to_text(op) << " on kind " << static_cast<int>(kind);
        }
      }
      EXPECT_GE(compared, 14U);
    }
  }
}

RC_GTEST_PROP(Bounds, NoAlgorithmBeatsAnyCut, ()) {
  const Kind kind = *rc::gen::elementOf(std::vector<Kind>(std::begin(all_kinds), std::end(all_kinds)));
  const Ground s(fabric_of(kind), perfect_transport(), *rc::gen::element(Routing::spread, Routing::ecmp));
  const auto group = first_gpus(s.fabric.gpu_count());
  auto in_a = *rc::gen::container<std::vector<bool>>(group.size(), rc::gen::arbitrary<bool>());
  in_a.front() = !in_a.back();
  const std::vector<Cut> cuts{cut_of(s.fabric, in_a)};
  for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::all_to_all}) {
    for (const Algorithm how : all_algorithms) {
      if (!s.supports(how, op, group)) continue;
      RC_ASSERT(s.rate(how, op, group) <= bound_of(cuts, op, static_cast<double>(group.size())) * (1 + 1e-9));
    }
  }
}

// -- bounds that are reached

TEST(Bounds, AllToAllReachesInjectionOnAFatTreeAndBisectionOnAnEvenTorus) {
  const Ground tree(build_fat_tree({.node = node_of(1), .cable = {}, .gpus = 32, .tiers = 3, .radix = 8}),
                    perfect_transport());
  const auto all = first_gpus(32);
  EXPECT_NEAR(tree.rate(Algorithm::pairwise, Collective::all_to_all, all) / (50e9 * 32 / 31), 1, 1e-9);

  // k x k x k, k even: halves exchange n/4 of the message over 2 k^2 cables: 8 L / k. Every shortest way is used alike.
  for (const std::uint32_t k : {4U, 6U}) {
    const Ground cube(torus({k, k, k}), perfect_transport());
    const auto chips = first_gpus(std::size_t{k} * k * k);
    EXPECT_NEAR(cube.rate(Algorithm::pairwise, Collective::all_to_all, chips) / (8 * 50e9 / k), 1, 1e-9);
  }
}

TEST(Bounds, AllToAllOnADragonflyIsBoundByItsGlobalCables) {
  // Two groups of 4, one cable: 4 x 4 / 8 of the message over it, each way.
  const Ground pair(dragonfly(2, 4, gigabytes_per_second(50)), perfect_transport());
  EXPECT_NEAR(pair.rate(Algorithm::pairwise, Collective::all_to_all, first_gpus(8)), 50e9 / 2, 1);
  // Five groups, one cable a pair, slower than the rest. Somebody's four groups are reached over four cables that carry
  // 4 x 16 / 20 together, and those that take a way of equal length through a third group use two.
  const Ground s(dragonfly(5, 4, gigabytes_per_second(10)), perfect_transport());
  const auto usage = s.usage(Algorithm::pairwise, Collective::all_to_all, first_gpus(20));
  EXPECT_LE(s.rate(usage), 4 * 10e9 / (4 * 16.0 / 20));
  EXPECT_GE(s.on_tier(usage, "global"), 20 * 16.0 / 20 - 1e-9);
}

// -- the torus

double torus_rate(const Ground& s, Collective op, const std::vector<GpuId>& group) {
  return s.rate(Algorithm::torus_ring, op, group);
}

TEST(TorusRing, UsesAll2dCablesOfEveryChip) {
  for (const std::vector<std::uint32_t>& shape :
       {std::vector<std::uint32_t>{5}, {3, 3}, {4, 4}, {3, 3, 3}, {4, 4, 4}, {3, 3, 3, 3}}) {
    const Ground s(torus(shape), perfect_transport(), Routing::dimension_order);
    const double n = static_cast<double>(s.fabric.gpu_count());
    const double d = static_cast<double>(shape.size());
    const auto group = first_gpus(s.fabric.gpu_count());
    const auto usage = s.usage(Algorithm::torus_ring, Collective::all_reduce, group);
    std::size_t cables = 0;
    for (const Usage& use : usage) {
      if (s.tier(s.fabric.link(use.link)) != "torus") continue;
      ++cables;
      EXPECT_NEAR(use.wire, 2 * (n - 1) / n / (2 * d), 1e-12);
    }
    EXPECT_EQ(cables, static_cast<std::size_t>(2 * d * n));
    for (const GpuId gpu : group) EXPECT_NEAR(s.out_of(usage, gpu), 2 * (n - 1) / n, 1e-12);
    // time = 2 S (n-1)/n / (2 d L); each half of it one pass.
    EXPECT_NEAR(torus_rate(s, Collective::all_reduce, group) / (2 * d * 50e9 * n / (2 * (n - 1))), 1, 1e-9);
    for (const Collective op : {Collective::all_gather, Collective::reduce_scatter}) {
      EXPECT_NEAR(torus_rate(s, op, group) / (2 * d * 50e9 * n / (n - 1)), 1, 1e-9);
    }
  }
}

TEST(TorusRing, UnequalExtentsLoadTheirRingsByTheOrderOfThePhases) {
  const Ground s(torus({4, 4, 8}), perfect_transport(), Routing::dimension_order);
  const auto usage = s.usage(Algorithm::torus_ring, Collective::all_gather, first_gpus(128));
  // Orders xyz, yzx, zxy of a sixth each (and the other way round): a phase has the (extent-1)/extent of what the ones
  // before left.
  const double z = (1.0 / 16 + 1.0 / 4 + 1.0) * 7 / 8 / 6;
  const double x = (1.0 + 1.0 / 32 + 1.0 / 8) * 3 / 4 / 6;
  const double y = (1.0 / 4 + 1.0 + 1.0 / 32) * 3 / 4 / 6;
  for (const Usage& use : usage) {
    const Link& link = s.fabric.link(use.link);
    if (s.tier(link) != "torus") continue;
    const std::uint32_t a = s.fabric.vertex(link.from).ordinal;
    const std::uint32_t b = s.fabric.vertex(link.to).ordinal;
    const double wire = a / 16 != b / 16 ? z : a % 4 != b % 4 ? x : y;
    EXPECT_NEAR(use.wire, wire, 1e-12);
  }
  const auto group = first_gpus(128);
  EXPECT_NEAR(torus_rate(s, Collective::all_gather, group), 50e9 / z, 1);
}

TEST(TorusRing, AMissingWraparoundDoublesTheTime) {
  for (const std::vector<std::uint32_t>& shape : {std::vector<std::uint32_t>{5}, {4, 4}, {3, 4, 5}}) {
    const Ground closed(torus(shape, true), perfect_transport(), Routing::dimension_order);
    const Ground open(torus(shape, false), perfect_transport(), Routing::dimension_order);
    const auto group = first_gpus(closed.fabric.gpu_count());
    for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
      EXPECT_NEAR(torus_rate(closed, op, group) / torus_rate(open, op, group), 2, 1e-9);
    }
  }
}

TEST(TorusRing, LinesPlanesAndEverySecondChipAreBoxes) {
  const Ground s(torus({4, 4, 4}), perfect_transport(), Routing::dimension_order);
  const auto line = s.shape(strided_gpus(3, 4, 4));  // along y
  ASSERT_EQ(line.torus.size(), 1U);
  EXPECT_EQ(line.torus[0], (TorusLine{4, true}));
  EXPECT_NEAR(torus_rate(s, Collective::all_reduce, strided_gpus(3, 4, 4)), 2 * 50e9 / 1.5, 1);
  const auto plane = s.shape(first_gpus(16));
  ASSERT_EQ(plane.torus.size(), 2U);
  EXPECT_NEAR(torus_rate(s, Collective::all_reduce, first_gpus(16)), 4 * 50e9 / (2 * 15.0 / 16), 1);
  EXPECT_EQ(s.shape(first_gpus(3)).torus[0], (TorusLine{3, false}));
  EXPECT_EQ(s.shape(strided_gpus(0, 2, 32)).torus.size(), 3U);
  EXPECT_TRUE(s.shape(first_gpus(5)).torus.empty());  // a line and one more
  EXPECT_TRUE(s.shape({GpuId{7}}).torus.empty());
}

TEST(TorusRing, IsTheDefaultOnATorusAndOnlyThere) {
  const Ground s(torus({4, 4}), {}, Routing::dimension_order);
  const Transport t;
  const auto pick = [&](const std::vector<GpuId>& group, const Forced& forced) {
    return choose(Collective::all_reduce, mebibytes(64), s.shape(group), t, forced).algorithm;
  };
  EXPECT_EQ(pick(first_gpus(16), {}), Algorithm::torus_ring);
  EXPECT_EQ(pick(first_gpus(16), {Algorithm::ring, {}}), Algorithm::ring);
  EXPECT_NE(pick(first_gpus(5), {}), Algorithm::torus_ring);
  const Ground clos(hand_made({.nodes = 2, .gpus = 8}), {});
  EXPECT_THROW(
      (void)choose(Collective::all_reduce, mebibytes(1), clos.shape(first_gpus(16)), t, {Algorithm::torus_ring, {}}),
      std::invalid_argument);
}

TEST(TorusRing, TheChoicesClosedFormIsTheUsages) {
  // What `choose` compares protocols by must be what a call then takes.
  for (const bool wraparound : {true, false}) {
    for (const std::vector<std::uint32_t>& shape : {std::vector<std::uint32_t>{2, 2}, {4, 4, 8}, {3, 5}}) {
      const Ground s(torus(shape, wraparound), {}, Routing::dimension_order);
      const auto group = first_gpus(s.fabric.gpu_count());
      EXPECT_NEAR(torus_rate(s, Collective::all_reduce, group) /
                      timing::simple_rate(Collective::all_reduce, Algorithm::torus_ring, s.shape(group), s.transport),
                  1, 1e-9);
    }
  }
}

// -- seeds of the field

TEST(Seeds, AnAllReduceMovesTwiceTheMessageARankHoweverManyThereAre) {
  for (const std::uint32_t n : {2U, 3U, 8U, 17U, 64U, 100U}) {
    const Ground s(hand_made({.nodes = n, .gpus = 1}), perfect_transport());
    for (const Algorithm how : {Algorithm::ring, Algorithm::hierarchical}) {
      const auto usage = s.usage(how, Collective::all_reduce, first_gpus(n));
      for (std::uint32_t g = 0; g < n; ++g) EXPECT_NEAR(s.out_of(usage, GpuId{g}), 2 * (n - 1.0) / n, 1e-12);
    }
  }
}

TEST(Seeds, TensorParallelOverNvlinkIsFasterThanAcrossNodesByTheRatioOfTheLinks) {
  const Ground s(hand_made({.nodes = 8, .gpus = 8}), {});
  const double in_node = s.rate(Algorithm::ring, Collective::all_reduce, first_gpus(8));
  const double across_nodes = s.rate(Algorithm::ring, Collective::all_reduce, strided_gpus(0, 8, 8));
  const NodeTransport node;
  const NetworkTransport network;
  EXPECT_NEAR(in_node / across_nodes, rate(node.ring_rate) / (network.efficiency * 50e9), 1e-6);
}

TEST(Seeds, AllToAllSuffersFromOversubscriptionInProportionAndARailLocalRingDoesNot) {
  const auto rates = [](double oversubscription) {
    const Ground s(
        build_rail_optimised(
            {.node = node_of(8), .cable = {}, .gpus = 64, .nodes_per_group = 4, .oversubscription = oversubscription}),
        perfect_transport());
    return std::pair(s.rate(Algorithm::pairwise, Collective::all_to_all, first_gpus(64)),
                     s.rate(Algorithm::ring, Collective::all_reduce, strided_gpus(0, 8, 4)));
  };
  const auto [even, ring] = rates(1);
  for (const double oversubscription : {2.0, 4.0, 8.0}) {
    const auto [a2a, rail_ring] = rates(oversubscription);
    // 53 of 64 parts leave a GPU's leaf upwards (3 stay below it, 8 in the node); 56 its NIC.
    EXPECT_NEAR(a2a, 50e9 / oversubscription * 64 / 53, 1);
    EXPECT_EQ(rail_ring, ring);
  }
  EXPECT_NEAR(even, 50e9 * 64 / 56, 1);
}

TEST(Seeds, AllToAllPrefersTheFatTreeAndNeighboursDoAsWellOnATorusOfAsManyLinks) {
  // 256 GPUs, two cables of 50 GB/s a GPU: a two-tier fat-tree, or a 16 x 16 torus.
  const Ground tree(build_fat_tree({.node = node_of(1), .cable = {}, .gpus = 256, .tiers = 2, .radix = 32}),
                    perfect_transport());
  const Ground grid(torus({16, 16}), perfect_transport(), Routing::spread);
  const auto cables = [](const Ground& s, std::string_view first, std::string_view second) {
    std::size_t links = 0;
    for (const Tier& tier : s.fabric.tiers()) links += tier.name == first || tier.name == second ? tier.links : 0;
    return links / 2;
  };
  EXPECT_EQ(cables(tree, "nic", "leaf-spine"), cables(grid, "torus", "torus"));
  const auto group = first_gpus(256);
  // Experts: the tree is bound by injection, the torus by bisection, 8 L / 16.
  EXPECT_NEAR(tree.rate(Algorithm::pairwise, Collective::all_to_all, group), 50e9 * 256 / 255, 1);
  EXPECT_NEAR(grid.rate(Algorithm::pairwise, Collective::all_to_all, group), 50e9 / 2, 1);
  // Neighbours: pipeline messages to the next rank, and rings of data-parallel replicas in a row.
  const std::vector<GpuId> pair{GpuId{0}, GpuId{1}};
  EXPECT_GE(grid.rate(Algorithm::pairwise, Collective::send_recv, pair),
            tree.rate(Algorithm::pairwise, Collective::send_recv, pair));
  EXPECT_GE(grid.rate(Algorithm::torus_ring, Collective::all_reduce, first_gpus(16)),
            tree.rate(Algorithm::ring, Collective::all_reduce, first_gpus(16)));
}

// -- speed

TEST(Speed, AnAllToAllOf1024RanksOnThreeTiersWithEcmp) {
  const Ground s(build_fat_tree({.node = node_of(8), .cable = {}, .gpus = 1024, .tiers = 3, .radix = 32}), {},
                 Routing::ecmp);
  const auto group = first_gpus(1024);
  const auto begin = std::chrono::steady_clock::now();
  const auto usage = s.usage(Algorithm::pairwise, Collective::all_to_all, group);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds", static_cast<int>(1000 * took.count()));
  double nics = 0;
  for (const Usage& use : usage) {
    if (s.fabric.vertex(s.fabric.link(use.link).from).kind == VertexKind::nic &&
        s.tier(s.fabric.link(use.link)) == "nic") {
      nics += use.wire;
    }
  }
  EXPECT_NEAR(nics, 1024 * 1016.0 / 1024, 1e-6);
  // Wants 0.3 s in a release build on an idle machine; the bound leaves room for others.
  EXPECT_LT(took.count(), 6.0);
}

}  // namespace
}  // namespace foretrain
