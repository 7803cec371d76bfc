// Are the usage vectors and closed forms of the collectives right? Wire bytes are counted exactly, times to the
// picosecond, against formulas written out here. Constants are the defaults of Transport (H100 on RoCE).
#include "sim/collectives/collective.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>

#include "sim/network.h"
#include "sim/simulate.h"
#include "tests/sim/hand_made_fabric.h"
#include "topology/faults.h"

namespace foretrain {
namespace {

double rate(Bandwidth b) { return static_cast<double>(b.bytes_per_s()); }

/// A fabric, its router, and what is asked of them.
struct Setting {
  explicit Setting(const HandMade& spec, Transport t = {})
      : fabric(hand_made(spec)), router(make_router(Routing::spread, fabric, 1)), transport(t) {}
  Fabric fabric;
  std::unique_ptr<Router> router;
  Transport transport;

  [[nodiscard]] CollectiveContext context() const { return {fabric, *router, transport}; }
  [[nodiscard]] std::vector<Usage> usage(Algorithm how, Collective op, const std::vector<GpuId>& group) const {
    return algorithm(how).usage(op, Protocol::simple, GroupLayout(fabric, group), context());
  }
  [[nodiscard]] GroupShape shape(const std::vector<GpuId>& group) const {
    return shape_of(fabric, GroupLayout(fabric, group));
  }
  [[nodiscard]] IdleCall call(Collective op, Bytes size, const std::vector<GpuId>& group, Algorithm how,
                              Protocol protocol) const {
    return idle_call(fabric, transport, *router, op, size, group, {how, protocol});
  }
};

/// Wire bytes out of a vertex, on links of one tier.
double out_of(const Fabric& fabric, const std::vector<Usage>& usage, VertexId vertex, const std::string& tier) {
  double sum = 0;
  for (const Usage& use : usage) {
    const Link& link = fabric.link(use.link);
    if (link.from == vertex && fabric.tiers()[link.tier.index()].name == tier) sum += use.wire;
  }
  return sum;
}

double into(const Fabric& fabric, const std::vector<Usage>& usage, VertexId vertex, const std::string& tier) {
  double sum = 0;
  for (const Usage& use : usage) {
    const Link& link = fabric.link(use.link);
    if (link.to == vertex && fabric.tiers()[link.tier.index()].name == tier) sum += use.wire;
  }
  return sum;
}

/// Message bytes a second that the links allow on an idle network.
double link_rate(const Fabric& fabric, const std::vector<Usage>& usage) {
  double least = uncapped;
  for (const Usage& use : usage) least = std::min(least, rate(fabric.link(use.link).bandwidth) / use.load);
  return least;
}

std::map<std::uint32_t, double> wire_by_link(const std::vector<Usage>& usage) {
  std::map<std::uint32_t, double> wire;
  for (const Usage& use : usage) wire[use.link.value] += use.wire;
  return wire;
}

void expect_well_formed(const Fabric& fabric, const std::vector<Usage>& usage) {
  for (std::size_t i = 0; i < usage.size(); ++i) {
    EXPECT_LT(usage[i].link.index(), fabric.link_count());
    EXPECT_GT(usage[i].wire, 0);
    EXPECT_GE(usage[i].load, usage[i].wire);
    if (i > 0) {
      EXPECT_LT(usage[i - 1].link, usage[i].link);
    }
  }
}

TEST(Collectives, BusBandwidthFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(busbw_factor(Collective::all_reduce, 8), 14.0 / 8);
  EXPECT_DOUBLE_EQ(busbw_factor(Collective::all_gather, 8), 7.0 / 8);
  EXPECT_DOUBLE_EQ(busbw_factor(Collective::reduce_scatter, 6), 5.0 / 6);
  EXPECT_DOUBLE_EQ(busbw_factor(Collective::all_to_all, 3), 2.0 / 3);
  for (const Collective op : {Collective::broadcast, Collective::reduce, Collective::send_recv, Collective::shift}) {
    EXPECT_EQ(busbw_factor(op, 8), 1.0);
  }
}

// -- layout

TEST(Layout, GroupsMembersByNodeInOrderOfAppearance) {
  const Setting s({.nodes = 3, .gpus = 4});
  const GroupLayout layout(s.fabric, {GpuId{9}, GpuId{1}, GpuId{8}, GpuId{0}});
  ASSERT_EQ(layout.nodes.size(), 2U);
  EXPECT_EQ(layout.nodes[0].id, s.fabric.node_of(GpuId{8}));
  EXPECT_EQ(layout.nodes[0].gpus, (std::vector<GpuId>{GpuId{9}, GpuId{8}}));
  EXPECT_EQ(layout.nodes[1].gpus, (std::vector<GpuId>{GpuId{1}, GpuId{0}}));
  EXPECT_EQ(layout.ranks_per_node_min(), 2U);
}

TEST(Layout, ShapeCountsTheNicsThatMembersDrive) {
  const Setting s({.nodes = 4, .gpus = 8});
  const GroupShape whole = s.shape(first_gpus(32));
  EXPECT_EQ(whole.nodes, 4U);
  EXPECT_EQ(whole.nics_per_node, 8U);
  EXPECT_EQ(whole.nic, gigabits_per_second(400));
  const GroupShape rail = s.shape(strided_gpus(3, 8, 4));
  EXPECT_EQ(rail.per_node_max, 1U);
  EXPECT_EQ(rail.nics_per_node, 1U);
}

// -- traffic

struct Shape {
  std::uint32_t nodes;
  std::uint32_t gpus;
};
const Shape shapes[] = {{1, 2}, {1, 3}, {1, 8}, {2, 1}, {2, 4}, {2, 8}, {3, 1}, {3, 5}, {4, 8}, {5, 2}, {7, 8}, {8, 3}};

TEST(Ring, EveryRankSendsAndReceivesItsPart) {
  for (const auto& [nodes, gpus] : shapes) {
    const Setting s({.nodes = nodes, .gpus = gpus});
    const double n = nodes * gpus;
    for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
      const double part = (op == Collective::all_reduce ? 2 : 1) * (n - 1) / n;
      const std::vector<Usage> usage = s.usage(Algorithm::ring, op, first_gpus(nodes * gpus));
      expect_well_formed(s.fabric, usage);
      for (std::uint32_t g = 0; g < nodes * gpus; ++g) {
        const VertexId gpu = s.fabric.vertex_of(GpuId{g});
        if (gpus > 1) {
          EXPECT_NEAR(out_of(s.fabric, usage, gpu, "nvlink"), part, 1e-12) << nodes << "x" << gpus;
          EXPECT_NEAR(into(s.fabric, usage, gpu, "nvlink"), part, 1e-12) << nodes << "x" << gpus;
        }
        if (nodes > 1) {  // a node's edge to the next node is shared evenly by its NICs
          const VertexId nic = s.fabric.nics_of(GpuId{g})[0];
          EXPECT_NEAR(out_of(s.fabric, usage, nic, "nic"), part / gpus, 1e-12) << nodes << "x" << gpus;
          EXPECT_NEAR(into(s.fabric, usage, nic, "nic"), part / gpus, 1e-12) << nodes << "x" << gpus;
        }
      }
    }
  }
}

TEST(Ring, AllReduceIsReduceScatterThenAllGatherOnEveryLink) {
  for (const auto& [nodes, gpus] : shapes) {
    const Setting s({.nodes = nodes, .gpus = gpus});
    const auto group = first_gpus(nodes * gpus);
    const auto whole = wire_by_link(s.usage(Algorithm::ring, Collective::all_reduce, group));
    auto halves = wire_by_link(s.usage(Algorithm::ring, Collective::reduce_scatter, group));
    for (const auto& [link, wire] : wire_by_link(s.usage(Algorithm::ring, Collective::all_gather, group))) {
      halves[link] += wire;
    }
    ASSERT_EQ(whole.size(), halves.size());
    for (const auto& [link, wire] : whole) EXPECT_NEAR(wire, halves[link], 1e-12);
    const double together = 1 / link_rate(s.fabric, s.usage(Algorithm::ring, Collective::reduce_scatter, group)) +
                            1 / link_rate(s.fabric, s.usage(Algorithm::ring, Collective::all_gather, group));
    const double alone = 1 / link_rate(s.fabric, s.usage(Algorithm::ring, Collective::all_reduce, group));
    EXPECT_NEAR(alone / together, 1.0, 1e-12);
  }
}

/// Rail 3's channel leaves and enters node 0 by the seven other NICs: 8/7 of their bytes, so 7/8 of the rate.
TEST(Ring, GoesByTheNeighboursNicsWhereOneIsDown) {
  const Fabric whole = hand_made({});
  const FaultReading dead = resolve(whole, std::vector<FabricFault>{{FabricFault::Kind::nic, "node0/nic3", 0}});
  ASSERT_TRUE(dead.mistakes.empty());
  const Fabric degraded = with_faults(whole, dead.remaining);
  const Transport transport;
  const auto slowest_nic = [&](const Fabric& fabric) {
    const auto router = make_router(Routing::spread, fabric, 1);
    const GroupLayout layout(fabric, first_gpus(16));
    EXPECT_EQ(shape_of(fabric, layout).nic, gigabits_per_second(400));
    double most = 0;
    for (const Usage& use : algorithm(Algorithm::ring)
                                .usage(Collective::all_gather, Protocol::simple, layout, {fabric, *router, transport}))
      if (fabric.tiers()[fabric.link(use.link).tier.index()].name == "nic") most = std::max(most, use.wire);
    return most;
  };
  EXPECT_NEAR(slowest_nic(degraded) / slowest_nic(whole), 8.0 / 7, 1e-9);
  EXPECT_EQ(shape_of(degraded, GroupLayout(degraded, first_gpus(16))).nics_per_node, 7U);
}

TEST(Ring, BroadcastAndReduceAreOneChainOfNMinus1Edges) {
  for (const auto& [nodes, gpus] : shapes) {
    const Setting s({.nodes = nodes, .gpus = gpus});
    const auto group = first_gpus(nodes * gpus);
    const std::vector<Usage> out = s.usage(Algorithm::ring, Collective::broadcast, group);
    const std::vector<Usage> back = s.usage(Algorithm::ring, Collective::reduce, group);
    double network = 0;
    for (std::uint32_t g = 0; g < nodes * gpus; ++g) {
      const VertexId gpu = s.fabric.vertex_of(GpuId{g});
      // Everybody but the root gets the message exactly once: over NVLink, or by its NIC, or part each way.
      const double in_all = into(s.fabric, out, gpu, "nvlink") + into(s.fabric, out, gpu, "pcie");
      EXPECT_NEAR(in_all, g == 0 ? 0.0 : 1.0, 1e-12) << nodes << "x" << gpus;
      EXPECT_NEAR(out_of(s.fabric, back, gpu, "nvlink"), into(s.fabric, out, gpu, "nvlink"), 1e-12);
      EXPECT_NEAR(into(s.fabric, back, gpu, "nvlink"), out_of(s.fabric, out, gpu, "nvlink"), 1e-12);
      EXPECT_LE(out_of(s.fabric, out, gpu, "nvlink"), 1 + 1e-12);
      if (nodes > 1) network += out_of(s.fabric, out, s.fabric.nics_of(GpuId{g})[0], "nic");
    }
    EXPECT_NEAR(network, nodes - 1, 1e-12);  // the message enters every other node once
  }
}

RC_GTEST_PROP(Ring, AnyGroupCarriesItsTraffic, ()) {
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 6);
  const auto gpus = *rc::gen::inRange<std::uint32_t>(2, 7);
  const Setting s({.nodes = nodes, .gpus = gpus});
  std::vector<GpuId> group;
  for (const GpuId gpu : first_gpus(nodes * gpus)) {
    if (*rc::gen::inRange(0, 3) < 2) group.push_back(gpu);
  }
  RC_PRE(group.size() >= 2U);
  const GroupLayout layout(s.fabric, group);
  const double n = static_cast<double>(group.size());
  const std::vector<Usage> usage = s.usage(Algorithm::ring, Collective::all_reduce, group);
  for (const GroupLayout::Node& node : layout.nodes) {
    double network = 0;
    for (const GpuId gpu : node.gpus) {
      network += out_of(s.fabric, usage, s.fabric.nics_of(gpu)[0], "nic");
      const double nvlink = out_of(s.fabric, usage, s.fabric.vertex_of(gpu), "nvlink");
      if (node.gpus.size() > 1) RC_ASSERT(std::abs(nvlink - 2 * (n - 1) / n) < 1e-9);
    }
    RC_ASSERT(std::abs(network - (layout.nodes.size() > 1 ? 2 * (n - 1) / n : 0.0)) < 1e-9);
  }
}

RC_GTEST_PROP(Collectives, UsageDoesNotDependOnWhichNodesAreUsed, (std::uint8_t which)) {
  // Two groups that differ by a symmetry of the fabric must have the same loads to the last bit, or folding splits
  // them.
  const Setting s({.nodes = 6, .gpus = 4});
  const Algorithm how = std::array{Algorithm::ring, Algorithm::tree, Algorithm::nvls_tree}[which % 3U];
  const auto loads = [&](std::size_t first) {
    std::vector<double> all;
    std::vector<GpuId> group;
    for (std::size_t g = 0; g < 12; ++g) group.push_back(id_at<GpuId>(first + g));
    for (const Usage& use : s.usage(how, Collective::all_reduce, group)) all.push_back(use.load);
    std::sort(all.begin(), all.end());
    return all;
  };
  RC_ASSERT(loads(0) == loads(12));
  RC_ASSERT(loads(4) == loads(8));
}

TEST(Pairwise, EveryPairSendsOneNth) {
  const Setting s({.nodes = 3, .gpus = 4});
  const std::vector<Usage> usage = s.usage(Algorithm::pairwise, Collective::all_to_all, first_gpus(12));
  expect_well_formed(s.fabric, usage);
  for (std::uint32_t g = 0; g < 12; ++g) {
    EXPECT_NEAR(out_of(s.fabric, usage, s.fabric.vertex_of(GpuId{g}), "nvlink"), 3.0 / 12, 1e-9);
    EXPECT_NEAR(out_of(s.fabric, usage, s.fabric.nics_of(GpuId{g})[0], "nic"), 8.0 / 12, 1e-9);
  }
}

TEST(Pairwise, ManyPairsAddUpAsFewDo) {
  // 512 ranks have enough pairs that sums are kept by link instead of sorted.
  const Setting s({.nodes = 64, .gpus = 8});
  const std::vector<Usage> usage = s.usage(Algorithm::pairwise, Collective::all_to_all, first_gpus(512));
  expect_well_formed(s.fabric, usage);
  std::vector<double> loads;
  for (std::uint32_t g = 0; g < 512; ++g) {
    EXPECT_NEAR(out_of(s.fabric, usage, s.fabric.vertex_of(GpuId{g}), "nvlink"), 7.0 / 512, 1e-12);
    EXPECT_NEAR(out_of(s.fabric, usage, s.fabric.nics_of(GpuId{g})[0], "nic"), 504.0 / 512, 1e-12);
  }
}

TEST(Nvls, EachGpuSendsTheMessageAndItsOwnPartAgain) {
  const Setting s({.nodes = 1, .gpus = 8});
  const std::vector<Usage> usage = s.usage(Algorithm::nvls, Collective::all_reduce, first_gpus(8));
  EXPECT_EQ(usage.size(), 16U);
  for (const Usage& use : usage) EXPECT_NEAR(use.wire, 1 + 1.0 / 8, 1e-12);
}

TEST(Trees, NicsOfANodeCarryTheSameAndNoNodeMoreThanTwoMessages) {
  for (const std::uint32_t nodes : {2U, 3U, 4U, 5U, 8U, 13U}) {
    const Setting s({.nodes = nodes, .gpus = 4});
    for (const Algorithm how : {Algorithm::tree, Algorithm::nvls_tree}) {
      const std::vector<Usage> usage = s.usage(how, Collective::all_reduce, first_gpus(nodes * 4));
      expect_well_formed(s.fabric, usage);
      double all = 0;
      for (std::uint32_t n = 0; n < nodes; ++n) {
        const double first = out_of(s.fabric, usage, s.fabric.nics_of(GpuId{4 * n})[0], "nic");
        for (std::uint32_t g = 1; g < 4; ++g) {
          EXPECT_NEAR(out_of(s.fabric, usage, s.fabric.nics_of(GpuId{4 * n + g})[0], "nic"), first, 1e-12);
        }
        EXPECT_LE(4 * first, nodes == 2 ? 1 + 1e-12 : 2 + 1e-12);
        all += 4 * first;
      }
      // Two trees of N-1 edges, each carrying half of a message up and half down.
      EXPECT_NEAR(all, 2.0 * (nodes - 1), 1e-12);
    }
  }
}

TEST(Collectives, AGroupOfOneUsesNothing) {
  const Setting s({.nodes = 2, .gpus = 2});
  for (const Collective op : all_collectives) {
    const IdleCall call = idle_call(s.fabric, s.transport, *s.router, op, mebibytes(1), {GpuId{1}}, {});
    EXPECT_EQ(call.time, Duration{});
    EXPECT_TRUE(s.usage(call.choice.algorithm, op, {GpuId{1}}).empty());
  }
}

// -- closed forms, to the picosecond: latency + size / rate

constexpr double us = 1e6;  ///< picoseconds

Duration whole(double ps) { return picoseconds(std::llround(ps)); }

/// Equal but for the rounding of one transfer: the rate is a quotient of doubles.
void expect_time(const IdleCall& call, Duration latency, double size, double message_rate) {
  EXPECT_EQ(call.latency, latency);
  EXPECT_NEAR(static_cast<double>(call.time.ps()), static_cast<double>((latency + fluid_time(size, message_rate)).ps()),
              1);
}

TEST(ClosedForm, RingInANode) {
  const Setting s({.nodes = 1, .gpus = 8});
  const double size = 256.0 * (1 << 20);
  const double ring = 368e9;
  const auto group = first_gpus(8);
  expect_time(s.call(Collective::all_reduce, mebibytes(256), group, Algorithm::ring, Protocol::simple),
              whole(16 * us + 14 * 5 * us), size, ring * 8 / 14);
  expect_time(s.call(Collective::all_gather, mebibytes(256), group, Algorithm::ring, Protocol::simple),
              whole(16 * us + 14 * 5 * us), size, ring * 8 / 7);
  expect_time(s.call(Collective::broadcast, mebibytes(256), group, Algorithm::ring, Protocol::simple),
              whole(16 * us + 7 * 5 * us), size, ring);
  expect_time(s.call(Collective::all_reduce, mebibytes(256), group, Algorithm::ring, Protocol::ll), whole(16 * us),
              size, 80e9);
  expect_time(s.call(Collective::all_reduce, mebibytes(256), group, Algorithm::ring, Protocol::ll128),
              whole(16 * us + 14 * 1.4 * us), size, 190e9);
}

TEST(ClosedForm, NvlsInANode) {
  const Setting s({.nodes = 1, .gpus = 8});
  const auto group = first_gpus(8);
  const double algbw = 450e9 * 0.685 / (1 + 1.0 / 8);
  expect_time(s.call(Collective::all_reduce, mebibytes(256), group, Algorithm::nvls, Protocol::simple),
              whole(16 * us + 10 * us * 8), 256.0 * (1 << 20), algbw);
  // The pipeline fill grows as the root of the size up to 64 MiB.
  expect_time(s.call(Collective::all_reduce, mebibytes(16), group, Algorithm::nvls, Protocol::simple),
              whole(16 * us + 10 * us * 8 * 0.5), 16.0 * (1 << 20), algbw);
}

TEST(ClosedForm, OverFourNodes) {
  const Setting s({.nodes = 4, .gpus = 8});
  const auto group = first_gpus(32);
  const double size = 1 << 30;
  const double nic = 8 * 50e9 * 0.87;
  const double launch = 16 * us;
  expect_time(s.call(Collective::all_reduce, gibibytes(1), group, Algorithm::ring, Protocol::simple),
              whole(launch + 56 * 5 * us + 6 * 35 * us), size, nic * 32 / 62);
  expect_time(s.call(Collective::reduce_scatter, gibibytes(1), group, Algorithm::ring, Protocol::simple),
              whole(launch + 28 * 5 * us + 3 * 35 * us), size, nic * 32 / 31);
  expect_time(s.call(Collective::all_gather, gibibytes(1), group, Algorithm::ring, Protocol::ll),
              whole(launch + 3 * 12 * us + 2 * us * 28), size, 8.5e9);
  expect_time(s.call(Collective::all_gather, gibibytes(1), group, Algorithm::ring, Protocol::ll128),
              whole(launch + 3 * 30 * us + 2 * us * 28), size, 0.88 * nic * 32 / 31);
  expect_time(s.call(Collective::broadcast, gibibytes(1), group, Algorithm::ring, Protocol::simple),
              whole(launch + 28 * 5 * us + 2 * 35 * us), size, nic);
  // Trees: a busy node sends two messages; in the node 2 / (0.92 ringbw).
  const double tree = std::min(0.92 * 368e9 / 2, nic / 2);
  expect_time(s.call(Collective::all_reduce, gibibytes(1), group, Algorithm::tree, Protocol::simple),
              whole(launch + 14 * 5 * us + 4 * 65 * us), size, tree);
  expect_time(s.call(Collective::all_reduce, gibibytes(1), group, Algorithm::tree, Protocol::ll),
              whole(launch + 4 * 12 * us), size, 8.5e9);
  const double nvls = std::min(450e9 * 0.685 * 0.92 / (1 + 1.0 / 8), nic / 2);
  expect_time(s.call(Collective::all_reduce, gibibytes(1), group, Algorithm::nvls_tree, Protocol::simple),
              whole(launch + 4 * 65 * us + 80 * us), size, nvls);
  expect_time(s.call(Collective::all_to_all, gibibytes(1), group, Algorithm::pairwise, Protocol::simple),
              whole(launch + 35 * us), size, std::min(0.8 * 450e9 * 32 / 7, 50e9 * 0.87 * 32 / 24));
}

TEST(ClosedForm, SendRecvTakesOneNvlinkOrOneNic) {
  const Setting s({.nodes = 2, .gpus = 8});
  const double size = 64 << 20;
  // Launch is 1.2 us less for each GPU of a node fewer than 8.
  expect_time(s.call(Collective::send_recv, mebibytes(64), {GpuId{0}, GpuId{5}}, Algorithm::pairwise, Protocol::simple),
              whole((16 - 6 * 1.2) * us), size, 0.8 * 450e9);
  expect_time(s.call(Collective::send_recv, mebibytes(64), {GpuId{1}, GpuId{9}}, Algorithm::pairwise, Protocol::simple),
              whole((16 - 7 * 1.2 + 35) * us), size, 0.87 * 50e9);
}

/// Each GPU sends to the next and receives from the one before: inside a node over NVLink, at its two ends over a NIC.
TEST(ClosedForm, ShiftTakesOneStepOfARing) {
  const Setting s({.nodes = 2, .gpus = 8});
  const double size = 64 << 20;
  expect_time(s.call(Collective::shift, mebibytes(64), first_gpus(8), Algorithm::pairwise, Protocol::simple),
              whole(16 * us), size, 0.8 * 450e9);
  expect_time(s.call(Collective::shift, mebibytes(64), first_gpus(16), Algorithm::pairwise, Protocol::simple),
              whole((16 + 35) * us), size, 0.87 * 50e9);
}

TEST(ClosedForm, TwoNodeTreesReach1875TimesTheNics) {
  // One message leaves each of two nodes: algbw is the NICs' rate and busbw 2(n-1)/n = 1.875 times it, above the NICs.
  const Setting s(
      {.nodes = 2, .gpus = 8, .spines = 4, .nvlink = gigabytes_per_second(450), .nic = gigabits_per_second(100)});
  for (const Algorithm how : {Algorithm::tree, Algorithm::nvls_tree}) {
    const double algbw = link_rate(s.fabric, s.usage(how, Collective::all_reduce, first_gpus(16)));
    EXPECT_NEAR(algbw * busbw_factor(Collective::all_reduce, 16), 1.875 * 8 * 12.5e9 * 0.87, 1);
  }
}

TEST(ClosedForm, SaysWhatLimits) {
  const Setting s({.nodes = 2, .gpus = 8});
  const auto both = first_gpus(16);
  EXPECT_EQ(s.call(Collective::all_reduce, bytes(8), both, Algorithm::ring, Protocol::ll).limit, "latency");
  EXPECT_EQ(s.call(Collective::all_reduce, gibibytes(1), both, Algorithm::ring, Protocol::ll).limit, "protocol");
  EXPECT_EQ(s.call(Collective::all_gather, gibibytes(1), both, Algorithm::ring, Protocol::simple).limit, "nic");
  EXPECT_EQ(s.call(Collective::all_reduce, gibibytes(1), first_gpus(8), Algorithm::nvls, Protocol::simple).limit,
            "nvlink");
}

RC_GTEST_PROP(ClosedForm, MoreBytesTakeLongerWithAGivenChoice, ()) {
  const Setting s({.nodes = 2, .gpus = 4});
  const auto op = *rc::gen::elementOf(std::vector<Collective>(std::begin(all_collectives), std::end(all_collectives)));
  const auto group = op == Collective::send_recv ? std::vector<GpuId>{GpuId{0}, GpuId{5}} : first_gpus(8);
  const Choice choice = choose(op, mebibytes(*rc::gen::inRange(1, 64)), s.shape(group), s.transport, {});
  const auto a = *rc::gen::inRange<std::int64_t>(1, 1 << 30);
  const auto b = *rc::gen::inRange<std::int64_t>(1, 1 << 30);
  const auto time = [&](std::int64_t size) {
    return s.call(op, bytes(size), group, choice.algorithm, choice.protocol).time;
  };
  RC_ASSERT((a <= b) == (time(a) <= time(b)) || time(a) == time(b));
}

// -- speed

TEST(Collectives, ALargeJobExpandsInTime) {
  // 16,384 GPUs: TP groups of 8 (2,048), DP groups of 128 (128), 40,000 send/recv pairs. The bound is loose, for slow
  // machines and unoptimised builds; it is about ten times what a release build needs.
  const Setting s({.nodes = 2048, .gpus = 8});
  const auto begin = std::chrono::steady_clock::now();
  std::size_t entries = 0;
  const auto expand = [&](Collective op, const std::vector<GpuId>& group) {
    const GroupLayout layout(s.fabric, group);
    const GroupShape shape = shape_of(s.fabric, layout);
    const Choice choice = choose(op, mebibytes(64), shape, s.transport, {});
    entries += algorithm(choice.algorithm).usage(op, choice.protocol, layout, s.context()).size();
  };
  for (std::size_t i = 0; i < 2048; ++i) expand(Collective::all_gather, strided_gpus(8 * i, 1, 8));
  for (std::size_t i = 0; i < 128; ++i) expand(Collective::reduce_scatter, strided_gpus(i, 128, 128));
  for (std::size_t i = 0; i < 40000; ++i)
    expand(Collective::send_recv, {id_at<GpuId>(i % 16384), id_at<GpuId>((i + 1024) % 16384)});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds", static_cast<int>(1000 * took.count()));
  EXPECT_GT(entries, 40000U);
  EXPECT_LT(took.count(), 20.0);
}

}  // namespace
}  // namespace foretrain
