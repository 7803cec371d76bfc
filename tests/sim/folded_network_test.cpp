// Is one flow that stands for many, to the picosecond, as if each flowed by itself?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/network.h"
#include "tests/support/any_of.h"

namespace foretrain {
namespace {

/// `copies` of a template: resources and flows of each copy by themselves, and resources that all share.
struct Copied {
  struct FlowKind {
    std::vector<Load> own;     ///< by resource of the copy
    std::vector<Load> shared;  ///< by shared resource
    double cap = uncapped;
    double weight = 1;
  };
  std::uint32_t copies = 1;
  std::vector<double> own;     ///< capacities
  std::vector<double> shared;  ///< capacities, for all copies together
  std::vector<FlowKind> flows;
  struct Start {
    std::size_t flow;
    Duration at;
    double amount;
  };
  std::vector<Start> starts;
};

std::vector<Load> some_loads(std::size_t resources, std::size_t least) {
  std::vector<Load> loads;
  for (std::size_t r = 0; r < resources; ++r)
    if (r < least || *rc::gen::inRange(0, 2) == 0)
      loads.push_back({id_at<ResourceId>(r), any_of({1.0, 1.0, 0.5, 1.0 / 3, 1.75, 0.1})});
  return loads;
}

Copied copied() {
  Copied c;
  c.copies = *rc::gen::inRange<std::uint32_t>(1, 6);
  const auto own = *rc::gen::inRange<std::size_t>(1, 5);
  const auto shared = *rc::gen::inRange<std::size_t>(0, 4);
  for (std::size_t r = 0; r < own; ++r) c.own.push_back(any_of({50e9, 50e9, 25e9, 7e9, 100e9 / 3}));
  for (std::size_t r = 0; r < shared; ++r)
    c.shared.push_back(any_of({50e9, 100e9, 13e9, 20e9 / 3}) * any_of<double>({1.0, 1.0 * c.copies}));
  const auto flows = *rc::gen::inRange<std::size_t>(1, 6);
  for (std::size_t f = 0; f < flows; ++f)
    c.flows.push_back({.own = some_loads(own, 1),
                       .shared = some_loads(shared, 0),
                       .cap = any_of({uncapped, uncapped, 11e9}),
                       .weight = any_of({1.0, 1.0, 0.25, 3.0})});
  const auto starts = *rc::gen::inRange<std::size_t>(1, 20);
  for (std::size_t i = 0; i < starts; ++i)
    c.starts.push_back({*rc::gen::inRange<std::size_t>(0, flows), picoseconds(1'000'000) * *rc::gen::inRange(0, 12),
                        any_of({1e6, 1e6, 3e6, 0.7e6, 1e5 / 3})});
  return c;
}

struct NetworkRun {
  FluidNetwork network;
  std::vector<ShapeId> shapes;          ///< by flow kind, and within it by copy
  std::vector<std::vector<Time>> ends;  ///< by start, by copy
};

/// Plays the starts `copies` times over on a network in which flow kind f of copy k has shape f * copies + k.
void play(NetworkRun& run, const std::vector<Copied::Start>& starts, std::uint32_t copies) {
  struct Running {
    std::size_t start;
    std::uint32_t copy;
  };
  std::map<std::uint32_t, Running> running;                                             // by flow
  std::multimap<std::pair<std::int64_t, int>, std::pair<FlowId, std::uint32_t>> queue;  // ends
  std::multimap<std::int64_t, std::size_t> to_start;
  for (std::size_t i = 0; i < starts.size(); ++i) to_start.insert({starts[i].at.ps(), i});
  run.ends.assign(starts.size(), std::vector<Time>(copies));
  while (!queue.empty() || !to_start.empty()) {
    std::int64_t now = INT64_MAX;
    if (!queue.empty()) now = queue.begin()->first.first;
    if (!to_start.empty()) now = std::min(now, to_start.begin()->first);
    const Time at = Time::from_start(picoseconds(now));
    for (; !queue.empty() && queue.begin()->first.first == now; queue.erase(queue.begin())) {
      const auto [flow, generation] = queue.begin()->second;
      if (!run.network.current(flow, generation)) continue;
      run.network.finish(flow, at);
      const Running& r = running.at(flow.value);
      run.ends[r.start][r.copy] = at;
    }
    for (; !to_start.empty() && to_start.begin()->first == now; to_start.erase(to_start.begin())) {
      const std::size_t i = to_start.begin()->second;
      for (std::uint32_t k = 0; k < copies; ++k) {
        const FlowId flow = run.network.start(run.shapes[starts[i].flow * copies + k], starts[i].amount, at);
        running[flow.value] = {i, k};
      }
    }
    for (const FluidNetwork::Finish& f : run.network.resolve(at)) {
      queue.insert({{f.at.since_start().ps(), 0}, {f.flow, f.generation}});
    }
  }
}

NetworkRun play_each(const Copied& c) {
  std::vector<double> capacities;
  for (std::uint32_t k = 0; k < c.copies; ++k) capacities.insert(capacities.end(), c.own.begin(), c.own.end());
  capacities.insert(capacities.end(), c.shared.begin(), c.shared.end());
  NetworkRun run{.network = FluidNetwork(capacities), .shapes = {}, .ends = {}};
  for (const Copied::FlowKind& f : c.flows)
    for (std::uint32_t k = 0; k < c.copies; ++k) {
      std::vector<Load> loads;
      for (const Load& l : f.own) loads.push_back({id_at<ResourceId>(k * c.own.size() + l.resource.index()), l.load});
      for (const Load& l : f.shared)
        loads.push_back({id_at<ResourceId>(c.copies * c.own.size() + l.resource.index()), l.load});
      run.shapes.push_back(run.network.add_shape(loads, f.cap, f.weight));
    }
  play(run, c.starts, c.copies);
  return run;
}

NetworkRun play_once(const Copied& c) {
  std::vector<double> capacities = c.own;
  capacities.insert(capacities.end(), c.shared.begin(), c.shared.end());
  NetworkRun run{.network = FluidNetwork(capacities), .shapes = {}, .ends = {}};
  for (const Copied::FlowKind& f : c.flows) {
    std::vector<Load> loads = f.own;
    for (const Load& l : f.shared)
      loads.push_back({id_at<ResourceId>(c.own.size() + l.resource.index()), l.load, c.copies});
    run.shapes.push_back(run.network.add_shape(loads, f.cap, f.weight));
  }
  play(run, c.starts, 1);
  return run;
}

RC_GTEST_PROP(FoldedNetwork, n_flows_and_one_flow_for_n_end_at_the_same_picosecond, ()) {
  const Copied c = copied();
  const NetworkRun each = play_each(c);
  const NetworkRun once = play_once(c);
  for (std::size_t i = 0; i < c.starts.size(); ++i)
    for (const Time end : each.ends[i]) RC_ASSERT(end == once.ends[i][0]);
  for (std::size_t r = 0; r < c.own.size() * c.copies; ++r)
    RC_ASSERT(each.network.saturated(id_at<ResourceId>(r)) ==
              once.network.saturated(id_at<ResourceId>(r % c.own.size())));
  for (std::size_t r = 0; r < c.shared.size(); ++r)
    RC_ASSERT(each.network.saturated(id_at<ResourceId>(c.own.size() * c.copies + r)) ==
              once.network.saturated(id_at<ResourceId>(c.own.size() + r)));
}

/// Two resources, flows that load the one by 1 and the other by 2, and as many the other way round: one class each.
TEST(FoldedNetwork, one_flow_may_load_a_class_of_resources_in_two_ways) {
  FluidNetwork each({30, 30});
  std::vector<FlowId> flows;
  for (int i = 0; i < 4; ++i) {
    const double first = i % 2 == 0 ? 1 : 2;
    flows.push_back(
        each.start(each.add_shape({{ResourceId{0}, first}, {ResourceId{1}, 3 - first}}, uncapped, 1), 1, {}));
  }
  static_cast<void>(each.resolve({}));
  FluidNetwork once({30});
  const FlowId all = once.start(once.add_shape({{ResourceId{0}, 1, 2}, {ResourceId{0}, 2, 2}}, uncapped, 1), 1, {});
  static_cast<void>(once.resolve({}));
  for (const FlowId f : flows) EXPECT_EQ(each.rate(f), 30.0 / 6);
  EXPECT_EQ(once.rate(all), 30.0 / 6);
}

TEST(FoldedNetwork, refuses_one_load_of_one_resource_twice_and_none_at_all) {
  FluidNetwork network({30});
  EXPECT_THROW(network.add_shape({{ResourceId{0}, 1, 2}, {ResourceId{0}, 1, 3}}, uncapped, 1), std::invalid_argument);
  EXPECT_THROW(network.add_shape({{ResourceId{0}, 1, 0}}, uncapped, 1), std::invalid_argument);
  EXPECT_THROW(network.add_shape({{ResourceId{0}, 1, 1U << 31}}, uncapped, 1), std::invalid_argument);
}

}  // namespace
}  // namespace foretrain
