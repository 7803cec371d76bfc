// Does the fluid network share as flows come and go, keep time to the picosecond, and account for what it moved?
#include "sim/network.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>

#include "tests/sim/network_play.h"

namespace foretrain {
namespace {

/// Up to 16 arrivals; amounts and starts from few values, so that some coincide.
std::vector<Arrival> random_arrivals(const System& s) {
  std::vector<Arrival> arrivals(*uniform<std::size_t>(1, 17));
  for (Arrival& a : arrivals) {
    a.kind = *uniform<std::size_t>(0, s.flows.size());
    a.amount = *uniform(1, 20) * 10;
    a.start = at(seconds(*uniform(0, 20)));
  }
  return arrivals;
}

RC_GTEST_PROP(FluidNetwork, AgreesWithTheStaticSolverAtEveryInstant, ()) {
  for_random_systems([](const System& s) { RC_ASSERT(play(s, random_arrivals(s)).disagreement <= 1e-9); });
}

RC_GTEST_PROP(FluidNetwork, WhatEntersLeaves, ()) {
  for_random_systems([](const System& s) {
    const auto arrivals = random_arrivals(s);
    const Played p = play(s, arrivals);
    for (std::size_t a = 0; a < arrivals.size(); ++a) {
      // The finish is rounded by half a picosecond; the sums of doubles by some 1e-16 a term.
      RC_ASSERT(std::abs(p.moved[a] - arrivals[a].amount) <= p.last_rate[a] * 0.5e-12 + 1e-13 * arrivals[a].amount);
    }
  });
}

RC_GTEST_PROP(FluidNetwork, SaturatedTimeIsTheTimeAtCapacity, ()) {
  for_random_systems([](const System& s) {
    const Played p = play(s, random_arrivals(s));
    RC_ASSERT(p.saturated == p.full);
  });
}

RC_GTEST_PROP(FluidNetwork, MakespanLiesBetweenItsBounds, ()) {
  for_random_systems([](const System& s) {
    const auto arrivals = random_arrivals(s);
    const Played p = play(s, arrivals);
    FluidNetwork idle(s.capacities);
    std::vector<double> work(s.capacities.size(), 0.0);
    Time last_start;
    double one_by_one = 0;
    for (std::size_t a = 0; a < arrivals.size(); ++a) {
      const StaticFlow& kind = s.flows[arrivals[a].kind];
      const double rate = idle.idle_rate(idle.add_shape(kind.loads, kind.rate_cap, kind.weight));
      RC_ASSERT(p.finish[a] - arrivals[a].start >= fluid_time(arrivals[a].amount, rate) - picoseconds(1));
      for (const Load& l : kind.loads) work[l.resource.index()] += l.load * arrivals[a].amount;
      last_start = std::max(last_start, arrivals[a].start);
      one_by_one += arrivals[a].amount / rate;
    }
    const double makespan = std::max_element(p.finish.begin(), p.finish.end())->seconds();
    for (std::size_t r = 0; r < work.size(); ++r) RC_ASSERT(makespan >= work[r] / s.capacities[r] * (1 - 1e-9));
    // Every flow has a bottleneck, and on a full resource the x / idle rate sum to at least sum(load x) / C = 1; so the
    // remaining amount / idle rate, summed over flows, falls by at least 1 a second while any flow is there.
    RC_ASSERT(makespan <= (last_start.seconds() + one_by_one) * (1 + 1e-9));
  });
}

RC_GTEST_PROP(FluidNetwork, DoublingAmountsAndCapacitiesKeepsTimes, ()) {
  for_random_systems([](const System& s) {
    const auto arrivals = random_arrivals(s);
    System twice = s;
    for (double& c : twice.capacities) c *= 2;
    for (StaticFlow& f : twice.flows) f.rate_cap *= 2;
    auto more = arrivals;
    for (Arrival& a : more) a.amount *= 2;
    RC_ASSERT(play(s, arrivals).log == play(twice, more).log);
  });
}

RC_GTEST_PROP(FluidNetwork, SameCallsSameAnswers, ()) {
  for_random_systems([](const System& s) {
    const auto arrivals = random_arrivals(s);
    RC_ASSERT(play(s, arrivals).log == play(s, arrivals).log);
  });
}

RC_GTEST_PROP(FluidNetwork, AFlowAloneHasItsIdleRateToTheBit, ()) {
  const auto resources = *uniform<std::size_t>(1, 5);
  const auto positive = rc::gen::map(uniform<std::int64_t>(1'000'000, std::int64_t{1} << 40),
                                     [](std::int64_t n) { return static_cast<double>(n) / 1048573.0; });
  std::vector<double> capacities;
  std::vector<Load> loads;
  const double cap = *positive;
  double expected = cap;
  for (std::size_t r = 0; r < resources; ++r) {
    capacities.push_back(*positive);
    loads.push_back({id_at<ResourceId>(r), *positive});
    expected = std::min(expected, capacities[r] / loads[r].load);
  }
  FluidNetwork net(capacities);
  const ShapeId mine = net.add_shape(loads, cap, *uniform(1, 9));
  const ShapeId other = net.add_shape({loads.front()}, uncapped, *uniform(1, 9));
  RC_ASSERT(net.idle_rate(mine) == expected);
  const double amount = expected * 1000;

  const FlowId alone = net.start(mine, amount, Time());
  const auto first = net.resolve(Time());
  RC_ASSERT(first.size() == 1U);
  RC_ASSERT(first[0].at == Time() + fluid_time(amount, expected));
  RC_ASSERT(net.rate(alone) == expected);

  // Another comes and goes: the rate comes back to the bit.
  const FlowId guest = net.start(other, net.idle_rate(other) * 1e-3, at(seconds(1)));
  Time end;
  for (const auto& f : net.resolve(at(seconds(1)))) {
    if (f.flow == guest) end = f.at;
  }
  net.finish(guest, end);
  (void)net.resolve(end);
  RC_ASSERT(net.rate(alone) == expected);
}

// ---- many flows, many levels ----

/// Hundreds of kinds of flow with a few loads each, on dozens of resources of very different capacity: long chains of
/// bottlenecks. Loads and weights are not round. Drawn by a generator of its own, which is far quicker than
/// RapidCheck's.
class LargeSystems {
 public:
  explicit LargeSystems(std::uint64_t seed) : random_(seed) {}

  System system() {
    System s;
    const std::size_t resources = 10 + draw(50);
    for (std::size_t r = 0; r < resources; ++r) s.capacities.push_back(std::exp2(real(0, 8)));
    const std::size_t flows = 20 + draw(280);
    for (std::size_t f = 0; f < flows; ++f) {
      StaticFlow flow;
      std::set<std::size_t> used;
      for (std::size_t n = 1 + draw(5); n > 0; --n) used.insert(draw(resources));
      for (const std::size_t r : used) flow.loads.push_back({id_at<ResourceId>(r), real(0.1, 3)});
      flow.weight = std::exp2(real(-3, 3));
      if (draw(3) == 0) flow.rate_cap = std::exp2(real(-6, 6));
      s.flows.push_back(std::move(flow));
    }
    return s;
  }
  /// One of every kind; few instants, so that many start together, and sizes that keep them busy over several.
  std::vector<Arrival> arrivals(const System& s) {
    std::vector<Arrival> arrivals;
    for (std::size_t f = 0; f < s.flows.size(); ++f)
      arrivals.push_back(
          {.kind = f, .amount = std::exp2(real(0, 7)), .start = at(seconds(1) * static_cast<std::int64_t>(draw(8)))});
    return arrivals;
  }
  std::size_t draw(std::size_t below) { return random_() % below; }
  double real(double from, double to) { return from + (to - from) * static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

RC_GTEST_PROP(FluidNetwork, HundredsOfFlowsAgreeWithTheStaticSolverAtEveryInstant, (std::uint64_t seed)) {
  LargeSystems draws(seed);
  const System s = draws.system();
  RC_ASSERT(play(s, draws.arrivals(s)).disagreement <= 1e-9);
}

RC_GTEST_PROP(FluidNetwork, HundredsOfFlowsHaveBottlenecksAndOverfillNothing, (std::uint64_t seed)) {
  for (int i = 0; i < 5; ++i) {
    const System s = LargeSystems(seed + static_cast<std::uint64_t>(i)).system();
    const std::vector<double> rates = network_rates(s);
    const std::vector<double> used = used_of(s, rates);
    for (std::size_t r = 0; r < used.size(); ++r) RC_ASSERT(used[r] <= s.capacities[r] * (1 + 1e-9));
    for (std::size_t f = 0; f < rates.size(); ++f) RC_ASSERT(has_bottleneck(s, rates, used, f));
  }
}

/// Starts and ends at one instant in another order: every finish is the same to the picosecond, every rate to the bit.
RC_GTEST_PROP(FluidNetwork, TheOrderOfTheCallsOfOneInstantDoesNotMatter, (std::uint64_t seed)) {
  LargeSystems draws(seed);
  const System s = draws.system();
  const std::vector<Arrival> arrivals = draws.arrivals(s);
  std::vector<std::size_t> order(arrivals.size());
  for (std::size_t a = 0; a < order.size(); ++a) order[a] = a;
  std::shuffle(order.begin(), order.end(), draws.random());
  std::vector<Arrival> shuffled;
  for (const std::size_t a : order) shuffled.push_back(arrivals[a]);
  const Played p = Play(s, arrivals).without_comparing().run();
  const Played q = Play(s, shuffled).without_comparing().run();
  for (std::size_t a = 0; a < order.size(); ++a) {
    RC_ASSERT(q.finish[a] == p.finish[order[a]]);
    RC_ASSERT(q.last_rate[a] == p.last_rate[order[a]]);
  }
  RC_ASSERT(q.saturated == p.saturated);
}

/// Whoever is faster leaves first, and those slower do not see it: equal flows that start together keep their rates.
RC_GTEST_PROP(FluidNetwork, EqualFlowsThatStartTogetherAreSolvedOnce, (std::uint64_t seed)) {
  LargeSystems draws(seed);
  System s = draws.system();
  // Weights that do not round, so that those of one bottleneck end at the same picosecond.
  for (StaticFlow& f : s.flows) f.weight = std::exp2(static_cast<double>(draws.draw(5)));
  std::vector<Arrival> arrivals;
  for (std::size_t f = 0; f < s.flows.size(); ++f) arrivals.push_back({.kind = f, .amount = s.flows[f].weight});
  const std::vector<double> rates = max_min_rates(s.capacities, s.flows);
  const Played p = Play(s, arrivals).without_comparing().run();
  for (std::size_t f = 0; f < rates.size(); ++f) {
    const double expected = s.flows[f].weight / rates[f];
    RC_ASSERT(std::abs(p.finish[f].seconds() - expected) <= 1e-9 * expected + 1e-12);
  }
  RC_ASSERT(p.log.size() == arrivals.size());  // one finish a flow, never moved
}

TEST(FluidNetwork, AnySingleResourceMayCarryMoreFlowsThan17Bits) {
  const std::size_t flows = 300'000;
  const double c = 50e9;
  FluidNetwork net({c});
  const ShapeId shape = net.add_shape({{r0, 1}}, uncapped, 1);
  for (std::size_t f = 0; f < flows; ++f) (void)net.start(shape, 1e6, Time());
  const auto finishes = net.resolve(Time());
  ASSERT_EQ(finishes.size(), flows);
  const Time end = at(fluid_time(1e6, c / static_cast<double>(flows)));
  for (const auto& f : finishes) ASSERT_LE(std::abs((f.at - end).ps()), end.since_start().ps() / 1'000'000'000'000);
  std::vector<FlowId> ids;
  for (const auto& f : finishes) ids.push_back(f.flow);
  const Time first = finishes[0].at;
  for (std::size_t f = 0; f + 1 < flows; ++f) net.finish(ids[f], first);
  (void)net.resolve(first);
  EXPECT_EQ(net.rate(ids.back()), c);  // nothing has drifted
}

/// Flows of `amount`, each from a NIC of its own, through one trunk; the trunk is the last resource.
struct Batch {
  FluidNetwork net;
  std::vector<FlowId> flows;

  Batch(std::size_t nics, double nic, double trunk, double amount) : net(capacities(nics, nic, trunk)) {
    for (std::size_t n = 0; n < nics; ++n) {
      const ShapeId shape = net.add_shape({{id_at<ResourceId>(n), 1.0}, {id_at<ResourceId>(nics), 1.0}}, uncapped, 1);
      flows.push_back(net.start(shape, amount, Time()));
    }
  }
  static std::vector<double> capacities(std::size_t nics, double nic, double trunk) {
    std::vector<double> c(nics, nic);
    c.push_back(trunk);
    return c;
  }
  /// Asserts that all end together, `after` the start, and ends them.
  void end_together(Duration after) {
    const auto finishes = net.resolve(Time());
    EXPECT_EQ(finishes.size(), flows.size());
    EXPECT_TRUE(std::all_of(finishes.begin(), finishes.end(), [&](const auto& f) { return f.at == at(after); }));
    for (const FlowId f : flows) net.finish(f, at(after));
    EXPECT_TRUE(net.resolve(at(after)).empty());
    EXPECT_EQ(net.active(), 0U);
  }
};

TEST(FluidNetwork, ANonBlockingTrunkSlowsNobody) {
  // Thirds do not add up to a whole exactly; yet nobody is slowed, by not a bit, and the trunk is full.
  for (const std::size_t nics : {3U, 6U, 48U, 96U}) {
    Batch batch(nics, 1.0 / 3.0, static_cast<double>(nics) / 3.0, 1);
    batch.end_together(fluid_time(1, 1.0 / 3.0));
    EXPECT_EQ(batch.net.resolves(), 0U) << nics;
    EXPECT_EQ(batch.net.saturated(id_at<ResourceId>(nics)), fluid_time(1, 1.0 / 3.0)) << nics;
  }
}

TEST(FluidNetwork, ABatchOnAnOversubscribedTrunkIsSolvedOnceAndEndsTogether) {
  const std::size_t nics = 1024;
  const double nic = 50e9;
  const double oversubscription = 4;
  Batch batch(nics, nic, static_cast<double>(nics) * nic / oversubscription, 1e9);
  batch.end_together(fluid_time(1e9, nic / oversubscription));
  EXPECT_EQ(batch.net.resolves(), 1U);
  EXPECT_EQ(batch.net.saturated(id_at<ResourceId>(nics)), fluid_time(1e9, nic / oversubscription));
  EXPECT_EQ(batch.net.saturated(id_at<ResourceId>(0)), seconds(0));
}

TEST(FluidNetwork, TheCheckSeesRatesThatAreNotSolvedYet) {
  FluidNetwork net({10});
  const ShapeId shape = net.add_shape({{r0, 1}}, uncapped, 1);
  net.check_max_min();
  const FlowId a = net.start(shape, 10, Time());
  EXPECT_THROW(net.check_max_min(), std::logic_error);  // a has no rate
  (void)net.start(shape, 20, Time());
  (void)net.resolve(Time());
  net.check_max_min();
  net.finish(a, at(seconds(2)));
  EXPECT_THROW(net.check_max_min(), std::logic_error);  // the other could have all
  (void)net.resolve(at(seconds(2)));
  net.check_max_min();
}

// ---- how far a change is felt ----

/// A slow flow over all links of capacity 1, and on each link a fast one that takes what it leaves. The slow flow
/// shares a gate with a guest: a quarter each.
struct Street {
  static constexpr double gate = 0.5;
  std::size_t links;
  FluidNetwork net;
  std::vector<ShapeId> fast;
  FlowId slow{};
  FlowId guest{};

  explicit Street(std::size_t n) : links(n), net(capacities(n)) {
    std::vector<Load> all;
    for (std::size_t r = 0; r <= n; ++r) all.push_back({id_at<ResourceId>(r), 1});
    net.check_always();
    const ShapeId through = net.add_shape(all, uncapped, 1);
    const ShapeId at_gate = net.add_shape({{id_at<ResourceId>(n), 1}}, uncapped, 1);
    for (std::size_t r = 0; r < n; ++r) fast.push_back(net.add_shape({{id_at<ResourceId>(r), 1}}, uncapped, 1));
    slow = net.start(through, 1000, Time());
    guest = net.start(at_gate, gate / 2, Time());  // for a second
    for (const ShapeId s : fast) (void)net.start(s, 1000, Time());
    (void)net.resolve(Time());
  }
  static std::vector<double> capacities(std::size_t n) {
    std::vector<double> c(n, 1);
    c.push_back(gate);
    return c;
  }
};

TEST(FluidNetwork, WhoComesToOneLinkIsNotFeltOnTheOthers) {
  for (const std::size_t links : {4U, 64U}) {
    Street street(links);
    const std::uint64_t before = street.net.solved();
    const FlowId late = street.net.start(street.fast[0], 1000, at(milliseconds(1)));
    (void)street.net.resolve(at(milliseconds(1)));
    EXPECT_DOUBLE_EQ(street.net.rate(late), (1 - Street::gate / 2) / 2);  // with the fast one there
    EXPECT_DOUBLE_EQ(street.net.rate(street.slow), Street::gate / 2);
    EXPECT_EQ(street.net.solved() - before, 2U) << links;
  }
}

TEST(FluidNetwork, WhatTheSlowOneGainsAllOthersFeel) {
  for (const std::size_t links : {4U, 64U}) {
    Street street(links);
    const std::uint64_t before = street.net.solved();
    street.net.finish(street.guest, at(seconds(1)));
    const std::size_t moved = street.net.resolve(at(seconds(1))).size();
    EXPECT_DOUBLE_EQ(street.net.rate(street.slow), Street::gate);
    EXPECT_EQ(moved, 1 + links);
    EXPECT_EQ(street.net.solved() - before, 1 + links) << links;
  }
}

// ---- finishes and generations ----

TEST(FluidNetwork, TwoFlowsOnOneLinkByHand) {
  // a (30 units) at 0 s, b (10 units) at 1 s, on a link of 10. Half each from 1 s: b ends at 1 + 10 / 5 = 3 s; a has
  // moved 10 + 2 * 5 = 20 by then, and the rest takes 10 / 10 = 1 s.
  const System s{.capacities = {10}, .flows = {{.loads = {{r0, 1}}}}};
  const Played p =
      play(s, {{.kind = 0, .amount = 30, .start = at(seconds(0))}, {.kind = 0, .amount = 10, .start = at(seconds(1))}});
  EXPECT_EQ(p.finish[0], at(seconds(4)));
  EXPECT_EQ(p.finish[1], at(seconds(3)));
  EXPECT_EQ(p.saturated[0], seconds(4));
}

TEST(FluidNetwork, AChangedRateMakesTheOldFinishStale) {
  FluidNetwork net({10});
  const ShapeId shape = net.add_shape({{r0, 1}}, uncapped, 1);
  const FlowId a = net.start(shape, 30, Time());
  const std::uint32_t old = net.resolve(Time())[0].generation;
  EXPECT_TRUE(net.current(a, old));
  (void)net.start(shape, 10, at(seconds(1)));
  const auto finishes = net.resolve(at(seconds(1)));
  ASSERT_EQ(finishes.size(), 2U);
  EXPECT_FALSE(net.current(a, old));
  for (const auto& f : finishes) EXPECT_TRUE(net.current(f.flow, f.generation));
}

TEST(FluidNetwork, OnlyFlowsWhoseRateChangesAreReported) {
  const double c = 10;
  FluidNetwork net({c, c});
  const FlowId slow = net.start(net.add_shape({{r0, 1}}, c / 10, 1), 100, Time());
  const FlowId elsewhere = net.start(net.add_shape({{r1, 1}}, uncapped, 1), 100, Time());
  EXPECT_EQ(net.resolve(Time()).size(), 2U);
  // r0 becomes contended, but the capped flow keeps its rate; r1 is not touched.
  const ShapeId greedy = net.add_shape({{r0, 1}}, uncapped, 1);
  const FlowId late = net.start(greedy, 100, at(seconds(1)));
  const auto finishes = net.resolve(at(seconds(1)));
  ASSERT_EQ(finishes.size(), 1U);
  EXPECT_EQ(finishes[0].flow, late);
  EXPECT_EQ(net.rate(slow), c / 10);
  EXPECT_EQ(net.rate(elsewhere), c);
  EXPECT_DOUBLE_EQ(net.rate(late), c - c / 10);
}

TEST(FluidNetwork, AReusedIdDoesNotReviveAnOldFinish) {
  FluidNetwork net({1});
  const ShapeId shape = net.add_shape({{r0, 1}}, uncapped, 1);
  const FlowId first = net.start(shape, 1, Time());
  const std::uint32_t old = net.resolve(Time())[0].generation;
  net.finish(first, at(seconds(1)));
  const FlowId second = net.start(shape, 1, at(seconds(1)));
  EXPECT_FALSE(net.current(first, old));
  const auto finishes = net.resolve(at(seconds(1)));
  ASSERT_EQ(finishes.size(), 1U);
  EXPECT_FALSE(net.current(second, old));
  EXPECT_TRUE(net.current(second, finishes[0].generation));
  EXPECT_EQ(finishes[0].at, at(seconds(2)));
}

// ---- saturation ----

TEST(FluidNetwork, OnlyTheBindingResourceOfALoneFlowIsSaturated) {
  FluidNetwork net({10, 20, 5});
  const FlowId flow = net.start(net.add_shape({{r0, 1}, {r1, 2}, {r2, 0.25}}, uncapped, 1), 100, Time());
  const Time end = net.resolve(Time())[0].at;
  EXPECT_EQ(end, at(seconds(100.0 / 10)));
  net.finish(flow, end);
  (void)net.resolve(end);
  EXPECT_EQ(net.saturated(r0), seconds(10));
  EXPECT_EQ(net.saturated(r1), seconds(10));  // 2 * 10 = 20 as well
  EXPECT_EQ(net.saturated(r2), seconds(0));
}

TEST(FluidNetwork, SaturationAddsUpOverGapsAndIsOpenUntilTheLastResolve) {
  const double c = 10;
  FluidNetwork net({c});
  const ShapeId half = net.add_shape({{r0, 1}}, c / 2, 1);
  const FlowId a = net.start(half, 4 * c / 2, Time());  // 0 .. 4 s
  (void)net.resolve(Time());
  const FlowId b = net.start(half, 2 * c / 2, at(seconds(1)));  // 1 .. 3 s: full
  (void)net.resolve(at(seconds(1)));
  EXPECT_EQ(net.saturated(r0), seconds(0));
  net.finish(b, at(seconds(3)));
  (void)net.resolve(at(seconds(3)));
  EXPECT_EQ(net.saturated(r0), seconds(2));
  net.finish(a, at(seconds(4)));
  (void)net.resolve(at(seconds(4)));
  const FlowId d = net.start(net.add_shape({{r0, 1}}, uncapped, 1), 5 * c, at(seconds(6)));  // 6 .. 11 s: full
  (void)net.resolve(at(seconds(6)));
  (void)net.resolve(at(seconds(8)));
  EXPECT_EQ(net.saturated(r0), seconds(2 + 2));
  net.finish(d, at(seconds(11)));
  (void)net.resolve(at(seconds(11)));
  EXPECT_EQ(net.saturated(r0), seconds(2 + 5));
}

// ---- misuse ----

TEST(FluidNetwork, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(FluidNetwork({1, 0}), std::invalid_argument);
  EXPECT_THROW(FluidNetwork({uncapped}), std::invalid_argument);
  FluidNetwork net({1, 1});
  EXPECT_THROW(net.add_shape({{r2, 1}}, uncapped, 1), std::invalid_argument);
  EXPECT_THROW(net.add_shape({{r0, 1}, {r1, 1}, {r0, 1}}, uncapped, 1), std::invalid_argument);
  EXPECT_THROW(net.add_shape({{r0, 0}}, uncapped, 1), std::invalid_argument);
  EXPECT_THROW(net.add_shape({{r0, 1}}, 0, 1), std::invalid_argument);
  EXPECT_THROW(net.add_shape({{r0, 1}}, uncapped, 0), std::invalid_argument);
  EXPECT_THROW(net.add_shape({}, uncapped, 1), std::invalid_argument);
  EXPECT_THROW(net.add_shape({{r0, 0x1p40}}, uncapped, 0x1p7), std::invalid_argument);
  EXPECT_THROW(net.add_sorted_shape(std::vector<Load>{{r1, 1}, {r0, 1}}, uncapped, 1), std::invalid_argument);
}

}  // namespace
}  // namespace foretrain
