// All-to-alls whose parts differ: who gets how much, what travels once, and how long that takes in every fidelity.
#include "sim/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <numeric>

#include "sim/simulate.h"
#include "tests/sim/hand_made_fabric.h"
#include "tests/sim/usage_reading.h"

namespace foretrain {
namespace {

constexpr double eps = 1e-12;
constexpr double part = 1.0 / whole_share;  ///< what rounding to shares may move

std::vector<Usage> usage_of(const Ground& s, Algorithm how, Collective op, const std::vector<GpuId>& group,
                            const Exchange& exchange) {
  const CollectiveContext context{
      .fabric = s.fabric, .router = *s.router, .transport = s.transport, .exchange = exchange};
  return algorithm(how).usage(op, Protocol::simple, GroupLayout(s.fabric, group), context);
}

Ground nodes_of(std::uint32_t nodes, std::uint32_t gpus) {
  return {hand_made({.nodes = nodes, .gpus = gpus}), perfect_transport()};
}

// ---- the profile ------------------------------------------------------------------------------------------------

RC_GTEST_PROP(OneInDemand, KeepsTheSumAndLeavesTheOthersAlike, ()) {
  const auto members = *rc::gen::inRange<std::size_t>(2, 5000);
  const double factor = 1 + (static_cast<double>(members) - 1) * (*rc::gen::inRange(1, 1000)) / 1000.0;
  const auto hottest = *rc::gen::inRange<std::size_t>(0, members);
  const Exchange exchange = one_in_demand(members, factor, hottest);
  RC_ASSERT(exchange.check(members).empty());
  RC_ASSERT(std::accumulate(exchange.demand.begin(), exchange.demand.end(), Share{0}) == members * whole_share);
  const auto n = static_cast<double>(members);
  for (std::size_t m = 0; m < members; ++m) {
    const double expected = m == hottest ? factor : (n - factor) / (n - 1);
    RC_ASSERT(std::abs(exchange.demand_of(m) - expected) <= n * part);
  }
}

TEST(OneInDemand, RefusesWhatNobodyCanGet) {
  EXPECT_EQ(one_in_demand(8, 1), Exchange{});
  EXPECT_THROW(static_cast<void>(one_in_demand(8, 0.9)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(one_in_demand(8, 8.1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(one_in_demand(8, 2, 8)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(as_share(-1)), std::invalid_argument);
}

TEST(Exchange, SaysWhatIsWrong) {
  EXPECT_EQ((Exchange{.demand = {whole_share}}.check(2)), "the demand of 1 members, not of 2");
  EXPECT_EQ((Exchange{.demand = {whole_share, 0}}.check(2)), "the demand of 2 members adds up to 1, and must to 2");
  EXPECT_NE((Exchange{.demand = {~Share{0}, 2 * whole_share + 1}}.check(2)), "");  // a sum that wraps round
  EXPECT_NE((Exchange{.copies_per_node = whole_share - 1}.check(2)), "");
  EXPECT_NE((Exchange{.copies_per_node = 2 * whole_share, .copies_per_rank = 3 * whole_share}.check(2)), "");
  Job job;
  job.dimensions = {{"ep", false}};
  job.programs.push_back(ProgramBuilder().build());
  job.communicators.push_back({.members = {RankId{0}}, .exchange = 0});
  job.ranks.push_back({0, {CommunicatorId{0}}});
  job.placement.push_back(GpuId{0});
  EXPECT_EQ(job.check(), "communicator 0: there is no exchange 0");
  job.exchanges.push_back({.demand = {0}});
  EXPECT_EQ(job.check(), "communicator 0, exchange 0: the demand of 1 members adds up to 0, and must to 1");
}

/// Every way to draw, one by one.
double counted_groups(std::uint32_t groups, std::uint32_t items, std::uint32_t drawn) {
  double hit = 0, ways = 0;
  for (std::uint32_t set = 0; set < 1U << items; ++set) {
    if (std::popcount(set) != static_cast<int>(drawn)) continue;
    ++ways;
    const std::uint32_t each = items / groups;
    for (std::uint32_t g = 0; g < groups; ++g) hit += (set >> (g * each) & ((1U << each) - 1)) != 0;
  }
  return hit / ways;
}

TEST(ExpectedGroups, IsTheMeanOverAllDraws) {
  for (const std::uint32_t groups : {1U, 2U, 3U, 4U, 6U, 12U})
    for (const std::uint32_t drawn : {1U, 2U, 5U, 8U, 12U}) {
      const double counted = counted_groups(groups, 12, drawn);
      EXPECT_NEAR(expected_groups(groups, groups, 12, drawn), counted, 1e-12);
      // Of twice as many groups no more than so many: the same draw among those.
      EXPECT_NEAR(expected_groups(2 * groups, groups, 24, drawn), counted, 1e-12);
    }
  EXPECT_THROW(static_cast<void>(expected_groups(3, 3, 8, 2)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(expected_groups(4, 5, 8, 2)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(expected_groups(4, 1, 8, 3)), std::invalid_argument);
}

/// DeepSeek-V3 (arXiv 2412.19437, section 2.1.2): top-8 of 256 experts on 8 nodes, at most 4 of them: 32 in each of 4.
TEST(ExpectedGroups, OfDeepSeekV3) {
  const double missed = 96.0 * 95 * 94 * 93 * 92 * 91 * 90 * 89 / (128.0 * 127 * 126 * 125 * 124 * 123 * 122 * 121);
  EXPECT_NEAR(expected_groups(8, 4, 256, 8), 4 * (1 - missed), 1e-12);
}

// ---- bytes ------------------------------------------------------------------------------------------------------

TEST(AllToAllV, WithoutAnExchangeIsAnAllToAll) {
  const Ground s = nodes_of(3, 4);
  for (const Algorithm how : {Algorithm::pairwise, Algorithm::two_hop}) {
    const auto even = s.usage(how, Collective::all_to_all, first_gpus(12));
    for (const Collective op : {Collective::all_to_allv, Collective::all_to_allv_back}) {
      const auto uneven = s.usage(how, op, first_gpus(12));
      ASSERT_EQ(uneven.size(), even.size());
      for (std::size_t i = 0; i < even.size(); ++i) {
        EXPECT_EQ(uneven[i].link, even[i].link);
        EXPECT_DOUBLE_EQ(uneven[i].wire, even[i].wire);
      }
    }
  }
}

/// Every member sends 1/n of the message times the receiver's demand; on the way back all is turned round.
TEST(AllToAllV, PairwiseGivesEveryoneItsDemand) {
  const Ground s = nodes_of(3, 4);
  const auto group = first_gpus(12);
  const Exchange exchange = one_in_demand(12, 3, 5);
  const auto there = usage_of(s, Algorithm::pairwise, Collective::all_to_allv, group, exchange);
  const auto back = usage_of(s, Algorithm::pairwise, Collective::all_to_allv_back, group, exchange);
  for (std::size_t m = 0; m < 12; ++m) {
    const double gets = exchange.demand_of(m) * 11 / 12, sends = (12 - exchange.demand_of(m)) / 12;
    EXPECT_NEAR(s.into(there, group[m]), gets, eps);
    EXPECT_NEAR(s.out_of(there, group[m]), sends, eps);
    EXPECT_NEAR(s.into(back, group[m]), sends, eps);
    EXPECT_NEAR(s.out_of(back, group[m]), gets, eps);
  }
  EXPECT_NEAR(exchange.demand_of(5), 3, 12 * part);
}

/// Two hops over equal nodes. A node's demand D comes over its g rails evenly, and the relays hand it out.
TEST(AllToAllV, TwoHopKeepsToRailsWhateverTheDemand) {
  constexpr std::uint32_t nodes = 3, g = 4, n = nodes * g;
  const Ground s = nodes_of(nodes, g);
  const auto group = first_gpus(n);
  const Exchange exchange = one_in_demand(n, 3, 5);
  const auto there = usage_of(s, Algorithm::two_hop, Collective::all_to_allv, group, exchange);
  const auto back = usage_of(s, Algorithm::two_hop, Collective::all_to_allv_back, group, exchange);
  for (std::size_t m = 0; m < n; ++m) {
    double own_node = 0;
    for (std::size_t j = 0; j < g; ++j) own_node += exchange.demand_of(m / g * g + j);
    const VertexId nic = s.fabric.nics_of(group[m])[0];
    EXPECT_NEAR(s.into(there, nic, "nic"), (nodes - 1) * own_node / n, eps);
    EXPECT_NEAR(s.out_of(there, nic, "nic"), (n - own_node) / n, eps);
    EXPECT_NEAR(s.out_of(back, nic, "nic"), (nodes - 1) * own_node / n, eps);
    EXPECT_NEAR(s.into(back, nic, "nic"), (n - own_node) / n, eps);
    // As a relay a GPU holds what `nodes` GPUs send to the others of its node.
    EXPECT_NEAR(s.out_of(there, group[m], "nvlink"), nodes * (own_node - exchange.demand_of(m)) / n, eps);
    EXPECT_NEAR(s.into(back, group[m], "nvlink"), nodes * (own_node - exchange.demand_of(m)) / n, eps);
  }
  EXPECT_EQ(s.on_tier(there, "leaf-spine"), 0);
  EXPECT_EQ(s.on_tier(back, "leaf-spine"), 0);
}

/// What a node wants several times crosses the network once, and NVLink once a rank.
TEST(AllToAllV, TwoHopSendsCopiesOnce) {
  const Ground s = nodes_of(4, 8);
  const auto group = first_gpus(32);
  const Exchange exchange{.demand = {}, .copies_per_node = as_share(2.25), .copies_per_rank = as_share(1.125)};
  for (const Collective op : {Collective::all_to_allv, Collective::all_to_allv_back}) {
    const auto usage = usage_of(s, Algorithm::two_hop, op, group, exchange);
    for (const GpuId gpu : group) {
      EXPECT_NEAR(s.out_of(usage, s.fabric.nics_of(gpu)[0], "nic"), 24.0 / 32 / 2.25, eps);
      EXPECT_NEAR(s.into(usage, s.fabric.nics_of(gpu)[0], "nic"), 24.0 / 32 / 2.25, eps);
      EXPECT_NEAR(s.out_of(usage, gpu, "nvlink"), 7.0 / 8 / 1.125, eps);
    }
    const auto each_by_itself = usage_of(s, Algorithm::pairwise, op, group, exchange);
    EXPECT_NEAR(s.out_of(each_by_itself, s.fabric.nics_of(group[0])[0], "nic"), 24.0 / 32, eps);
  }
  // A plain all-to-all has nothing in common.
  const auto plain = usage_of(s, Algorithm::two_hop, Collective::all_to_all, group, exchange);
  EXPECT_NEAR(s.out_of(plain, s.fabric.nics_of(group[0])[0], "nic"), 24.0 / 32, eps);
}

// ---- time -------------------------------------------------------------------------------------------------------

Job one_call(Collective op, std::size_t ranks, Bytes size, const Exchange& exchange) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{"ep", false}};
  ProgramBuilder b;
  b.communicate(main_stream, {.label = "call", .op = op, .size = size});
  job.programs.push_back(std::move(b).build());
  job.exchanges = {exchange};
  job.communicators.push_back({.members = {}, .exchange = 0});
  for (std::size_t r = 0; r < ranks; ++r) {
    job.communicators[0].members.push_back(id_at<RankId>(r));
    job.ranks.push_back({0, {CommunicatorId{0}}});
    job.placement.push_back(id_at<GpuId>(r));
  }
  return job;
}

Duration played(const Ground& s, const Job& job, Algorithm how, Fidelity fidelity) {
  return simulate(s.fabric, s.transport, job, {.fidelity = fidelity, .forced = {how, std::nullopt}, .pieces = 256})
      .step;
}

/// The hottest rank's own link takes its demand at the line rate: its NVLink inside a node, its NIC with one GPU a
/// node. All fidelities say so, and the call by itself.
TEST(AllToAllV, TakesAsLongAsTheHottestNeeds) {
  const Bytes size = gibibytes(1);
  for (const auto& [nodes, gpus, rate] : {std::tuple{1U, 8U, 450e9}, {8U, 1U, 50e9}}) {
    const Ground s = nodes_of(nodes, gpus);
    const Exchange exchange = one_in_demand(8, 2.5, 3);
    for (const Collective op : {Collective::all_to_allv, Collective::all_to_allv_back}) {
      const double transfer = static_cast<double>(size.count()) * exchange.demand_of(3) * 7 / 8 / rate;
      const IdleCall idle = idle_call(s.fabric, s.transport, *s.router, op, size, first_gpus(8), {}, exchange);
      EXPECT_NEAR((idle.time - idle.latency).seconds(), transfer, 1e-11);
      const Job job = one_call(op, 8, size, exchange);
      for (const Fidelity fidelity : all_fidelities) {
        const Duration took = played(s, job, Algorithm::pairwise, fidelity);
        EXPECT_NEAR((took - idle.latency).seconds(), transfer, 1e-10) << to_text(fidelity);
      }
    }
  }
}

TEST(AllToAllV, FlowsAgreeWithFluidAcrossNodes) {
  const Ground s = nodes_of(4, 8);
  Exchange exchange = one_in_demand(32, 2, 9);
  exchange.copies_per_node = as_share(2);
  exchange.copies_per_rank = as_share(1.25);
  for (const Algorithm how : {Algorithm::pairwise, Algorithm::two_hop})
    for (const Collective op : {Collective::all_to_allv, Collective::all_to_allv_back}) {
      SCOPED_TRACE(std::string(to_text(how)) + " " + std::string(to_text(op)));
      const Job job = one_call(op, 32, gibibytes(4), exchange);
      const Duration fluid = played(s, job, how, Fidelity::fluid);
      EXPECT_NEAR(played(s, job, how, Fidelity::flows) / fluid, 1, 0.02);
      EXPECT_EQ(played(s, job, how, Fidelity::analytic), fluid);
    }
}

/// More imbalance is never faster, more in common never slower, and an algorithm never finishes below its bytes.
RC_GTEST_PROP(AllToAllV, IsMonotoneInImbalanceAndCopies, ()) {
  static const Ground s = nodes_of(2, 4);
  const auto how = *rc::gen::element(Algorithm::pairwise, Algorithm::two_hop);
  const auto op = *rc::gen::element(Collective::all_to_allv, Collective::all_to_allv_back);
  const auto hottest = *rc::gen::inRange<std::size_t>(0, 8);
  const double factor = 1 + *rc::gen::inRange(0, 60) / 10.0, more = factor + *rc::gen::inRange(0, 10) / 10.0;
  const auto time = [&](double imbalance, double copies) {
    Exchange exchange = one_in_demand(8, imbalance, hottest);
    exchange.copies_per_node = as_share(copies);
    return idle_call(s.fabric, s.transport, *s.router, op, gibibytes(1), first_gpus(8), {how, {}}, exchange).time;
  };
  RC_ASSERT(time(factor, 1) <= time(more, 1));
  RC_ASSERT(time(factor, 2) <= time(factor, 1));
}

}  // namespace
}  // namespace foretrain
