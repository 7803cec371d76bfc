// Does `flows`, every call as its single chunk sends, say what `fluid` says? The same bytes on every link, the same
// latency, the same time where bandwidth binds; and where it cannot be the same, how far apart at most, on both sides.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "sim/collectives/torus_box.h"
#include "tests/sim/flows_support.h"

namespace foretrain {
namespace {

// ---- the graphs -------------------------------------------------------------------------------------------------

TEST(SendGraph, StretchesTheLongestChainToTheTotalExactly) {
  SendGraph graph;
  std::vector<std::uint32_t> last;
  for (const std::int64_t ps : {3, 7, 11}) {
    last = {graph.add({.wire = 1, .latency = picoseconds(ps)}, last)};
  }
  graph.add({.wire = 1, .latency = picoseconds(5)});
  graph.stretch_latencies(picoseconds(1'000'003));
  EXPECT_EQ(longest_chain(graph).latency, picoseconds(1'000'003));
  EXPECT_NEAR(static_cast<double>(graph[3].latency.ps()), 1'000'003 * 5.0 / 21, 1);
}

TEST(SendGraph, PiecesAreAtMostAsManyAsAskedAndNotTiny) {
  EXPECT_EQ(pieces_of(1, 64), 1U);
  EXPECT_EQ(pieces_of(32 * 1024 * 5, 64), 5U);
  EXPECT_EQ(pieces_of(1e12, 64), 64U);
}

TEST(Sends, AnAlgorithmWithoutThemSaysSo) {
  class Bare final : public CollectiveAlgorithm {
   public:
    [[nodiscard]] Algorithm id() const override { return Algorithm::ring; }
    [[nodiscard]] bool supports(Collective, Protocol, const GroupShape&, const Transport&) const override {
      return false;
    }
    [[nodiscard]] Duration latency(Collective, Protocol, Bytes, const GroupShape&, const Transport&) const override {
      return {};
    }
    [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                                 const Transport&) const override {
      return {};
    }
    [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout&,
                                           const CollectiveContext&) const override {
      return {};
    }
  };
  const Fabric fabric = hand_made({});
  const auto router = make_router(Routing::spread, fabric, 1);
  const Transport transport = sharp();
  try {
    static_cast<void>(Bare().sends(Collective::all_reduce, Protocol::simple, bytes(1),
                                   GroupLayout(fabric, first_gpus(2)), {fabric, *router, transport}));
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("ring"), std::string::npos);
  }
}

/// So what the tests below say of all ways, they say of all algorithms.
TEST(Sends, OfEveryAlgorithmAreAmongTheWays) {
  std::set<Algorithm> seen;
  for (const Setting& s : every_builder())
    for (const Group& group : {first_gpus(8), first_gpus(64), strided_gpus(3, 8, 9)})
      for (const Way& way : ways_of(s.fabric, group)) seen.insert(way.algorithm);
  EXPECT_EQ(seen.size(), algorithms().size());
}

/// Nothing is sent on before it is there: sends of the longest chain, 8 nodes of 8 GPUs (PAT: the first of each).
TEST(Sends, WaitForWhatTheySendOn) {
  const Setting nodes{"nodes", hand_made({.nodes = 8}), Routing::spread};
  const Setting torus{"torus", build_torus({.shape = {4, 4, 8}}), Routing::dimension_order};
  const auto sends = [](const Setting& s, Collective op, Algorithm how, const Group& group) {
    return longest_chain(graph_of(s, {op, how, Protocol::simple}, mebibytes(64), group, 4)).sends;
  };
  const Group all = first_gpus(64);
  for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    const std::size_t passes = op == Collective::all_reduce ? 2 : 1;
    EXPECT_EQ(sends(nodes, op, Algorithm::halving_doubling, all), passes * 6);
    // Handed in and out, and 32 players.
    EXPECT_EQ(sends(nodes, op, Algorithm::halving_doubling, first_gpus(63)), passes * 5 + 2);
    EXPECT_EQ(sends(nodes, op, Algorithm::hierarchical, all), passes * (7 + 7 + 1));  // the one joins a block
    EXPECT_EQ(sends(torus, op, Algorithm::torus_ring, first_gpus(128)), passes * (3 + 3 + 7));
    if (passes == 1) {
      EXPECT_EQ(sends(nodes, op, Algorithm::pat, strided_gpus(0, 8, 8)), 3U);
    }
  }
  EXPECT_EQ(sends(nodes, Collective::all_to_all, Algorithm::two_hop, all), 2U);
  // Reduced in the node, up, down, copied in the node.
  EXPECT_EQ(sends(nodes, Collective::all_reduce, Algorithm::collnet, all), 4U);
  EXPECT_EQ(sends(nodes, Collective::all_reduce, Algorithm::nvls_sharp, all), 4U);
  EXPECT_EQ(sends(nodes, Collective::gather, Algorithm::pairwise, all), 1U);
  EXPECT_EQ(sends(nodes, Collective::scatter, Algorithm::pairwise, all), 1U);
}

/// Launch and the longest chain of latencies are the closed form's latency, to the picosecond; and one byte takes that
/// in both fidelities, but for the picoseconds that a byte takes.
TEST(Sends, LatencyIsTheClosedForms) {
  for (const Setting& s : every_builder())
    for (const Group& group : {first_gpus(2), first_gpus(8), first_gpus(13), first_gpus(64), strided_gpus(3, 8, 9)}) {
      const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
      for (const Way& way : ways_of(s.fabric, group)) {
        SCOPED_TRACE(s.name + ", " + std::to_string(group.size()) + ", " + way.name());
        const SendGraph graph = graph_of(s, way, mebibytes(1), group);
        EXPECT_EQ(graph.launch + longest_chain(graph).latency,
                  algorithm(way.algorithm).latency(way.op, way.protocol, mebibytes(1), shape, sharp()));
        const Both one = play(s, {{way.op, group, bytes(1)}}, {way.algorithm, way.protocol});
        EXPECT_NEAR(one.ratio(), 1, 1e-3);
      }
    }
}

/// Groups of odd make, too: part of a node, uneven nodes, one GPU a node, scattered order.
TEST(Sends, PutTheSameBytesOnEveryLinkAsTheUsageVector) {
  const std::vector<Setting> settings = every_builder();
  std::vector<Group> groups = {first_gpus(3), first_gpus(8), first_gpus(13), strided_gpus(3, 8, 9), first_gpus(32)};
  groups.push_back({GpuId{17}, GpuId{1}, GpuId{16}, GpuId{0}, GpuId{40}, GpuId{2}});
  for (const Setting& s : settings)
    for (const Group& group : groups)
      for (const Way& way : ways_of(s.fabric, group)) {
        SCOPED_TRACE(s.name + ", " + std::to_string(group.size()) + ", " + way.name());
        const Both both = play(s, {{way.op, group, mebibytes(7)}}, {way.algorithm, way.protocol}, 5);
        for (std::size_t l = 0; l < both.fluid.links.size(); ++l)
          ASSERT_NEAR(both.flows.links[l].bytes, both.fluid.links[l].bytes, 1e-12 * both.fluid.links[l].bytes)
              << s.fabric.name(id_at<LinkId>(l));
      }
}

// ---- stretched ----------------------------------------------------------------------------------------------------

/// Latency, protocol and links alike take so many times as long, in both fidelities; links carry the same bytes, and
/// below 1 no call loads one with more than it can carry.
TEST(Stretched, CallsTakeThatMuchLongerOverTheSameBytes) {
  const auto builders = every_builder();
  for (const Setting* s : {&builders[0], &builders[6], &builders[7]})
    for (const Group& group : {first_gpus(8), first_gpus(16)})
      for (const Way& way : ways_of(s->fabric, group)) {
        SCOPED_TRACE(s->name + ", " + std::to_string(group.size()) + ", " + way.name());
        Job job = job_of({{way.op, group, mebibytes(16)}});
        const auto play_at = [&](double times) {
          job.communicators[0].time_factor = times;
          return play(*s, job, {way.algorithm, way.protocol}, 4);
        };
        const Both usual = play_at(1), longer = play_at(2.5), shorter = play_at(0.25);
        EXPECT_NEAR(longer.fluid.step / usual.fluid.step, 2.5, 1e-6);
        EXPECT_NEAR(longer.flows.step / usual.flows.step, 2.5, 1e-6);
        EXPECT_LE(shorter.fluid.step, usual.fluid.step);
        for (std::size_t l = 0; l < usual.fluid.links.size(); ++l) {
          const double bytes = usual.fluid.links[l].bytes;
          const auto line = static_cast<double>(s->fabric.link(id_at<LinkId>(l)).bandwidth.bytes_per_s());
          for (const Both* other : {&longer, &shorter}) {
            ASSERT_NEAR(other->fluid.links[l].bytes, bytes, 1e-12 * bytes);
            ASSERT_NEAR(other->flows.links[l].bytes, bytes, 1e-12 * bytes);
          }
          ASSERT_LE(bytes, line * shorter.fluid.step.seconds() * (1 + 1e-9));
          ASSERT_LE(bytes, line * shorter.flows.step.seconds() * (1 + 1e-9));
        }
      }
}

/// A gather of S over N nodes puts S (N-1)/N on every NIC that it uses, all channels together on one where it has one.
TEST(Channels, OneTakesAllOverOneNicOfANode) {
  const Setting s{"nodes", hand_made({.nodes = 4}), Routing::spread};
  const Bytes size = gibibytes(1);
  Job job = job_of({{Collective::all_gather, first_gpus(32), size}});
  const auto busiest = [&](const Measured& m) {
    double most = 0;
    for (std::size_t l = 0; l < m.links.size(); ++l)
      if (s.fabric.tiers()[s.fabric.link(id_at<LinkId>(l)).tier.index()].name == "nic")
        most = std::max(most, m.links[l].bytes);
    return most;
  };
  const auto play_with = [&](std::uint32_t channels) {
    job.communicators[0].channels = channels;
    return play(s, job, {Algorithm::ring, Protocol::simple}, 4);
  };
  const double all = static_cast<double>(size.count()) * 31 / 32;  // a ring: (n-1)/n of the message between any two
  for (const std::uint32_t channels : {1U, 2U, 4U, 8U}) {
    const Both both = play_with(channels);
    EXPECT_NEAR(busiest(both.fluid), all / channels, 1e-9 * all) << channels;
    EXPECT_NEAR(busiest(both.flows), all / channels, 1e-9 * all) << channels;
  }
  EXPECT_EQ(play_with(0).fluid.step, play_with(8).fluid.step);
  EXPECT_EQ(play_with(64).fluid.step, play_with(8).fluid.step);
}

// ---- where bandwidth binds ----------------------------------------------------------------------------------------

/// Rings, NVLS and pairs: nothing is lost between the steps, so they agree within 0.1 %. Channels that share a NIC use
/// it while the latency of others passes: then that is all that can be gained.
TEST(Flows, AgreeWithFluidOnEveryBuilder) {
  for (const Setting& s : every_builder())
    for (const std::size_t n : {8, 32, 128}) {
      const Group group = first_gpus(n);
      for (const Way& way : ways_of(s.fabric, group)) {
        if (way.piped() || way.phased()) continue;
        SCOPED_TRACE(s.name + ", " + std::to_string(n) + ", " + way.name());
        const Both both = play(s, {{way.op, group, gibibytes(2)}}, {way.algorithm, way.protocol});
        EXPECT_LE(both.ratio(), 1.001);
        const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
        const double latency =
            algorithm(way.algorithm).latency(way.op, way.protocol, gibibytes(2), shape, sharp()).seconds();
        const double hidden = s.shared_nics && shape.nodes > 1 ? latency : 0;
        EXPECT_GE(both.flows.step.seconds(), 0.999 * (both.fluid.step.seconds() - hidden));
      }
    }
}

/// A message that goes through a tree or chain in P pieces comes out when its last piece does: h - 1 hops after the
/// first hop has passed all, h the sends of the longest chain. At worst a hop takes a P-th of the whole transfer. From
/// below, the busiest link has to carry everything after the launch: latency of later pieces is hidden.
TEST(Flows, OfTreesAndChainsAreLaterByTheFillOfThePipeline) {
  const Bytes size = gibibytes(8);
  constexpr std::uint32_t pieces = 16;
  for (const Setting& s : every_builder())
    for (const std::size_t n : {8, 16, 64}) {
      const Group group = first_gpus(n);
      const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
      for (const Way& way : ways_of(s.fabric, group)) {
        if (!way.piped() || way.protocol != Protocol::simple) continue;
        SCOPED_TRACE(s.name + ", " + std::to_string(n) + ", " + way.name());
        const Both both = play(s, {{way.op, group, size}}, {way.algorithm, way.protocol}, pieces);
        const SendGraph graph = graph_of(s, way, size, group, pieces);
        const double latency = algorithm(way.algorithm).latency(way.op, way.protocol, size, shape, sharp()).seconds();
        const double transfer = both.fluid.step.seconds() - latency;
        const double fill = static_cast<double>(longest_chain(graph).sends - 1) / pieces * transfer;
        EXPECT_GE(both.flows.step.seconds(), (graph.launch.seconds() + transfer) * (1 - 1e-9));
        EXPECT_LE(both.flows.step.seconds(), (latency + transfer + fill) * (1 + 1e-9));
      }
    }
}

/// A chain of h equal hops is the worst case, to the digit: (P + h - 1) pieces' time.
TEST(Flows, OfAChainAreItsFillLate) {
  const Setting s{"node", hand_made({.nodes = 1}), Routing::spread};
  for (const Collective op : {Collective::broadcast, Collective::reduce})
    for (const std::uint32_t pieces : {4U, 64U}) {
      const Both both = play(s, {{op, first_gpus(8), gibibytes(4)}}, {Algorithm::ring, Protocol::simple}, pieces);
      const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, first_gpus(8)));
      const double latency =
          algorithm(Algorithm::ring).latency(op, Protocol::simple, gibibytes(4), shape, sharp()).seconds();
      const double transfer = both.fluid.step.seconds() - latency;
      EXPECT_NEAR(both.flows.step.seconds(), latency + transfer * (pieces + 6) / pieces, 1e-6 * transfer);
    }
}

TEST(Flows, OfTreesAndChainsAgreeWithinTwoPercentWhenThePiecesAreFine) {
  for (const Setting& s : every_builder()) {
    const Group group = first_gpus(16);
    for (const Way& way : ways_of(s.fabric, group)) {
      if (!way.piped() || way.protocol != Protocol::simple) continue;
      SCOPED_TRACE(s.name + ", " + way.name());
      const bool chain = way.algorithm == Algorithm::ring;  // up to 15 hops that nothing overlaps
      const Both both = play(s, {{way.op, group, gibibytes(16)}}, {way.algorithm, way.protocol}, chain ? 1024U : 128U);
      EXPECT_NEAR(both.ratio(), 1, 0.02);
    }
  }
}

/// Seconds if the rings of a torus had all bytes of one dimension moved before the next. The links of a dimension all
/// carry the same, and at any time the call's last chain has those of one dimension full.
double dimension_by_dimension(Collective op, Bytes size, const GroupShape& shape) {
  const std::vector<double> wire = torus_wire(shape.torus);
  const double passes = op == Collective::all_reduce ? 2 : 1;
  double wire_bytes = 0;
  for (std::size_t d = 0; d < wire.size(); ++d)
    wire_bytes += passes * wire[d] * (shape.torus[d].closed ? 1 : 2) * static_cast<double>(size.count());
  return wire_bytes / (static_cast<double>(shape.torus_link.bytes_per_s()) * sharp().network.efficiency);
}

/// Where the steps of a call use different links, `fluid` lets all links work all the time. In `flows` a step waits
/// for the one before: never earlier than the busiest link needs, never later than step by step. On a torus a rank
/// that is ahead can hold up one that is behind on links that they share, so that steps in lockstep bound nothing:
/// there the bound is that of the torus' own rings.
TEST(Flows, OfPhasesAreBetweenTheBusiestLinkAndStepByStep) {
  const Bytes size = gibibytes(8);
  for (const Setting& s : every_builder()) {
    const std::vector<Group> groups = {first_gpus(8), first_gpus(13), strided_gpus(0, 8, 16), first_gpus(64)};
    for (const Group& group : groups) {
      const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
      for (const Way& way : ways_of(s.fabric, group)) {
        if (!way.phased() || way.protocol != Protocol::simple) continue;
        // Partners that are no neighbours in a cube mesh meet on PCIe, and sends of different steps there each other.
        if (s.shared_nics && way.algorithm == Algorithm::halving_doubling) continue;
        SCOPED_TRACE(s.name + ", " + std::to_string(group.size()) + ", " + way.name());
        const Both both = play(s, {{way.op, group, size}}, {way.algorithm, way.protocol});
        const double latency = algorithm(way.algorithm).latency(way.op, way.protocol, size, shape, sharp()).seconds();
        const SendGraph graph = graph_of(s, way, size, group);
        const double transfer = both.fluid.step.seconds() - latency;
        EXPECT_GE(both.flows.step.seconds(), (graph.launch.seconds() + transfer) * (1 - 1e-9));
        if (way.algorithm == Algorithm::torus_ring) {
          const double rings = dimension_by_dimension(way.op, size, shape);
          EXPECT_LE(both.flows.step.seconds(), (latency + rings) * (1 + 1e-9));
        } else if (!s.fabric.torus()) {
          EXPECT_LE(both.flows.step.seconds(), (latency + step_by_step(s, graph)) * (1 + 1e-9));
        }
      }
    }
  }
}

/// Steps over links of the same kind lose nothing: halving and doubling within a node, PAT on a rail; and the rings of
/// a torus of equal extents, whose parts change dimension all at once.
TEST(Flows, OfPhasesOverLikeLinksAgreeWithFluid) {
  const Setting node{"node", hand_made({.nodes = 1}), Routing::spread};
  const Setting rail{"rail", hand_made({.nodes = 16}), Routing::spread};
  const Setting cube{"cube", build_torus({.shape = {4, 4, 4}}), Routing::dimension_order};
  const auto expect_same = [](const Setting& s, const Group& group, Algorithm how) {
    int seen = 0;
    for (const Way& way : ways_of(s.fabric, group)) {
      if (way.algorithm != how) continue;
      SCOPED_TRACE(s.name + ", " + way.name());
      EXPECT_NEAR(play(s, {{way.op, group, gibibytes(4)}}, {way.algorithm, way.protocol}).ratio(), 1, 0.001);
      ++seen;
    }
    EXPECT_GT(seen, 0);
  };
  expect_same(node, first_gpus(8), Algorithm::halving_doubling);
  expect_same(rail, strided_gpus(3, 8, 16), Algorithm::pat);
  expect_same(rail, strided_gpus(3, 8, 13), Algorithm::pat);
  expect_same(cube, first_gpus(64), Algorithm::torus_ring);
}

/// What LL and LL128 move at most bounds every line, whatever the links could do.
TEST(Flows, KeepTheProtocolsCap) {
  const Setting s{"node", hand_made({.nodes = 2}), Routing::spread};
  const Group group = first_gpus(16);
  const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
  for (const Protocol protocol : {Protocol::ll, Protocol::ll128}) {
    const auto cap = algorithm(Algorithm::ring).rate_cap(Collective::all_reduce, protocol, shape, sharp());
    const Both both = play(s, {{Collective::all_reduce, group, gibibytes(4)}}, {Algorithm::ring, protocol});
    const double transfer = static_cast<double>(gibibytes(4).count()) / cap.value();
    EXPECT_GE(both.flows.step.seconds(), transfer);
    EXPECT_NEAR(both.ratio(), 1, 0.001);
  }
}

// ---- sharing ------------------------------------------------------------------------------------------------------

TEST(Flows, OfTwoCollectivesOnTheSameLinksAgreeWithFluid) {
  for (const Setting& s : every_builder())
    for (const Collective op : {Collective::all_gather, Collective::all_reduce, Collective::all_to_all}) {
      SCOPED_TRACE(s.name + ", " + std::string(to_text(op)));
      const Algorithm how = op == Collective::all_to_all ? Algorithm::pairwise : Algorithm::ring;
      const Bytes size = gibibytes(4);
      const Call alone{op, strided_gpus(0, 2, 32), size};
      const Both both = play(s, {alone, alone}, {how, Protocol::simple});
      EXPECT_NEAR(both.ratio(), 1, 0.02);
      EXPECT_GT(both.flows.step.seconds(), 1.9 * play(s, {alone}, {how, Protocol::simple}).flows.step.seconds());
    }
}

/// All data-parallel rings of a job with 8 tensor-parallel ranks.
TEST(Flows, OfAllDataParallelRingsAgreeWithFluid) {
  for (const Setting& s : every_builder()) {
    SCOPED_TRACE(s.name);
    std::vector<Call> calls;
    for (std::size_t c = 0; c < 8; ++c)
      calls.push_back({Collective::reduce_scatter, strided_gpus(c, 8, 16), gibibytes(1)});
    EXPECT_NEAR(play(s, calls, {Algorithm::ring, Protocol::simple}).ratio(), 1, 0.02);
  }
}

/// Where collectives with different numbers of flows share an oversubscribed trunk, `fluid` weighs them by their flows
/// on their busiest link as a whole, `flows` by who is there at the moment: the ends differ (by a third here). Both
/// stay between the longer one alone and one after the other.
TEST(Flows, OfDifferentCollectivesStayBetweenTogetherAndInTurn) {
  const Call ring{Collective::all_gather, strided_gpus(0, 8, 16), gibibytes(2)};
  const Call exchange{Collective::all_to_all, first_gpus(128), gibibytes(1)};
  for (const Setting& s : every_builder()) {
    SCOPED_TRACE(s.name);
    const Forced simple{std::nullopt, Protocol::simple};
    const Both together = play(s, {ring, exchange}, simple);
    const Both first = play(s, {ring}, simple), second = play(s, {exchange}, simple);
    for (const auto fidelity : {&Both::fluid, &Both::flows}) {
      const Duration a = (first.*fidelity).step, b = (second.*fidelity).step;
      EXPECT_GE((together.*fidelity).step.seconds(), std::max(a, b).seconds() * (1 - 1e-9));
      EXPECT_LE((together.*fidelity).step, a + b);
    }
  }
}

/// Incast: n senders share the receiver's link evenly in both.
TEST(Flows, OfAnIncastShareTheReceiver) {
  const Setting s{"hand", hand_made({.nodes = 8}), Routing::spread};
  std::vector<Call> calls;
  for (std::size_t node = 1; node < 8; ++node)
    calls.push_back({Collective::send_recv, {id_at<GpuId>(8 * node), GpuId{0}}, mebibytes(512)});
  EXPECT_NEAR(play(s, calls, {}).ratio(), 1, 1e-9);
}

/// The slowest edge of a ring sets its pace; the others wait for it and make up nothing.
TEST(Flows, OfARingWithOneSlowNodeFollowTheSlowest) {
  FabricBuilder b;
  const TierId tier = b.tier("nic");
  const VertexId leaf = b.add(VertexKind::leaf);
  for (int n = 0; n < 6; ++n) {
    const NodeId node = b.node();
    const VertexId gpu = b.add(VertexKind::gpu, node), nic = b.add(VertexKind::nic, node);
    b.connect(gpu, nic, gigabytes_per_second(100), nanoseconds(500), tier);
    b.connect(nic, leaf, gigabytes_per_second(n == 2 ? 10 : 50), nanoseconds(500), tier);
  }
  const Setting s{"slow", std::move(b).build(), Routing::spread};
  for (const Collective op : {Collective::all_reduce, Collective::all_gather}) {
    const Both both = play(s, {{op, first_gpus(6), gibibytes(1)}}, {Algorithm::ring, Protocol::simple});
    EXPECT_GE(both.ratio(), 1 - 1e-9);
    EXPECT_LE(both.ratio(), 1.02);
  }
}

// ---- the player -----------------------------------------------------------------------------------------------------

TEST(Flows, AreTheSameEveryTime) {
  const std::vector<Setting> settings = every_builder();
  const Setting& s = settings[3];
  const std::vector<Call> calls = {{Collective::all_reduce, first_gpus(24), mebibytes(64)},
                                   {Collective::all_to_all, strided_gpus(1, 3, 20), mebibytes(64)}};
  const Both once = play(s, calls, {}), again = play(s, calls, {});
  EXPECT_EQ(once.flows.step, again.flows.step);
  for (std::size_t l = 0; l < once.flows.links.size(); ++l) {
    EXPECT_EQ(once.flows.links[l].bytes, again.flows.links[l].bytes);
    EXPECT_EQ(once.flows.links[l].saturated, again.flows.links[l].saturated);
  }
}

TEST(Flows, OfATracedStepFillTheTiersByTheBytesThatCrossed) {
  const Fabric fabric = hand_made({});
  const Job job = job_of({{Collective::all_reduce, first_gpus(16), gibibytes(1)}});
  const Measured m = simulate(fabric, sharp(), job, {.fidelity = Fidelity::flows, .traced = {RankId{0}}});
  ASSERT_EQ(m.tiers.size(), fabric.tiers().size());
  for (std::size_t t = 0; t < m.tiers.size(); ++t) {
    double moved = 0, recorded = 0;
    for (std::size_t l = 0; l < m.links.size(); ++l)
      if (fabric.link(id_at<LinkId>(l)).tier.index() == t) moved += m.links[l].bytes;
    const double full = static_cast<double>(fabric.tiers()[t].bandwidth.bytes_per_s()) * m.tiers[t].bin.seconds();
    for (const double u : m.tiers[t].utilization) recorded += u * full;
    EXPECT_NEAR(recorded, moved, 1e-9 * moved);
  }
}

RC_GTEST_PROP(Flows, NeverBeatTheBusiestLinkNorTheLatency, ()) {
  static const std::vector<Setting> settings = every_builder();
  const Setting& s = settings[*rc::gen::inRange<std::size_t>(0, settings.size())];
  const auto n = *rc::gen::inRange<std::size_t>(2, 24);
  const auto stride = *rc::gen::inRange<std::size_t>(1, 6);
  const Group group = strided_gpus(*rc::gen::inRange<std::size_t>(0, 8), stride, n);
  const std::vector<Way> ways = ways_of(s.fabric, group);
  const Way way = ways[*rc::gen::inRange<std::size_t>(0, ways.size())];
  const auto size = bytes(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 30));
  const Measured m = simulate(
      s.fabric, sharp(), job_of({{way.op, group, size}}),
      {.fidelity = Fidelity::flows, .routing = s.routing, .forced = {way.algorithm, way.protocol}, .pieces = 8});
  const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
  const Duration latency = algorithm(way.algorithm).latency(way.op, way.protocol, size, shape, sharp());
  RC_ASSERT(m.step >= latency);
  for (std::size_t l = 0; l < m.links.size(); ++l) {
    const auto rate = static_cast<double>(s.fabric.link(id_at<LinkId>(l)).bandwidth.bytes_per_s());
    RC_ASSERT(m.links[l].bytes <= rate * m.step.seconds() * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace foretrain
