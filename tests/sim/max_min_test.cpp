// Are the rates that the network solves max-min fair, and are times rounded by one rule?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/network.h"
#include "tests/sim/max_min_oracle.h"
#include "tests/sim/network_systems.h"

namespace foretrain {
namespace {

__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ wants a typedef

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

}  // namespace
}  // namespace foretrain
