// Does the fluid network share as max-min fairness says, keep time to the picosecond, and account for what it moved?
#include "sim/network.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>

#include "tests/sim/max_min_oracle.h"

namespace foretrain {
namespace {

__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ wants a typedef

constexpr ResourceId r0{0};
constexpr ResourceId r1{1};
constexpr ResourceId r2{2};

Time at(Duration d) { return Time::from_start(d); }

struct System {
  std::vector<double> capacities;
  std::vector<StaticFlow> flows;
};

/// Rates of the system's flows, all started at once on a FluidNetwork.
std::vector<double> network_rates(const System& s) {
  FluidNetwork net(s.capacities);
  std::vector<FlowId> ids;
  for (const StaticFlow& f : s.flows) ids.push_back(net.start(net.add_shape(f.loads, f.rate_cap, f.weight), 1, Time()));
  (void)net.resolve(Time());
  std::vector<double> rates;
  rates.reserve(ids.size());
  for (const FlowId id : ids) rates.push_back(net.rate(id));
  return rates;
}

void expect_rates(const System& s, const std::vector<double>& expected) {
  const std::vector<double> by_network = network_rates(s);
  const std::vector<double> by_filling = max_min_rates(s.capacities, s.flows);
  ASSERT_EQ(by_network.size(), expected.size());
  for (std::size_t f = 0; f < expected.size(); ++f) {
    EXPECT_NEAR(by_network[f], expected[f], 1e-12 * expected[f]) << "network, flow " << f;
    EXPECT_NEAR(by_filling[f], expected[f], 1e-12 * expected[f]) << "filling, flow " << f;
  }
}

// ---- one rounding rule ----

/// Uniform over the whole range from the first case on; plain inRange begins with small numbers only.
template <class T>
rc::Gen<T> uniform(T from, T to) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(from, to));
}

TEST(FluidTime, RoundsToTheNearestPicosecondHalvesUp) {
  const double rate = 2e12;  // half a picosecond a unit
  EXPECT_EQ(fluid_time(0, rate), picoseconds(0));
  EXPECT_EQ(fluid_time(0.999, rate), picoseconds(0));
  EXPECT_EQ(fluid_time(1, rate), picoseconds(1));
  EXPECT_EQ(fluid_time(2, rate), picoseconds(1));
  EXPECT_EQ(fluid_time(3, rate), picoseconds(2));
  EXPECT_EQ(fluid_time(5, rate), picoseconds(3));
}

TEST(FluidTime, RefusesWhatInt64CannotHold) {
  EXPECT_EQ(fluid_time(9e6, 1), picoseconds(9'000'000'000'000'000'000));
  EXPECT_THROW((void)fluid_time(1e7, 1), std::overflow_error);
  EXPECT_THROW((void)fluid_time(1, 0), std::overflow_error);
  EXPECT_THROW((void)fluid_time(0, 0), std::overflow_error);
}

/// 1 .. 2^bits, all magnitudes alike.
rc::Gen<std::int64_t> random_count(int bits) {
  return rc::gen::mapcat(uniform(1, bits + 1),
                         [](int b) { return uniform<std::int64_t>(1, (std::int64_t{1} << b) + 1); });
}

RC_GTEST_PROP(FluidTime, IsTheRoundedRational, ()) {
  for (int i = 0; i < 1000; ++i) {
    const auto amount = *random_count(50);
    const auto rate = *random_count(43);
    const Wide exact = (2 * Wide{amount} * 1'000'000'000'000 + rate) / (2 * Wide{rate});  // floor(x + 1/2)
    if (exact > Wide{9'000'000'000'000'000'000}) continue;
    RC_ASSERT(fluid_time(static_cast<double>(amount), static_cast<double>(rate)).ps() ==
              static_cast<std::int64_t>(exact));
  }
}

// ---- small systems with known answers ----

TEST(MaxMin, FlowsOnOneResourceShareByWeight) {
  const double c = 100;
  expect_rates({.capacities = {c}, .flows = {{.loads = {{r0, 1}}}, {.loads = {{r0, 1}}}, {.loads = {{r0, 1}}}}},
               {c / 3, c / 3, c / 3});
  expect_rates({.capacities = {c}, .flows = {{.loads = {{r0, 1}}, .weight = 1}, {.loads = {{r0, 1}}, .weight = 3}}},
               {c * 1 / 4, c * 3 / 4});
}

TEST(MaxMin, LoadCountsAgainstCapacityNotAgainstFairness) {
  const double c = 100;  // x = y, 2 x + y = c
  expect_rates({.capacities = {c}, .flows = {{.loads = {{r0, 2}}}, {.loads = {{r0, 1}}}}}, {c / 3, c / 3});
}

TEST(MaxMin, LoadAndWeightTogether) {
  const double c = 60;  // x = 2 l, y = 3 l, 0.5 x + 4 y = c
  const double level = c / (0.5 * 2 + 4 * 3);
  expect_rates({.capacities = {c}, .flows = {{.loads = {{r0, 0.5}}, .weight = 2}, {.loads = {{r0, 4}}, .weight = 3}}},
               {2 * level, 3 * level});
}

TEST(MaxMin, ParkingLot) {
  const double c = 8;  // one long flow over all links, one short flow on each
  expect_rates({.capacities = {c, c, c},
                .flows = {{.loads = {{r0, 1}, {r1, 1}, {r2, 1}}},
                          {.loads = {{r0, 1}}},
                          {.loads = {{r1, 1}}},
                          {.loads = {{r2, 1}}}}},
               {c / 2, c / 2, c / 2, c / 2});
}

TEST(MaxMin, WhatASlowLinkLeavesGoesToTheOthers) {
  const double slow = 1;
  const double fast = 10;
  expect_rates({.capacities = {slow, fast},
                .flows = {{.loads = {{r0, 1}, {r1, 1}}}, {.loads = {{r0, 1}}}, {.loads = {{r1, 1}}}}},
               {slow / 2, slow / 2, fast - slow / 2});
}

TEST(MaxMin, LevelsRiseAlongAChain) {
  // Link 0 stops a and b, what a leaves of link 1 stops c, what c leaves of link 2 goes to d.
  const double c0 = 2;
  const double c1 = 5;
  const double c2 = 20;
  const double a = c0 / 2;
  const double c = c1 - a;
  expect_rates({.capacities = {c0, c1, c2},
                .flows = {{.loads = {{r0, 1}, {r1, 1}}},
                          {.loads = {{r0, 1}}},
                          {.loads = {{r1, 1}, {r2, 1}}},
                          {.loads = {{r2, 1}}}}},
               {a, a, c, c2 - c});
}

TEST(MaxMin, ACapLeavesTheRestToTheOthers) {
  const double c = 90;
  const double cap = 10;
  expect_rates(
      {.capacities = {c}, .flows = {{.loads = {{r0, 1}}, .rate_cap = cap}, {.loads = {{r0, 1}}}, {.loads = {{r0, 1}}}}},
      {cap, (c - cap) / 2, (c - cap) / 2});
  expect_rates({.capacities = {c},  // caps of different height, given in no order
                .flows = {{.loads = {{r0, 1}}, .rate_cap = 20},
                          {.loads = {{r0, 1}}, .rate_cap = 5},
                          {.loads = {{r0, 1}}},
                          {.loads = {{r0, 1}}, .rate_cap = 10}}},
               {20, 5, c - 20 - 5 - 10, 10});
}

TEST(MaxMin, AFlowMayHaveNothingButACap) {
  expect_rates({.capacities = {1}, .flows = {{.loads = {}, .rate_cap = 7}}}, {7});
  EXPECT_THROW((void)max_min_rates(std::vector<double>{1.0}, std::vector<StaticFlow>{{}}), std::invalid_argument);
}

TEST(MaxMin, HeavyAndLightWeightsKeepTheirDigits) {
  // The heavy flow stops at link 1; then two light ones share the rest of link 0.
  const double heavy = 1e12;
  const double c0 = 100;
  const double c1 = 40;
  const double light = (c0 - c1 / 2) / (1 + 0.3);
  expect_rates({.capacities = {c0, c1},
                .flows = {{.loads = {{r0, 1}, {r1, 1}}, .weight = heavy},
                          {.loads = {{r1, 1}}, .weight = heavy},
                          {.loads = {{r0, 1}}, .weight = 1},
                          {.loads = {{r0, 1}}, .weight = 0.3}}},
               {c1 / 2, c1 / 2, light, 0.3 * light});
}

// ---- random systems ----

struct Size {
  std::size_t flows_max = 8;
  std::size_t resources_max = 8;
  int absent = 8;  ///< weight of "no load" against 12 for a load
};

std::vector<Load> random_loads(std::size_t resources, int absent) {
  const auto quarters = *rc::gen::container<std::vector<int>>(resources, uniform(1 - absent, 13));
  std::vector<Load> loads;
  for (std::size_t r = 0; r < resources; ++r) {
    if (quarters[r] > 0) loads.push_back({id_at<ResourceId>(r), quarters[r] * 0.25});
  }
  return loads;
}

/// Capacities 1..100, loads 1/4..3, weights 1/2..4, about every third flow capped.
System random_system(const Size& size = {}) {
  System s;
  const auto resources = *uniform<std::size_t>(1, size.resources_max + 1);
  const auto flows = *uniform<std::size_t>(1, size.flows_max + 1);
  for (std::size_t r = 0; r < resources; ++r) s.capacities.push_back(*uniform(1, 101));
  for (std::size_t f = 0; f < flows; ++f) {
    StaticFlow flow;
    flow.loads = random_loads(resources, size.absent);
    flow.weight = *uniform(1, 9) * 0.5;
    if (flow.loads.empty() || *uniform(0, 3) == 0) flow.rate_cap = *uniform(1, 51);
    s.flows.push_back(std::move(flow));
  }
  return s;
}

/// RapidCheck runs a property 100 times; each time with this many systems.
void for_random_systems(const std::function<void(const System&)>& property) {
  for (int i = 0; i < 10; ++i) property(random_system());
}

std::vector<double> used_of(const System& s, const std::vector<double>& rates) {
  std::vector<double> used(s.capacities.size(), 0.0);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    for (const Load& l : s.flows[f].loads) used[l.resource.index()] += l.load * rates[f];
  }
  return used;
}

/// A full resource on which no other flow has a larger x / weight, or the flow's own cap.
bool has_bottleneck(const System& s, const std::vector<double>& rates, const std::vector<double>& used, std::size_t f) {
  if (rates[f] >= s.flows[f].rate_cap * (1 - 1e-9)) return true;
  const auto level = [&](std::size_t g) { return rates[g] / s.flows[g].weight; };
  return std::any_of(s.flows[f].loads.begin(), s.flows[f].loads.end(), [&](const Load& mine) {
    const std::size_t r = mine.resource.index();
    if (used[r] < s.capacities[r] * (1 - 1e-9)) return false;
    for (std::size_t g = 0; g < rates.size(); ++g) {
      const auto& loads = s.flows[g].loads;
      const bool there =
          std::any_of(loads.begin(), loads.end(), [&](const Load& l) { return l.resource == mine.resource; });
      if (there && level(g) > level(f) * (1 + 1e-9)) return false;
    }
    return true;
  });
}

RC_GTEST_PROP(MaxMin, EveryFlowHasABottleneckAndNoResourceIsOverfull, ()) {
  for_random_systems([](const System& s) {
    const std::vector<double> rates = network_rates(s);
    const std::vector<double> used = used_of(s, rates);
    for (std::size_t r = 0; r < used.size(); ++r) RC_ASSERT(used[r] <= s.capacities[r] * (1 + 1e-9));
    for (std::size_t f = 0; f < rates.size(); ++f) {
      RC_ASSERT(rates[f] <= s.flows[f].rate_cap);
      RC_ASSERT(has_bottleneck(s, rates, used, f));
    }
  });
}

RC_GTEST_PROP(MaxMin, IsTheLexicographicOptimumByLinearProgramming, ()) {
  for_random_systems([](const System& s) {
    const std::vector<double> rates = network_rates(s);
    const std::vector<double> filled = max_min_rates(s.capacities, s.flows);
    const std::vector<double> oracle = max_min_rates_by_lp(s.capacities, s.flows);
    for (std::size_t f = 0; f < rates.size(); ++f) {
      RC_ASSERT(std::abs(rates[f] - oracle[f]) <= 1e-5 * (1 + oracle[f]));
      RC_ASSERT(std::abs(filled[f] - rates[f]) <= 1e-9 * rates[f]);
    }
  });
}

RC_GTEST_PROP(MaxMin, TheHeapFillsLargerSystemsAsTheTextbookDoes, ()) {
  const System s = random_system({.flows_max = 80, .resources_max = 40, .absent = 100});
  const std::vector<double> rates = network_rates(s);
  const std::vector<double> filled = max_min_rates(s.capacities, s.flows);
  for (std::size_t f = 0; f < rates.size(); ++f) RC_ASSERT(std::abs(filled[f] - rates[f]) <= 1e-9 * rates[f]);
}

std::vector<double> sorted_levels(const System& s) {
  std::vector<double> levels = network_rates(s);
  for (std::size_t f = 0; f < levels.size(); ++f) levels[f] /= s.flows[f].weight;
  std::sort(levels.begin(), levels.end());
  return levels;
}

/// a >= b lexicographically, where a relative difference below 1e-9 counts as none.
bool at_least(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-9 * b[i]) return a[i] > b[i];
  }
  return true;
}

// More room gives no worse sorted vector of levels, for the old optimum is still allowed. (A single flow may well lose:
// another, freed from its bottleneck, comes and shares this one's.)
RC_GTEST_PROP(MaxMin, MoreCapacityIsLexicographicallyNoWorse, ()) {
  for_random_systems([](const System& s) {
    System more = s;
    more.capacities[*uniform<std::size_t>(0, s.capacities.size())] *= 1 + *uniform(1, 100) * 0.02;
    RC_ASSERT(at_least(sorted_levels(more), sorted_levels(s)));
  });
}

RC_GTEST_PROP(MaxMin, AnotherFlowNeverRaisesTheLowestLevelOfTheOthers, ()) {
  for_random_systems([](const System& s) {
    if (s.flows.size() == 1) return;
    System fewer = s;
    fewer.flows.pop_back();
    RC_ASSERT(sorted_levels(s).front() <= sorted_levels(fewer).front() * (1 + 1e-9));
  });
}

RC_GTEST_PROP(MaxMin, OnOneResourceAnotherFlowNeverSpeedsUpAnyone, ()) {
  for_random_systems([](System s) {
    for (StaticFlow& f : s.flows) f.loads = {{r0, *uniform(1, 13) * 0.25}};
    const std::vector<double> rates = network_rates(s);
    s.flows.pop_back();
    const std::vector<double> fewer = network_rates(s);
    for (std::size_t f = 0; f < fewer.size(); ++f) RC_ASSERT(rates[f] <= fewer[f] * (1 + 1e-12));
  });
}

// ---- flows that come and go ----

/// One flow to play: the kind of flow is an index into System::flows.
struct Arrival {
  std::size_t kind = 0;
  double amount = 1;
  Time start;
};

struct Played {
  std::vector<Time> finish;   ///< by arrival
  std::vector<double> moved;  ///< by arrival: the integral of its rate
  std::vector<double> last_rate;
  std::vector<Duration> full;                                             ///< by resource: integrated from the rates
  std::vector<Duration> saturated;                                        ///< by resource: as the network says
  std::vector<std::tuple<Time, std::uint32_t, std::uint32_t, Time>> log;  ///< what resolve returned
  double disagreement = 0;  ///< of a rate with max_min_rates, relative, at any instant
};

/// Plays arrivals to the end, as the simulator would, and watches.
class Play {
 public:
  Play(const System& system, const std::vector<Arrival>& arrivals)
      : system_(system), arrivals_(arrivals), net_(system.capacities) {
    net_.check_always();
    for (const StaticFlow& f : system.flows) shapes_.push_back(net_.add_shape(f.loads, f.rate_cap, f.weight));
    for (std::size_t a = 0; a < arrivals.size(); ++a) starts_.emplace(arrivals[a].start, a);
    played_.finish.resize(arrivals.size());
    played_.moved.resize(arrivals.size(), 0.0);
    played_.last_rate.resize(arrivals.size(), 0.0);
    played_.full.resize(system.capacities.size());
  }

  /// Leaves out the static solver, which takes most of the time.
  Play& without_comparing() {
    compares_ = false;
    return *this;
  }

  Played run() {
    while (!starts_.empty() || !finishes_.empty()) {
      Time next = starts_.empty() ? std::get<0>(*finishes_.begin()) : starts_.begin()->first;
      if (!finishes_.empty()) next = std::min(next, std::get<0>(*finishes_.begin()));
      watch(next - now_);
      now_ = next;
      finish_flows();
      start_flows();
      for (const auto& f : net_.resolve(now_)) {
        finishes_.emplace(f.at, f.flow, f.generation);
        played_.log.emplace_back(now_, f.flow.value, f.generation, f.at);
      }
      drop_stale();
      if (compares_) compare();
    }
    EXPECT_EQ(net_.active(), 0U);
    for (std::size_t r = 0; r < system_.capacities.size(); ++r) {
      played_.saturated.push_back(net_.saturated(id_at<ResourceId>(r)));
    }
    return std::move(played_);
  }

 private:
  void watch(Duration d) {
    std::vector<double> used(system_.capacities.size(), 0.0);
    for (const auto& [flow, a] : active_) {
      played_.moved[a] += net_.rate(flow) * d.seconds();
      played_.last_rate[a] = net_.rate(flow);
      for (const Load& l : system_.flows[arrivals_[a].kind].loads) used[l.resource.index()] += l.load * net_.rate(flow);
    }
    for (std::size_t r = 0; r < used.size(); ++r) {
      if (used[r] >= system_.capacities[r] * (1 - 1e-9)) played_.full[r] += d;
    }
  }
  void finish_flows() {
    while (!finishes_.empty() && std::get<0>(*finishes_.begin()) == now_) {
      const auto [time, flow, generation] = *finishes_.begin();
      finishes_.erase(finishes_.begin());
      if (!net_.current(flow, generation)) continue;
      net_.finish(flow, now_);
      EXPECT_FALSE(net_.current(flow, generation));
      played_.finish[active_.at(flow)] = now_;
      active_.erase(flow);
    }
  }
  void start_flows() {
    while (!starts_.empty() && starts_.begin()->first == now_) {
      const std::size_t a = starts_.begin()->second;
      starts_.erase(starts_.begin());
      active_.emplace(net_.start(shapes_[arrivals_[a].kind], arrivals_[a].amount, now_), a);
    }
    EXPECT_EQ(net_.active(), active_.size());
  }
  void drop_stale() {
    while (!finishes_.empty() && !net_.current(std::get<1>(*finishes_.begin()), std::get<2>(*finishes_.begin()))) {
      finishes_.erase(finishes_.begin());
    }
  }
  void compare() {
    std::vector<StaticFlow> flows;
    for (const auto& [flow, a] : active_) flows.push_back(system_.flows[arrivals_[a].kind]);
    const std::vector<double> expected = max_min_rates(system_.capacities, flows);
    std::size_t i = 0;
    for (const auto& [flow, a] : active_) {
      played_.disagreement = std::max(played_.disagreement, std::abs(net_.rate(flow) / expected[i] - 1));
      ++i;
    }
  }

  const System& system_;
  const std::vector<Arrival>& arrivals_;
  FluidNetwork net_;
  std::vector<ShapeId> shapes_;
  std::set<std::pair<Time, std::size_t>> starts_;
  std::set<std::tuple<Time, FlowId, std::uint32_t>> finishes_;
  std::map<FlowId, std::size_t> active_;
  Time now_;
  bool compares_ = true;
  Played played_;
};

Played play(const System& s, const std::vector<Arrival>& arrivals) { return Play(s, arrivals).run(); }

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
