// Network: fluid transfers that share capacity max-min fairly.
//
// The solver knows *resources* with a capacity and *flows* that use them. A flow of rate x loads resource r with
// load(r) * x; it may have a rate cap of its own. Rates are the weighted max-min fair ones: x is lexicographically
// maximal in x / weight, so every flow has a bottleneck (a full resource on which no other flow has a larger
// x / weight, or its own cap) and no resource is above its capacity. Call x / weight the *level* of a flow. Only flows
// whose level may change are solved again: those on a full resource that something left or joined, and so on from
// there. A flow whose resources can all carry all their flows at full speed has its idle rate, to the bit, and costs
// time in proportion to its resources only.
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

#include "sim/parts.h"
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
  [[nodiscard]] std::uint64_t solved() const;    ///< rates that `resolve` found anew, of flows that share
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
    std::uint64_t opened = 0;  ///< last resolve that opened it
    std::uint32_t shape = 0;
    std::uint32_t generation = 0;
    std::uint32_t life = 0;  ///< changes with its end and with its place among the members of its resources
    std::uint32_t next_free = none;
    bool open = false;  ///< while water is filled: it rises with the water
  };
  /// A flow on a resource; a dead entry when its flow has ended or has another place by now.
  struct Member {
    std::uint32_t flow = 0;
    std::uint32_t life = 0;
  };
  struct Resource {
    double capacity = 0;
    double parts_per_unit = 0;
    Part used = 0;    ///< what its flows take at their rates, without those open
    Wide demand = 0;  ///< what they would take at their idle rates
    /// Once contended, by ascending level, those started since the last resolve behind. Else in no order.
    std::vector<Member> members;
    std::size_t dead = 0;  ///< entries among the members and in `above`
    bool ordered = false;
    bool left = false;      ///< listed in left_
    bool to_check = false;  ///< listed in to_check_
    bool full = false;
    Time full_since;
    Duration full_for;
    // While water is filled:
    bool to_key = false;        ///< listed in to_key_
    bool relieved = false;      ///< it has been in relieved_
    std::uint64_t visited = 0;  ///< last resolve for which these are valid
    double top = 0;             ///< highest level as it was solved before, if it was full; else infinite
    double key = 0;             ///< the level at which it is full, or less: its entry in heap_
    Wide pull = 0;              ///< of its open flows
    std::uint32_t open = 0;     ///< how many they are
    std::uint32_t rising = 0;   ///< the last of those opened on it: into rising_
    std::vector<Member> above;  ///< members that wait for the water, the highest first
  };
  struct Level {
    double level = 0;         ///< of x / weight
    std::uint32_t index = 0;  ///< a flow or a resource
  };
  /// An element of the list of flows opened on a resource.
  struct Rising {
    std::uint32_t flow = 0;
    std::uint32_t next = none;
  };
  /// What a flow takes of one resource at a rate, and how hard it pulls there: all its entries together.
  struct Share {
    Wide part = 0;
    Wide pull = 0;
  };

  /// A double's rounding in load * idle rate / capacity (2^-51 of each share), granted with room to spare: a resource
  /// that its flows fill exactly (a non-blocking trunk) is not contended.
  static constexpr Part demand_slack = whole_capacity >> 37;
  /// Relative: below it a new rate counts as the old one.
  static constexpr double same_rate = 1e-12;

  [[nodiscard]] static Wide part(const Resource& resource, const ShapeLoad& l, double rate) {
    return Wide{part_of(l.load, rate, resource.parts_per_unit)} * l.times;
  }
  [[nodiscard]] static Wide pull(const ShapeLoad& l, double weight) { return pull_of(l.load, weight) * l.times; }
  [[nodiscard]] static bool contended(const Resource& resource) {
    return resource.demand > whole_capacity + demand_slack;
  }
  [[nodiscard]] static bool is_full(const Resource& resource);
  [[nodiscard]] static bool maybe_full(const Resource& resource);
  [[nodiscard]] std::span<const ShapeLoad> loads_of(const Flow& flow) const {
    const Shape& shape = shapes_[flow.shape];
    return {loads_.data() + shape.loads_begin, shape.loads_count};
  }
  [[nodiscard]] Share share_of(const Flow& flow, std::uint32_t resource) const;
  [[nodiscard]] bool alive(const Member& member) const { return flows_[member.flow].life == member.life; }
  [[nodiscard]] double cap_level(const Flow& flow) const;
  std::uint32_t take_flow(std::uint32_t shape);
  void leave(std::uint32_t resource, double level);
  [[nodiscard]] double highest_level(const Resource& resource) const;
  void one_more_dead(Resource& resource);
  void drop_dead(Resource& resource);
  bool set_rate(std::uint32_t flow, double rate);
  void list_for_check(std::uint32_t resource);
  void check_full();
  static void set_full(Resource& resource, bool full, Time now);

  // sim/network_water.cpp
  void open_touched();
  void order(Resource& resource);
  void visit(std::uint32_t resource, double level);
  void let_rise(std::uint32_t flow);
  void run_free(std::uint32_t flow);
  void relieve(std::uint32_t resource);
  void open_relieved();
  void open(std::uint32_t flow);
  [[nodiscard]] double full_level(std::uint32_t resource) const;
  void set_keys();
  void fill();
  void take_batch(double level);
  void replace_lowest(Level higher);
  void keep_overfull();
  bool freeze_capped(double level);
  void freeze_batch(double level);
  void freeze(std::uint32_t flow, double level, double rate);
  void place(Resource& resource, const Member& member, double level);
  void settle();

  std::vector<Shape> shapes_;
  std::vector<ShapeLoad> loads_;
  std::vector<Flow> flows_;
  std::vector<Resource> resources_;
  std::vector<std::uint32_t> started_;   ///< flows, since the last resolve
  std::vector<std::uint32_t> left_;      ///< ordered resources that a flow left since the last resolve
  std::vector<std::uint32_t> to_check_;  ///< resources that may have become full, or not full
  std::vector<Finish> finishes_;
  Time now_;  ///< of the last resolve
  std::uint64_t epoch_ = 0;
  std::uint64_t resolves_ = 0;
  std::uint64_t solved_ = 0;
  std::uint64_t rerated_ = 0;
  std::uint64_t active_ = 0;
  bool checks_ = false;

  // While water is filled:
  double water_ = 0;
  std::vector<std::uint32_t> opened_;  ///< flows
  std::size_t open_ = 0;               ///< how many of them are open
  std::vector<Rising> rising_;
  std::vector<std::uint32_t> visited_;   ///< resources
  std::vector<std::uint32_t> relieved_;  ///< resources whose highest flows may rise
  std::vector<std::uint32_t> to_key_;    ///< resources whose key may have become lower
  std::vector<std::uint32_t> chosen_;    ///< flows that are about to be opened or frozen
  std::vector<Level> heap_;  ///< resources by key, the lowest first; of a resource only the entry with its key counts
  std::vector<std::uint32_t> batch_;  ///< resources that are full at one level
  std::vector<Level> caps_;           ///< open flows by the level of their idle rate, once the water reaches one
  std::size_t caps_done_ = 0;
  double cap_lowest_ = 0;  ///< of the caps not done
  bool caps_listed_ = false;
};

/// The solver by itself, for tests and for one-off questions: weighted max-min rates of a fixed set of flows.
struct StaticFlow {
  std::vector<Load> loads;
  double rate_cap = uncapped;
  double weight = 1;
};
[[nodiscard]] std::vector<double> max_min_rates(std::span<const double> capacities, std::span<const StaticFlow> flows);

}  // namespace foretrain
