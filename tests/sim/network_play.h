// Flows that come and go on a network, played as the simulator would, and watched.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/sim/network_systems.h"

namespace foretrain {

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

inline Played play(const System& s, const std::vector<Arrival>& arrivals) { return Play(s, arrivals).run(); }

}  // namespace foretrain
