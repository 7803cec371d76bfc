// Network: fluid transfers that share capacity max-min fairly.
//
// The solver knows *resources* with a capacity and *flows* that use them. A flow of rate x loads resource r with
// load(r) * x; it may have a rate cap of its own. Rates are the weighted max-min fair ones: x is lexicographically
// maximal in x / weight, so every flow has a bottleneck (a full resource on which no other flow has a larger
// x / weight, or its own cap) and no resource is above its capacity. Rates are recomputed only for the flows connected
// to one that started or ended through resources that cannot carry all their flows at full speed; a flow on none of
// those has its idle rate, to the bit, and costs time in proportion to its resources only.
//
//   FluidNetwork net({50e9, 50e9});                               // capacities, units a second
//   auto shape = net.add_shape({{0, 1.0}, {1, 1.0}}, cap, weight);  // once a communicator and algorithm
//   auto flow = net.start(shape, 1e9, now);                       // 1e9 units to move
//   for (auto [flow, generation, at] : net.resolve(now)) queue.push(at, flow, generation);   // (re)scheduled finishes
//   if (net.current(flow, generation)) net.finish(flow, at);      // when the queue comes to it
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
  double load = 0;  ///< > 0
};

inline constexpr double uncapped = std::numeric_limits<double>::infinity();

/// Time to move `amount` at `rate` units a second, rounded to the nearest picosecond: the one rounding rule of the
/// fluid and the analytic network.
[[nodiscard]] Duration fluid_time(double amount, double rate);

class FluidNetwork {
 public:
  explicit FluidNetwork(std::vector<double> capacities);

  /// Registers what flows of one kind load. At most one entry a resource. `weight` > 0.
  /// Throws std::invalid_argument for a load, cap or weight that is not positive, a resource that is not there or is
  /// given twice, and a shape that nothing limits.
  ShapeId add_shape(std::vector<Load> loads, double rate_cap, double weight);
  /// Rate of a flow of this shape alone on the network: min(cap, capacity / load).
  [[nodiscard]] double idle_rate(ShapeId shape) const;

  /// A flow of `amount` > 0 units begins now. Its rate is known after `resolve`.
  FlowId start(ShapeId shape, double amount, Time now);
  /// Ends a flow at the time last reported for it. Its id may be reused by a later start.
  void finish(FlowId flow, Time now);

  struct Finish {
    FlowId flow;
    std::uint32_t generation;  ///< a later Finish of the same flow, or its end, makes this one stale
    Time at;
  };
  /// Re-shares what the starts and ends since the last call touched, and returns the flows whose finish time changed,
  /// in a deterministic order. Call once an instant, after all starts and ends at `now`. The span lives until the next
  /// call.
  [[nodiscard]] std::span<const Finish> resolve(Time now);
  [[nodiscard]] bool current(FlowId flow, std::uint32_t generation) const;

  [[nodiscard]] double rate(FlowId flow) const;
  /// Time during which a resource was full (within 1e-9 of its capacity), up to the last resolve.
  [[nodiscard]] Duration saturated(ResourceId resource) const;
  [[nodiscard]] std::uint64_t resolves() const;  ///< solves of a component with more than one flow
  [[nodiscard]] std::uint64_t active() const;

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct ShapeLoad {
    double load = 0;
    std::int64_t share = 0;  ///< of the resource that one flow at its idle rate takes, in units of `whole`
    std::uint32_t resource = 0;
  };
  struct Shape {
    double idle_rate = 0;
    double weight = 1;
    std::uint32_t loads_begin = 0;  ///< into loads_
    std::uint32_t loads_count = 0;
    std::uint32_t free_flow = none;  ///< head of the list of its ended flows, linked by Flow::next_free
  };
  struct Flow {
    double remaining = 0;  ///< at `updated`
    double rate = 0;       ///< 0 until the first resolve
    Time updated;
    std::uint64_t visited = 0;  ///< last resolve that looked at it
    std::uint64_t frozen = 0;   ///< last resolve that filled water up to its rate
    std::uint32_t shape = 0;
    std::uint32_t generation = 0;
    std::uint32_t places_begin = 0;  ///< into places_, one a load
    std::uint32_t next_free = none;
  };
  /// A flow on a resource.
  struct Member {
    double load = 0;
    std::uint32_t flow = 0;
    std::uint32_t place = 0;  ///< where places_ says which position this member has
  };
  struct Resource {
    double capacity = 0;
    std::int64_t demand = 0;  ///< sum of its members' shares
    std::vector<Member> members;
    bool full = false;
    bool to_share = false;  ///< listed in to_share_
    bool to_check = false;  ///< listed in to_check_
    Time full_since;
    Duration full_for;
    // While water is filled:
    std::uint64_t visited = 0;
    double left = 0;         ///< capacity that frozen flows leave
    double pull = 0;         ///< sum of load * weight of the flows not frozen
    double pull_summed = 0;  ///< `pull` when it was last summed afresh
    std::size_t open = 0;    ///< members not frozen
  };
  struct Level {
    double level = 0;         ///< of x / weight
    std::uint32_t index = 0;  ///< a flow or a resource
  };

  [[nodiscard]] std::span<const ShapeLoad> loads_of(const Flow& flow) const;
  [[nodiscard]] static bool contended(const Resource& resource);
  [[nodiscard]] static bool maybe_full(const Resource& resource);
  std::uint32_t take_flow(std::uint32_t shape);
  void leave(Resource& resource, std::uint32_t place);
  void settle(std::uint32_t flow);
  void collect(std::uint32_t flow);
  void visit(std::uint32_t resource);
  void fill();
  void freeze_members(Resource& resource, double level);
  void freeze_capped(double level);
  void freeze(std::uint32_t flow, double rate);
  void sum_pull(Resource& resource) const;
  void set_rate(std::uint32_t flow, double rate);
  void list_for_check(std::uint32_t resource);
  void check_full();
  static void set_full(Resource& resource, bool full, Time now);
  [[nodiscard]] double cap_level(const Flow& flow) const;

  std::vector<Shape> shapes_;
  std::vector<ShapeLoad> loads_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> places_;  ///< position of a flow among the members of each of its resources
  std::vector<Resource> resources_;
  std::vector<std::uint32_t> started_;   ///< flows, since the last resolve
  std::vector<std::uint32_t> to_share_;  ///< contended resources that a flow left since the last resolve
  std::vector<std::uint32_t> to_check_;  ///< resources that may have become full, or not full
  std::vector<std::uint32_t> group_;     ///< the flows of the component at hand
  std::vector<std::uint32_t> group_resources_;
  std::vector<Level> heap_;  ///< of its resources, lowest level first; levels may be too low
  std::vector<Level> caps_;  ///< of its flows: the level of their idle rate
  std::size_t caps_done_ = 0;
  double cap_lowest_ = 0;  ///< the lowest not done
  std::vector<Finish> finishes_;
  Time now_;  ///< of the last resolve
  std::uint64_t epoch_ = 0;
  std::uint64_t resolves_ = 0;
  std::uint64_t active_ = 0;
};

/// The solver by itself, for tests and for one-off questions: weighted max-min rates of a fixed set of flows.
struct StaticFlow {
  std::vector<Load> loads;
  double rate_cap = uncapped;
  double weight = 1;
};
[[nodiscard]] std::vector<double> max_min_rates(std::span<const double> capacities, std::span<const StaticFlow> flows);

}  // namespace foretrain
