// Small systems of resources and flows, and what max-min fairness says of their rates: what the tests of the solver and
// of the network draw from.
#pragma once

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "sim/network.h"

namespace foretrain {

inline constexpr ResourceId r0{0};
inline constexpr ResourceId r1{1};
inline constexpr ResourceId r2{2};

inline Time at(Duration d) { return Time::from_start(d); }

struct System {
  std::vector<double> capacities;
  std::vector<StaticFlow> flows;
};

/// Rates of the system's flows, all started at once on a FluidNetwork.
inline std::vector<double> network_rates(const System& s) {
  FluidNetwork net(s.capacities);
  std::vector<FlowId> ids;
  for (const StaticFlow& f : s.flows) ids.push_back(net.start(net.add_shape(f.loads, f.rate_cap, f.weight), 1, Time()));
  (void)net.resolve(Time());
  std::vector<double> rates;
  rates.reserve(ids.size());
  for (const FlowId id : ids) rates.push_back(net.rate(id));
  return rates;
}

/// Uniform over the whole range from the first case on; plain inRange begins with small numbers only.
template <class T>
rc::Gen<T> uniform(T from, T to) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(from, to));
}

struct Size {
  std::size_t flows_max = 8;
  std::size_t resources_max = 8;
  int absent = 8;  ///< weight of "no load" against 12 for a load
};

inline std::vector<Load> random_loads(std::size_t resources, int absent) {
  const auto quarters = *rc::gen::container<std::vector<int>>(resources, uniform(1 - absent, 13));
  std::vector<Load> loads;
  for (std::size_t r = 0; r < resources; ++r) {
    if (quarters[r] > 0) loads.push_back({id_at<ResourceId>(r), quarters[r] * 0.25});
  }
  return loads;
}

/// Capacities 1..100, loads 1/4..3, weights 1/2..4, about every third flow capped.
inline System random_system(const Size& size = {}) {
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
inline void for_random_systems(const std::function<void(const System&)>& property) {
  for (int i = 0; i < 10; ++i) property(random_system());
}

inline std::vector<double> used_of(const System& s, const std::vector<double>& rates) {
  std::vector<double> used(s.capacities.size(), 0.0);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    for (const Load& l : s.flows[f].loads) used[l.resource.index()] += l.load * rates[f];
  }
  return used;
}

/// A full resource on which no other flow has a larger x / weight, or the flow's own cap.
inline bool has_bottleneck(const System& s, const std::vector<double>& rates, const std::vector<double>& used,
                           std::size_t f) {
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

}  // namespace foretrain
