// Do the algorithms beyond NCCL's everyday ones move exactly the bytes that their papers say?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "sim/simulate.h"
#include "tests/sim/hand_made_fabric.h"
#include "tests/sim/usage_reading.h"
#include "topology/builders/builders.h"

namespace foretrain {
namespace {

constexpr double eps = 1e-12;
constexpr Collective halves[] = {Collective::all_gather, Collective::reduce_scatter};
const Algorithm ring_like[] = {Algorithm::halving_doubling, Algorithm::hierarchical};

Ground nodes_of(std::uint32_t nodes, std::uint32_t gpus, const Transport& transport = perfect_transport()) {
  return {hand_made({.nodes = nodes, .gpus = gpus}), transport};
}

std::map<std::uint32_t, double> by_link(const std::vector<Usage>& usage) {
  std::map<std::uint32_t, double> wire;
  for (const Usage& use : usage) wire[use.link.value] += use.wire;
  return wire;
}

/// All-reduce puts on every link what reduce-scatter and all-gather put there together.
void expect_sum_of_halves(const Ground& s, Algorithm how, const std::vector<GpuId>& group) {
  const auto whole = by_link(s.usage(how, Collective::all_reduce, group));
  auto both = by_link(s.usage(how, Collective::all_gather, group));
  for (const auto& [link, wire] : by_link(s.usage(how, Collective::reduce_scatter, group))) both[link] += wire;
  ASSERT_EQ(whole.size(), both.size());
  for (const auto& [link, wire] : whole) EXPECT_NEAR(wire, both[link], eps);
}

// -- gather, scatter, barrier

TEST(Gather, TheRootGetsAllButItsOwnPartAndScatterIsTheReverse) {
  const Ground s = nodes_of(3, 4);
  const auto group = first_gpus(12);
  const auto in = s.usage(Algorithm::pairwise, Collective::gather, group);
  const auto out = s.usage(Algorithm::pairwise, Collective::scatter, group);
  EXPECT_NEAR(s.into(in, GpuId{0}), 11.0 / 12, eps);
  EXPECT_NEAR(s.out_of(out, GpuId{0}), 11.0 / 12, eps);
  EXPECT_EQ(s.out_of(in, GpuId{0}), 0);
  for (std::uint32_t g = 1; g < 12; ++g) {
    EXPECT_NEAR(s.out_of(in, GpuId{g}), 1.0 / 12, eps);
    EXPECT_NEAR(s.into(out, GpuId{g}), 1.0 / 12, eps);
  }
  for (const Collective op : {Collective::gather, Collective::scatter}) {
    EXPECT_DOUBLE_EQ(busbw_factor(op, 12), 11.0 / 12);  // nccl-tests, gather.cu and scatter.cu
    const Choice pairwise{Algorithm::pairwise, Protocol::simple};
    EXPECT_EQ(choose(op, mebibytes(1), s.shape(group), s.transport, {Algorithm::ring, {}}), pairwise);
  }
}

TEST(Barrier, TakesAsLongAsAnAllReduceOfNothing) {
  for (const std::uint32_t nodes : {1U, 2U, 16U}) {
    const Ground s = nodes_of(nodes, 8, {});
    const auto group = first_gpus(std::size_t{8} * nodes);
    const auto time = [&](Collective op, Bytes size) {
      return idle_call(s.fabric, s.transport, *s.router, op, size, group, {}).time;
    };
    EXPECT_GT(time(Collective::barrier, Bytes{}), Duration{});
    EXPECT_EQ(time(Collective::barrier, Bytes{}), time(Collective::all_reduce, Bytes{}));
    EXPECT_EQ(time(Collective::barrier, gibibytes(1)), time(Collective::all_reduce, Bytes{}));
  }
}

TEST(Barrier, IsPlayedWithoutBytes) {
  const Fabric fabric = hand_made({.nodes = 2, .gpus = 1});
  ProgramBuilder b;
  b.communicate(b.stream("dp"), {.label = "barrier", .op = Collective::barrier, .size = mebibytes(1)});
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{"dp", false}};
  job.programs = {std::move(b).build()};
  job.communicators = {{.members = {RankId{0}, RankId{1}}}};
  job.ranks = {{0, {CommunicatorId{0}}}, {0, {CommunicatorId{0}}}};
  job.placement = {GpuId{0}, GpuId{1}};
  const Measured m = simulate(fabric, {}, job, {});
  const auto router = make_router(Routing::spread, fabric, 1);
  EXPECT_EQ(m.step, idle_call(fabric, {}, *router, Collective::all_reduce, Bytes{}, {GpuId{0}, GpuId{1}}, {}).time);
  for (const LinkUse& use : m.links) EXPECT_EQ(use.bytes, 0);
}

// -- in the network's switches

TEST(InNetwork, EveryNodeSendsTheMessageOnceHoweverManyThereAre) {
  for (const std::uint32_t nodes : {2U, 3U, 4U, 9U}) {
    const Ground s = nodes_of(nodes, 4);
    for (const Algorithm how : {Algorithm::collnet, Algorithm::nvls_sharp}) {
      const auto usage = s.usage(how, Collective::all_reduce, first_gpus(std::size_t{4} * nodes));
      for (std::uint32_t g = 0; g < 4 * nodes; ++g) {
        const VertexId nic = s.fabric.nics_of(GpuId{g})[0];
        EXPECT_NEAR(s.out_of(usage, nic, "nic"), 1.0 / 4, eps);
        EXPECT_NEAR(s.into(usage, nic, "nic"), 1.0 / 4, eps);
        const double in_node = how == Algorithm::collnet ? 2 * 3.0 / 4 : 1 + 1.0 / 4;
        EXPECT_NEAR(s.out_of(usage, GpuId{g}, "nvlink"), in_node, eps);
        EXPECT_NEAR(s.into(usage, GpuId{g}, "nvlink"), in_node, eps);
      }
      EXPECT_NEAR(s.rate(usage), std::min(4 * 50e9, 450e9 / (how == Algorithm::collnet ? 1.5 : 1.25)), 1);
    }
  }
}

TEST(InNetwork, ALeafSendsOneCopyUpForAllBelowIt) {
  // 8 nodes of 2 GPUs, two nodes a leaf of a two-tier fat-tree.
  for (const Routing routing : {Routing::spread, Routing::ecmp}) {
    const Ground s(build_fat_tree({.node = {.gpus = 2, .nics = 2}, .cable = {}, .gpus = 16, .tiers = 2, .radix = 8}),
                   perfect_transport(), routing);
    const auto usage = s.usage(Algorithm::collnet, Collective::all_reduce, first_gpus(16));
    std::size_t leaves = 0;
    for (std::uint32_t v = 0; v < s.fabric.vertex_count(); ++v) {
      if (s.fabric.vertex(VertexId{v}).kind != VertexKind::leaf) continue;
      ++leaves;
      EXPECT_NEAR(s.into(usage, VertexId{v}, "nic"), 2, eps);  // from each of its two nodes
      // The leaf of the tree's root takes in the others': with a spine a copy when routes differ, else one.
      EXPECT_GE(s.out_of(usage, VertexId{v}, "leaf-spine"), 1 - eps);
      if (routing == Routing::spread) {
        EXPECT_NEAR(s.out_of(usage, VertexId{v}, "leaf-spine"), 1, eps);
        EXPECT_NEAR(s.into(usage, VertexId{v}, "leaf-spine"), 1, eps);
      }
    }
    EXPECT_EQ(leaves, 4U);
  }
}

TEST(InNetwork, OnlyWhereTheNetworkReduces) {
  Ground s = nodes_of(4, 8, {});
  const auto group = first_gpus(32);
  for (const Algorithm how : {Algorithm::collnet, Algorithm::nvls_sharp}) {
    EXPECT_FALSE(s.supports(how, Collective::all_reduce, group));
    EXPECT_THROW((void)choose(Collective::all_reduce, mebibytes(64), s.shape(group), s.transport, {how, {}}),
                 std::invalid_argument);
  }
  s.transport.network.in_network_reduction = true;
  // Hopper: NCCL prefers NVLS, which then reduces in the network too, to the tree.
  EXPECT_EQ(choose(Collective::all_reduce, gibibytes(1), s.shape(group), s.transport, {}).algorithm,
            Algorithm::nvls_sharp);
  s.transport.node.generation = GpuGeneration::ampere;
  EXPECT_EQ(choose(Collective::all_reduce, mebibytes(4), s.shape(group), s.transport, {}).algorithm,
            Algorithm::collnet);
}

// -- PAT

TEST(Pat, LogarithmicStepsMoveAllButTheOwnPart) {
  for (std::uint32_t n = 2; n <= 17; ++n) {
    const Ground s = nodes_of(n, 1);
    const auto group = first_gpus(n);
    for (const Collective op : halves) {
      const auto usage = s.usage(Algorithm::pat, op, group);
      for (const GpuId gpu : group) {
        EXPECT_NEAR(s.out_of(usage, gpu), (n - 1.0) / n, eps) << n;
        EXPECT_NEAR(s.into(usage, gpu), (n - 1.0) / n, eps) << n;
      }
    }
  }
}

TEST(Pat, EveryStepLoadsTheMiddleAlike) {
  // 16 nodes in a row, a switch each: what crosses the middle from left to right.
  FabricBuilder b;
  const TierId nic_tier = b.tier("nic");
  const TierId row = b.tier("row");
  std::vector<VertexId> leaves;
  for (std::uint32_t n = 0; n < 16; ++n) {
    const NodeId node = b.node();
    const VertexId gpu = b.add(VertexKind::gpu, node);
    const VertexId nic = b.add(VertexKind::nic, node);
    leaves.push_back(b.add(VertexKind::leaf));
    b.connect(gpu, nic, gigabytes_per_second(64), nanoseconds(500), nic_tier);
    b.connect(nic, leaves.back(), gigabytes_per_second(50), nanoseconds(500), nic_tier);
    if (n > 0) b.connect(leaves[n - 1], leaves[n], gigabytes_per_second(50), nanoseconds(500), row);
  }
  const Ground s(std::move(b).build(), perfect_transport());
  const auto usage = s.usage(Algorithm::pat, Collective::all_gather, first_gpus(16));
  double middle = 0;
  for (const Usage& use : usage) {
    const Link& link = s.fabric.link(use.link);
    if (link.from == leaves[7] && link.to == leaves[8]) middle += use.wire;
  }
  // At distance d: d senders cross, with 16 / (2 d) chunks of 1/16 each. Four distances: 4 x 1/2.
  EXPECT_NEAR(middle, 4 * 0.5, eps);
}

TEST(Pat, IsNcclsChoiceForMiddleSizesOfOneGpuANode) {
  const Ground s = nodes_of(128, 8, {});
  const auto rail = strided_gpus(0, 8, 128);
  for (const Collective op : halves) {
    EXPECT_EQ(choose(op, mebibytes(8), s.shape(rail), s.transport, {}).algorithm, Algorithm::pat);
    EXPECT_EQ(choose(op, gibibytes(4), s.shape(rail), s.transport, {}).algorithm, Algorithm::ring);
    EXPECT_FALSE(s.supports(Algorithm::pat, op, first_gpus(16)));
  }
  EXPECT_FALSE(s.supports(Algorithm::pat, Collective::all_reduce, rail));
}

TEST(NcclModel, EstimatesOfPatAndCollNet) {
  // One 400 Gb/s NIC a node: 48 GB/s as one channel, split in two. 128 nodes: 7 steps of 14 us, one in 3.5 in sight.
  const Ground s = nodes_of(128, 8, perfect_transport());
  const auto pat = nccl_estimate(Collective::all_gather, {Algorithm::pat, Protocol::simple}, mebibytes(64),
                                 s.shape(strided_gpus(0, 8, 128)), s.transport);
  ASSERT_TRUE(pat);
  EXPECT_NEAR(pat->seconds() * 1e6, 8 + 7 * 14 / 3.5 + 2.8 * 128 + (64 << 20) / (1000 * 0.75 * 48), 1e-6);
  const auto collnet = nccl_estimate(Collective::all_reduce, {Algorithm::collnet, Protocol::simple}, mebibytes(64),
                                     s.shape(first_gpus(1024)), s.transport);
  ASSERT_TRUE(collnet);
  // 8 channels at 45 GB/s, the fastest listed speed of which the NVLinks carry 8; 85 % on Hopper; half for all-reduce.
  EXPECT_NEAR(collnet->seconds() * 1e6, 2 * (3.7 + 0.4 * 7) + 31 + (64 << 20) / (1000 * 8 * 45 * 0.85 / 2), 1e-6);
}

// -- halving and doubling, hierarchical

TEST(HalvingDoubling, PowersOfTwoMoveWhatARingMoves) {
  for (const auto& [nodes, gpus] : {std::pair{1U, 8U}, {2U, 1U}, {4U, 8U}, {16U, 2U}, {8U, 1U}}) {
    const Ground s = nodes_of(nodes, gpus);
    const double n = nodes * gpus;
    const auto group = first_gpus(nodes * gpus);
    const auto usage = s.usage(Algorithm::halving_doubling, Collective::all_reduce, group);
    for (const GpuId gpu : group) {
      EXPECT_NEAR(s.out_of(usage, gpu), 2 * (n - 1) / n, eps);
      EXPECT_NEAR(s.into(usage, gpu), 2 * (n - 1) / n, eps);
      // Big pieces go near: a node sends 2(N-1)/N of the message, as the hierarchical ring does.
      if (nodes > 1) {
        EXPECT_NEAR(s.out_of(usage, s.fabric.nics_of(gpu)[0], "nic"), 2 * (nodes - 1.0) / nodes / gpus, eps);
      }
    }
    expect_sum_of_halves(s, Algorithm::halving_doubling, group);
  }
}

TEST(HalvingDoubling, OtherNumbersFoldTheRestIn) {
  for (std::uint32_t n = 3; n <= 33; ++n) {
    if (std::has_single_bit(n)) continue;
    const Ground s = nodes_of(n, 1);
    const double p = std::bit_floor(n);
    const std::uint32_t folded = n - std::bit_floor(n);
    const auto usage = s.usage(Algorithm::halving_doubling, Collective::all_reduce, first_gpus(n));
    for (std::uint32_t i = 0; i < n; ++i) {
      const bool extra = i < 2 * folded && i % 2 == 1;
      const bool plays_for_two = i < 2 * folded && !extra;
      const double wire = extra ? 1 : 2 * (p - 1) / p + (plays_for_two ? 1 : 0);
      EXPECT_NEAR(s.out_of(usage, GpuId{i}), wire, eps) << n;
      EXPECT_NEAR(s.into(usage, GpuId{i}), wire, eps) << n;
    }
    // Everybody gets every chunk but its own once; whoever plays for two passes on what the other needs.
    const auto gathered = s.usage(Algorithm::halving_doubling, Collective::all_gather, first_gpus(n));
    const auto scattered = s.usage(Algorithm::halving_doubling, Collective::reduce_scatter, first_gpus(n));
    for (std::uint32_t i = 0; i < n; ++i) {
      EXPECT_NEAR(s.into(gathered, GpuId{i}), (n - 1.0) / n, eps) << n;
      EXPECT_NEAR(s.out_of(scattered, GpuId{i}), (n - 1.0) / n, eps) << n;
    }
  }
}

TEST(Hierarchical, IsATwoDimensionalRing) {
  for (const auto& [nodes, gpus] : {std::pair{1U, 8U}, {2U, 4U}, {3U, 5U}, {7U, 1U}, {4U, 8U}}) {
    const Ground s = nodes_of(nodes, gpus);
    const auto group = first_gpus(nodes * gpus);
    const auto usage = s.usage(Algorithm::hierarchical, Collective::all_reduce, group);
    const double g = gpus;
    for (const GpuId gpu : group) {
      EXPECT_NEAR(s.out_of(usage, gpu, "nvlink"), 2 * (g - 1) / g, eps);
      EXPECT_NEAR(s.out_of(usage, s.fabric.nics_of(gpu)[0], "nic"), 2 * (nodes - 1.0) / nodes / g, eps);
      EXPECT_NEAR(s.into(usage, s.fabric.nics_of(gpu)[0], "nic"), 2 * (nodes - 1.0) / nodes / g, eps);
    }
    EXPECT_EQ(s.on_tier(usage, "leaf-spine"), 0);  // channels keep to their rail
    expect_sum_of_halves(s, Algorithm::hierarchical, group);
    // Time of the phases side by side: the slower of NVLink and NIC.
    const double nvlink = gpus > 1 ? 2 * (g - 1) / g / 450e9 : 0;
    const double nic = 2 * (nodes - 1.0) / nodes / g / 50e9;
    EXPECT_NEAR(s.rate(usage) * std::max(nvlink, nic), 1, eps);
  }
}

RC_GTEST_PROP(RingLike, GroupsOfAnyShapeWork, ()) {
  // Parts of nodes, unequal nodes, no power of two: every rank's data reaches all, and no node sends less than it must.
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 6);
  const auto gpus = *rc::gen::inRange<std::uint32_t>(1, 6);
  const Ground s = nodes_of(nodes, gpus);
  std::vector<GpuId> group;
  for (const GpuId gpu : first_gpus(nodes * gpus)) {
    if (*rc::gen::inRange(0, 3) < 2) group.push_back(gpu);
  }
  RC_PRE(group.size() >= 2U);
  const GroupLayout layout(s.fabric, group);
  const double n = static_cast<double>(group.size());
  for (const Algorithm how : ring_like) {
    for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
      const auto usage = s.usage(how, op, group);
      for (const GroupLayout::Node& node : layout.nodes) {
        double in = 0;
        double out = 0;
        for (const GpuId gpu : node.gpus) {
          in += s.into(usage, s.fabric.nics_of(gpu)[0], "nic");
          out += s.out_of(usage, s.fabric.nics_of(gpu)[0], "nic");
          // A rank takes in what it lacks: for a gather all but its own block.
          if (op == Collective::all_gather) RC_ASSERT(s.into(usage, gpu) >= (n - 1) / n - 1e-9);
          if (op == Collective::reduce_scatter) RC_ASSERT(s.out_of(usage, gpu) >= (n - 1) / n - 1e-9);
        }
        const double g = static_cast<double>(node.gpus.size());
        const bool across = layout.nodes.size() > 1;
        if (op == Collective::all_gather && across) RC_ASSERT(in >= (n - g) / n - 1e-9);
        if (op == Collective::reduce_scatter && across) RC_ASSERT(out >= (n - g) / n - 1e-9);
        if (op == Collective::all_reduce && across) RC_ASSERT(in >= 1 - 1e-9 && out >= 1 - 1e-9);
      }
    }
  }
}

TEST(RingLike, RunOnlyWhenForced) {
  const Ground s = nodes_of(4, 8, {});
  const GroupShape shape = s.shape(first_gpus(32));
  for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    for (const Bytes size : {bytes(8), mebibytes(1), gibibytes(4)}) {
      const Algorithm free = choose(op, size, shape, s.transport, {}).algorithm;
      for (const Algorithm how : ring_like) {
        EXPECT_NE(free, how);
        EXPECT_EQ(choose(op, size, shape, s.transport, {how, {}}).algorithm, how);
      }
    }
  }
}

TEST(HalvingDoubling, LatencyIsLogarithmic) {
  // 64 nodes of 8: 3 steps in the node and 6 between, twice; a launch before. Constants: Transport's defaults.
  const Ground s = nodes_of(64, 8, {});
  const GroupShape shape = s.shape(first_gpus(512));
  const auto latency = [&](Algorithm how) {
    return algorithm(how).latency(Collective::all_reduce, Protocol::simple, mebibytes(1), shape, s.transport);
  };
  EXPECT_EQ(latency(Algorithm::halving_doubling), microseconds(16 + 2 * (3 * 5 + 6 * 35)));
  EXPECT_EQ(latency(Algorithm::hierarchical), microseconds(16 + 2 * (7 * 5 + 63 * 35)));
}

// -- two-hop all-to-all

TEST(TwoHop, KeepsToItsRailAndForwardsOverNvlink) {
  for (const auto& [nodes, gpus] : {std::pair{1U, 8U}, {2U, 4U}, {3U, 5U}, {4U, 1U}}) {
    const Ground s = nodes_of(nodes, gpus);
    const double n = nodes * gpus;
    const auto group = first_gpus(nodes * gpus);
    const auto usage = s.usage(Algorithm::two_hop, Collective::all_to_all, group);
    for (const GpuId gpu : group) {
      EXPECT_NEAR(s.out_of(usage, s.fabric.nics_of(gpu)[0], "nic"), (n - gpus) / n, eps);
      EXPECT_NEAR(s.into(usage, s.fabric.nics_of(gpu)[0], "nic"), (n - gpus) / n, eps);
      EXPECT_NEAR(s.out_of(usage, gpu, "nvlink"), (gpus - 1.0) / gpus, eps);
    }
    EXPECT_EQ(s.on_tier(usage, "leaf-spine"), 0);
    if (nodes > 1 && gpus > 1) {
      EXPECT_GT(s.on_tier(s.usage(Algorithm::pairwise, Collective::all_to_all, group), "leaf-spine"), 0);
    }
  }
}

TEST(TwoHop, UnequalNodesExchangeWhatTheyMust) {
  const Ground s = nodes_of(3, 4);
  const std::vector<GpuId> group{GpuId{0}, GpuId{1}, GpuId{2}, GpuId{4}, GpuId{9}, GpuId{10}};
  const auto usage = s.usage(Algorithm::two_hop, Collective::all_to_all, group);
  for (const GroupLayout::Node& node : GroupLayout(s.fabric, group).nodes) {
    double in = 0;
    double out = 0;
    for (const GpuId gpu : node.gpus) {
      in += s.into(usage, s.fabric.nics_of(gpu)[0], "nic");
      out += s.out_of(usage, s.fabric.nics_of(gpu)[0], "nic");
    }
    const double g = static_cast<double>(node.gpus.size());
    EXPECT_NEAR(in, g * (6 - g) / 6, eps);
    EXPECT_NEAR(out, g * (6 - g) / 6, eps);
  }
}

TEST(TwoHop, IsAnAllToAllsChoiceWhenForcedAndNobodyElses) {
  const Ground s = nodes_of(2, 8, {});
  const GroupShape shape = s.shape(first_gpus(16));
  const Forced forced{Algorithm::two_hop, {}};
  EXPECT_EQ(choose(Collective::all_to_all, mebibytes(1), shape, s.transport, forced).algorithm, Algorithm::two_hop);
  EXPECT_EQ(choose(Collective::all_to_all, mebibytes(1), shape, s.transport, {}).algorithm, Algorithm::pairwise);
  EXPECT_EQ(choose(Collective::all_reduce, mebibytes(1), shape, s.transport, forced),
            choose(Collective::all_reduce, mebibytes(1), shape, s.transport, {}));
}

}  // namespace
}  // namespace foretrain
