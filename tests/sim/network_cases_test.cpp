// Do the benchmarks' cases do what they say, on ECMP fat-trees with real collisions?
#include "tests/bench/network_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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

/// The textbook's solver over every link of the fabric, anew for all flows at every end, in doubles: slow.
class SlowPlay {
 public:
  SlowPlay(const Fabric& fabric, const Traffic& traffic) : left_(traffic.bytes) {
    for (const Link& l : fabric.links()) capacity_.push_back(static_cast<double>(l.bandwidth.bytes_per_s()));
    for (std::size_t f = 0; f < left_.size(); ++f) {
      StaticFlow& flow = flows_.emplace_back();
      for (const LinkLoad& l : traffic.links.of(f)) flow.loads.push_back({ResourceId{l.link.value}, l.load});
    }
  }
  /// Seconds at which each flow ends, if all start at 0.
  std::vector<double> run() {
    std::vector<double> finish(left_.size());
    std::vector<std::size_t> moving(left_.size());
    std::iota(moving.begin(), moving.end(), std::size_t{0});
    for (double now = 0; !moving.empty();) {
      std::vector<StaticFlow> flows;
      for (const std::size_t f : moving) flows.push_back(flows_[f]);
      const std::vector<double> rates = max_min_rates(capacity_, flows);
      double step = uncapped;
      for (std::size_t i = 0; i < moving.size(); ++i) step = std::min(step, left_[moving[i]] / rates[i]);
      now += step;
      for (std::size_t i = 0; i < moving.size(); ++i) {
        left_[moving[i]] -= rates[i] * step;
        finish[moving[i]] = now;  // the last time that it was still moving
      }
      std::erase_if(moving, [&](std::size_t f) { return left_[f] < 1e-6; });  // bytes
    }
    return finish;
  }

 private:
  std::vector<double> capacity_;
  std::vector<StaticFlow> flows_;
  std::vector<double> left_;
};

void expect_the_slow_completions(const Fabric& fabric, Traffic traffic) {
  const std::vector<double> expected = SlowPlay(fabric, traffic).run();
  const auto network = network_of(fabric, traffic);
  network->check_always();
  const Outcome outcome = play_at_once(*network, traffic.bytes);
  ASSERT_EQ(outcome.flows, expected.size());
  for (std::size_t f = 0; f < expected.size(); ++f)
    EXPECT_NEAR(outcome.finish[f].seconds(), expected[f], 1e-9 * expected[f] + 1e-12) << f;
}

TEST(NetworkCases, EveryCompletionIsThatOfASlowSolverOfTheWholeSystem) {
  const Fabric fabric = fat_tree(16);
  expect_the_slow_completions(fabric, all_to_all(fabric, 1e6, 10, 1));
  expect_the_slow_completions(fabric, all_to_all(fabric, 1e6, 10, 2));
  expect_the_slow_completions(fabric, all_to_all(fabric, 1e6, 1, 3));
  const Fabric larger = fat_tree(54);
  Traffic uneven = permutation(larger, 64e6, 1);
  for (std::size_t f = 0; f < uneven.bytes.size(); ++f) uneven.bytes[f] *= 1 + static_cast<double>(f * 37 % 54);
  expect_the_slow_completions(larger, uneven);
}

TEST(NetworkCases, ARingIsMaxMinFairAfterEveryEvent) {
  const Fabric fabric = fat_tree(54);
  Traffic traffic = permutation(fabric, 1e6, 2);
  const auto network = network_of(fabric, traffic);
  network->check_always();
  EXPECT_NO_THROW((void)play_ring(*network, traffic.bytes, 20));
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
