// Network: fluid transfers that share capacity max-min fairly.
//
// The solver knows *resources* with a capacity and *flows* that use them. A flow of rate x loads resource r with
// load(r) * x; it may have a rate cap of its own. Rates are the weighted max-min fair ones: x is lexicographically
// maximal in x / weight, so every flow has a bottleneck (a full resource on which no other flow has a larger x / weight,
// or its own cap) and no resource is above its capacity. Rates are recomputed only for the flows connected, through
// shared resources, to one that started or ended.
//
//   FluidNetwork net({50e9, 50e9});                               // capacities, units a second
//   auto shape = net.add_shape({{0, 1.0}, {1, 1.0}}, cap, weight);  // once a communicator and algorithm
//   auto flow = net.start(shape, 1e9, now);                       // 1e9 units to move
//   for (auto [flow, finish] : net.resolve(now)) queue.push(finish, flow);   // (re)scheduled finishes
//   net.finish(flow, finish);
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "topology/ids.h"
#include "topology/units.h"

namespace foretrain {

using ResourceId = Id<struct ResourceTag>;
using ShapeId = Id<struct ShapeTag>;
using FlowId = Id<struct FlowTag>;

/// How one unit of a flow's progress loads one resource.
struct Load {
  ResourceId resource;
  double load = 0;               ///< > 0
};

inline constexpr double uncapped = std::numeric_limits<double>::infinity();

/// Time to move `amount` at `rate` units a second, rounded to the nearest picosecond: the one rounding rule of the
/// fluid and the analytic network.
[[nodiscard]] Duration fluid_time(double amount, double rate);

class FluidNetwork {
 public:
  explicit FluidNetwork(std::vector<double> capacities);

  /// Registers what flows of one kind load. At most one entry a resource. `weight` > 0.
  ShapeId add_shape(std::vector<Load> loads, double rate_cap, double weight);
  /// Rate of a flow of this shape alone on the network: min(cap, capacity / load).
  [[nodiscard]] double idle_rate(ShapeId shape) const;

  /// A flow of `amount` > 0 units begins now. Its rate is known after `resolve`.
  FlowId start(ShapeId shape, double amount, Time now);
  /// Ends a flow at the time last reported for it. Its id may be reused by a later start.
  void finish(FlowId flow, Time now);

  struct Finish {
    FlowId flow;
    std::uint32_t generation;    ///< a later Finish of the same flow, or its end, makes this one stale
    Time at;
  };
  /// Re-shares what the starts and ends since the last call touched, and returns the flows whose finish time changed,
  /// in a deterministic order. Call once an instant, after all starts and ends at `now`. The span lives until the next call.
  [[nodiscard]] std::span<const Finish> resolve(Time now);
  [[nodiscard]] bool current(FlowId flow, std::uint32_t generation) const;

  [[nodiscard]] double rate(FlowId flow) const;
  /// Time during which a resource was full (within 1e-9 of its capacity), up to the last resolve.
  [[nodiscard]] Duration saturated(ResourceId resource) const;
  [[nodiscard]] std::uint64_t resolves() const;       ///< solves of a component with more than one flow
  [[nodiscard]] std::uint64_t active() const;

 private:
  // (filled in by network.cpp's author)
};

/// The solver by itself, for tests and for one-off questions: weighted max-min rates of a fixed set of flows.
struct StaticFlow {
  std::vector<Load> loads;
  double rate_cap = uncapped;
  double weight = 1;
};
[[nodiscard]] std::vector<double> max_min_rates(std::span<const double> capacities, std::span<const StaticFlow> flows);

}  // namespace foretrain
