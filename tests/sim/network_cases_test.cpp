// Do the benchmarks' cases do what they say, on ECMP fat-trees with real collisions?
#include "tests/bench/network_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace foretrain::bench {
namespace {

constexpr double nic = 50e9;  // bytes a second

/// Rates from every link of the fabric, unreduced, by the textbook's solver.
std::vector<double> rates_by_links(const Fabric& fabric, const LinkTable& links) {
  std::vector<double> capacity;
  for (const Link& l : fabric.links()) capacity.push_back(static_cast<double>(l.bandwidth.bytes_per_s()));
  std::vector<StaticFlow> flows(links.shapes());
  for (std::size_t f = 0; f < flows.size(); ++f)
    for (const LinkLoad& l : links.of(f)) flows[f].loads.push_back({ResourceId{l.link.value}, l.load});
  return max_min_rates(capacity, flows);
}

void expect_first_rates_to_the_end(const Fabric& fabric, Traffic traffic) {
  const std::vector<double> rates = rates_by_links(fabric, traffic.links);
  const std::set<double> levels(rates.begin(), rates.end());
  EXPECT_GT(levels.size(), 3U) << "nothing collides: a poor case";
  const auto network = network_of(fabric, traffic);
  const Outcome outcome = play_at_once(*network, traffic.bytes);
  EXPECT_EQ(outcome.flows, rates.size());
  for (std::size_t f = 0; f < rates.size(); ++f) {
    const double expected = traffic.bytes[f] / rates[f];
    EXPECT_NEAR(outcome.finish[f].seconds(), expected, 1e-9 * expected + 0.5e-12) << f;  // and a picosecond's rounding
  }
}

TEST(NetworkCases, EqualFlowsKeepTheirMaxMinRates) {
  const Fabric fabric = fat_tree(54);
  expect_first_rates_to_the_end(fabric, permutation(fabric, 64e6, 1));
  const Fabric small = fat_tree(20);
  expect_first_rates_to_the_end(small, all_to_all(small, 1e6, 1, 1));
}

TEST(NetworkCases, UnevenSizesMoveAllBytesWithinTheBoundsOfTheNics) {
  const Fabric fabric = fat_tree(16);
  Traffic traffic = all_to_all(fabric, 1e6, 10, 1);
  const auto [least, most] = std::minmax_element(traffic.bytes.begin(), traffic.bytes.end());
  EXPECT_GT(*most, 50 * *least);
  const auto network = network_of(fabric, traffic);
  const Outcome outcome = play_at_once(*network, traffic.bytes);
  EXPECT_EQ(outcome.flows, traffic.bytes.size());
  EXPECT_GT(network->rerated(), traffic.bytes.size());
  const std::size_t peers = fabric.gpu_count() - 1;
  for (std::size_t from = 0; from <= peers; ++from) {
    double bytes = 0;
    Time end;
    for (std::size_t f = from * peers; f < (from + 1) * peers; ++f) {
      bytes += traffic.bytes[f];
      end = std::max(end, outcome.finish[f]);
    }
    EXPECT_GE(end.seconds(), bytes / nic * (1 - 1e-9));
  }
}

TEST(NetworkCases, ARingSendsEveryStepAndIsNoFasterThanItsNics) {
  const Fabric fabric = fat_tree(54);
  Traffic traffic = permutation(fabric, 1e6, 1);
  const std::size_t n = traffic.bytes.size();
  const auto steps = static_cast<std::uint32_t>(2 * (n - 1));
  const double slowest =
      *std::min_element(traffic.bytes.begin(), traffic.bytes.end()) / nic;  // of a step on an idle network
  const std::vector<double> rates = rates_by_links(fabric, traffic.links);
  const auto network = network_of(fabric, traffic);
  const Outcome outcome = play_ring(*network, traffic.bytes, steps);
  EXPECT_EQ(outcome.flows, n * steps);
  const double end = std::max_element(outcome.finish.begin(), outcome.finish.end())->seconds();
  EXPECT_GE(end, steps * slowest * (1 - 1e-9));
  // A host has one flow at most, and fewer flows never lower the lowest rate: no send takes longer than the slowest of
  // all flows at once, and no step waits for more than the step before.
  const double in_step = 1e6 / *std::min_element(rates.begin(), rates.end());
  EXPECT_LE(end, steps * in_step * (1 + 1e-9));
}

}  // namespace
}  // namespace foretrain::bench
