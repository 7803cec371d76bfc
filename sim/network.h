// Network: fluid transfers that share capacity max-min fairly.
//
// The solver knows *resources* with a capacity and *flows* that use them. A flow of rate x loads resource r with
// load(r) * x; it may have a rate cap of its own. Rates are the weighted max-min fair ones: x is lexicographically
// maximal in x / weight, so every flow has a bottleneck (a full resource on which no other flow has a larger
// x / weight, or its own cap) and no resource is above its capacity. Call x / weight the *level* of a flow. Rates are
// recomputed only from the lowest level up that a start or an end can touch, and only for flows connected to one
// through such flows and through resources that cannot carry all their flows at full speed; a flow on none of those
// has its idle rate, to the bit, and costs time in proportion to its resources only.
//
// What the resources carry is added up in integers, and what happens at one level of the water happens at once, so the
// rates do not depend on the order of the starts of an instant or on the numbering of flows and resources, not by a
// bit, and nothing drifts however many flows come and go.
//
// A flow may stand for a class of flows that all do the same: rate and amount are then those of one of them, and
// `Load::times` says how many of the class load one resource so (with as many entries a resource as there are
// different loads). A resource, too, may stand for its class: its capacity is that of one. n flows that do the same and
// one flow that stands for n have the same rates, to the bit.
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
  double load = 0;          ///< > 0
  std::uint32_t times = 1;  ///< as many of the flows that the flow stands for load it so; 1 to 2^31 - 1
};

inline constexpr double uncapped = std::numeric_limits<double>::infinity();

/// Time to move `amount` at `rate` units a second, rounded to the nearest picosecond: the one rounding rule of the
/// fluid and the analytic network.
[[nodiscard]] Duration fluid_time(double amount, double rate);

class FluidNetwork {
 public:
  explicit FluidNetwork(std::vector<double> capacities);

  /// Registers what flows of one kind load. At most one entry a resource and load. `weight` > 0.
  /// Throws std::invalid_argument for a load, times, cap or weight that is not positive, a resource that is not there
  /// or is given twice with one load, a shape that nothing limits, and a load * weight above 2^46.
  ShapeId add_shape(std::vector<Load> loads, double rate_cap, double weight);
  /// The same for loads in ascending order of their resources and, within one, of the loads (else it throws).
  ShapeId add_sorted_shape(std::span<const Load> loads, double rate_cap, double weight);
  /// Room for this many more shapes with this many loads in all: a hint.
  void reserve(std::size_t shapes, std::size_t loads);
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
  [[nodiscard]] std::uint64_t resolves() const;  ///< calls of `resolve` that shared out a contended resource
  [[nodiscard]] std::uint64_t rerated() const;   ///< rates that `resolve` changed
  [[nodiscard]] std::uint64_t active() const;

  /// Throws std::logic_error, with what is wrong, unless all rates are the weighted max-min fair ones and what the
  /// resources carry is the sum over their flows, to the unit. Looks at the whole network. Between a start or an end
  /// and the next resolve, rates need not be right.
  void check_max_min() const;
  /// From now on every `resolve` ends with `check_max_min`: for tests.
  void check_always() { checks_ = true; }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// Parts of a resource's capacity, in units of capacity / 2^61.
  using Part = std::int64_t;
  /// Sums of more parts than 64 bits hold, and of load * weight in units of 2^-64.
  __extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ wants a typedef

  struct ShapeLoad {
    double load = 0;
    std::uint32_t resource = 0;
    std::uint32_t times : 31 = 1;
    bool again : 1 = false;  ///< the entry before is of the same resource
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
    double level = 0;      ///< at which it was frozen; infinite until the first resolve
    Time updated;
    std::uint64_t visited = 0;  ///< last resolve that looked at it
    std::uint32_t shape = 0;
    std::uint32_t generation = 0;
    std::uint32_t life = 0;  ///< how many flows have had this id before
    std::uint32_t next_free = none;
    bool open = false;  ///< while water is filled: not frozen yet
  };
  /// A flow on a resource; a dead entry when its flow has ended (and its id, perhaps, lives again).
  struct Member {
    std::uint32_t flow = 0;
    std::uint32_t life = 0;
  };
  struct Resource {
    double capacity = 0;
    double units = 0;  ///< 2^61 / capacity
    Part used = 0;     ///< what its flows take at their rates
    Wide demand = 0;   ///< what they would take at their idle rates
    /// Once contended, by ascending level, those started since the last resolve behind. Else in no order.
    std::vector<Member> members;
    std::size_t dead = 0;  ///< entries among the members
    bool ordered = false;
    bool to_share = false;  ///< listed in to_share_
    bool to_check = false;  ///< listed in to_check_
    bool full = false;
    Time full_since;
    Duration full_for;
    // While water is filled:
    std::uint64_t visited = 0;
    std::uint64_t bounded = 0;  ///< last resolve that asked where its new flows begin to matter
    Wide pull = 0;              ///< load * weight of its open flows
    std::size_t open = 0;       ///< how many they are
    std::size_t tail_begin = 0;
    std::size_t tail_end = 0;  ///< into tails_
  };
  struct Level {
    double level = 0;         ///< of x / weight
    std::uint32_t index = 0;  ///< a flow or a resource
  };

  [[nodiscard]] std::span<const ShapeLoad> loads_of(const Flow& flow) const;
  [[nodiscard]] static Wide part_of(const Resource& resource, const ShapeLoad& l, double rate);
  [[nodiscard]] static Wide pull_of(const ShapeLoad& l, double weight);
  /// What a flow takes of one resource at a rate, and how hard it pulls there: all its entries together.
  struct Share {
    Wide part = 0;
    Wide pull = 0;
  };
  [[nodiscard]] Share share_of(const Flow& flow, std::uint32_t resource, double rate) const;
  [[nodiscard]] static double level_of(const Resource& resource, Part used, Wide pull);
  [[nodiscard]] static bool contended(const Resource& resource);
  [[nodiscard]] static bool maybe_full(const Resource& resource);
  [[nodiscard]] bool alive(const Member& member) const { return flows_[member.flow].life == member.life; }
  [[nodiscard]] double cap_level(const Flow& flow) const;
  std::uint32_t take_flow(std::uint32_t shape);
  void leave(std::uint32_t resource, double level);
  [[nodiscard]] double highest_level(const Resource& resource) const;
  void drop_dead(Resource& resource);
  void order(Resource& resource);
  void lower_floor();
  [[nodiscard]] double fresh_level(std::uint32_t resource);
  void visit(std::uint32_t resource);
  void take_tail(Resource& resource);
  void dissolve(std::uint32_t resource);
  void collect(std::uint32_t flow);
  void collect_all();
  void fill();
  void take_batch(double level, double water);
  void replace_lowest(Level higher);
  void freeze_tail(const Resource& resource, double level);
  void freeze_capped(double level);
  void freeze(std::uint32_t flow, double level, double rate);
  void put_in_order(Resource& resource, const Member& member, double level);
  void run_free(std::uint32_t flow);
  bool set_rate(std::uint32_t flow, double rate);
  void list_for_check(std::uint32_t resource);
  void check_full();
  static void set_full(Resource& resource, bool full, Time now);

  std::vector<Shape> shapes_;
  std::vector<ShapeLoad> loads_;
  std::vector<Flow> flows_;
  std::vector<Resource> resources_;
  std::vector<std::uint32_t> started_;   ///< flows, since the last resolve
  std::vector<std::uint32_t> to_share_;  ///< ordered resources that a flow left since the last resolve
  std::vector<std::uint32_t> to_check_;  ///< resources that may have become full, or not full
  double floor_ = uncapped;              ///< no flow below this level changes
  std::vector<std::uint32_t> group_;     ///< the flows to be solved
  std::vector<std::uint32_t> group_resources_;
  std::vector<Member> tails_;  ///< of those resources: the members that are being solved, a range each
  std::vector<Level> heap_;    ///< of those resources, lowest level first; levels may be too low
  std::vector<Level> caps_;    ///< of the flows: the level of their idle rate
  struct Batched {
    std::uint32_t resource = 0;
    std::size_t open = 0;  ///< its open flows when it was found full
  };
  std::vector<Batched> batch_;  ///< resources that are full at one level
  std::size_t caps_done_ = 0;
  double cap_lowest_ = 0;  ///< the lowest not done
  std::vector<Finish> finishes_;
  Time now_;  ///< of the last resolve
  std::uint64_t epoch_ = 0;
  std::uint64_t resolves_ = 0;
  std::uint64_t rerated_ = 0;
  std::uint64_t active_ = 0;
  bool checks_ = false;
};

/// The solver by itself, for tests and for one-off questions: weighted max-min rates of a fixed set of flows.
struct StaticFlow {
  std::vector<Load> loads;
  double rate_cap = uncapped;
  double weight = 1;
};
[[nodiscard]] std::vector<double> max_min_rates(std::span<const double> capacities, std::span<const StaticFlow> flows);

}  // namespace foretrain
