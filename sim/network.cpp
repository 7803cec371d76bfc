#include "sim/network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>

// How rates are found without looking at most of the network.
//
// No flow is ever faster than alone. So a resource that could carry all its flows at their idle rates at once limits
// none of them beyond what the idle rate says already, and can be left out of the problem. What a resource would have
// to carry is its `demand`, kept as an integer so that starts and ends cancel exactly, in any order. A resource is
// *contended* when demand exceeds its capacity; flows are connected by contended resources only, and a flow on none
// has its idle rate, to the last bit. The rest is progressive filling of one connected component at a time: contended
// resources in a heap by the level at which they are full, flows capped at their idle rates. As flows freeze, a
// resource's level only rises, so a key in the heap is refreshed when it comes to the top.

namespace foretrain {

namespace {

/// A resource's capacity, in units of `share` and `demand`. 2^17 members of at most a whole each fit int64.
constexpr std::int64_t whole = std::int64_t{1} << 46;
constexpr std::size_t members_max = std::size_t{1} << 17;
/// Relative: below it a new rate counts as the old one.
constexpr double same_rate = 1e-12;
/// Relative: a resource used to this part of its capacity is full.
constexpr double full_part = 1 - 1e-9;
/// Demand below which a resource cannot be full, rounding of the shares (2^17 / 2^47 < 1e-9) included.
constexpr auto demand_full_min = static_cast<std::int64_t>(static_cast<double>(whole) * (1 - 2e-9));

bool positive_finite(double x) { return x > 0 && std::isfinite(x); }

struct LowestFirst {
  template <class Level>
  bool operator()(const Level& a, const Level& b) const {
    return a.level != b.level ? a.level > b.level : a.index > b.index;
  }
};

}  // namespace

FluidNetwork::FluidNetwork(std::vector<double> capacities) {
  resources_.resize(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    if (!positive_finite(capacities[r])) {
      throw std::invalid_argument("FluidNetwork: capacity of resource " + std::to_string(r) + " must be positive");
    }
    resources_[r].capacity = capacities[r];
  }
}

ShapeId FluidNetwork::add_shape(std::vector<Load> loads, double rate_cap, double weight) {
  std::sort(loads.begin(), loads.end(), [](const Load& a, const Load& b) { return a.resource < b.resource; });
  double idle = rate_cap;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].resource.index() >= resources_.size()) throw std::invalid_argument("add_shape: no such resource");
    if (i > 0 && loads[i].resource == loads[i - 1].resource) throw std::invalid_argument("add_shape: resource twice");
    if (!positive_finite(loads[i].load)) throw std::invalid_argument("add_shape: load must be positive");
    idle = std::min(idle, resources_[loads[i].resource.index()].capacity / loads[i].load);
  }
  if (!positive_finite(weight)) throw std::invalid_argument("add_shape: weight must be positive");
  if (!positive_finite(idle)) throw std::invalid_argument("add_shape: rate must be positive and limited");

  Shape shape;
  shape.idle_rate = idle;
  shape.weight = weight;
  shape.loads_begin = static_cast<std::uint32_t>(loads_.size());
  shape.loads_count = static_cast<std::uint32_t>(loads.size());
  for (const Load& l : loads) {
    const double part = l.load * idle / resources_[l.resource.index()].capacity;
    const auto share = static_cast<std::int64_t>(std::llround(part * static_cast<double>(whole)));
    loads_.push_back({.load = l.load, .share = std::min(share, whole), .resource = l.resource.value});
  }
  shapes_.push_back(shape);
  return id_at<ShapeId>(shapes_.size() - 1);
}

double FluidNetwork::idle_rate(ShapeId shape) const { return shapes_[shape.index()].idle_rate; }
double FluidNetwork::rate(FlowId flow) const { return flows_[flow.index()].rate; }
std::uint64_t FluidNetwork::resolves() const { return resolves_; }
std::uint64_t FluidNetwork::active() const { return active_; }

bool FluidNetwork::current(FlowId flow, std::uint32_t generation) const {
  return flows_[flow.index()].generation == generation;
}

std::span<const FluidNetwork::ShapeLoad> FluidNetwork::loads_of(const Flow& flow) const {
  const Shape& shape = shapes_[flow.shape];
  return {loads_.data() + shape.loads_begin, shape.loads_count};
}

/// Shares are rounded by half a unit at most, so one unit a member is granted: a resource that its flows fill exactly
/// (a non-blocking trunk) is not contended. Over capacity by 2^17 * 1.5 / 2^46 < 3e-9 at the very most.
bool FluidNetwork::contended(const Resource& resource) {
  return resource.demand > whole + static_cast<std::int64_t>(resource.members.size());
}

bool FluidNetwork::maybe_full(const Resource& resource) { return resource.demand >= demand_full_min; }

/// An ended flow of the same shape, whose places fit, or a new one.
std::uint32_t FluidNetwork::take_flow(std::uint32_t shape) {
  Shape& s = shapes_[shape];
  if (s.free_flow != none) {
    const std::uint32_t flow = s.free_flow;
    s.free_flow = flows_[flow].next_free;
    return flow;
  }
  Flow flow;
  flow.shape = shape;
  flow.places_begin = static_cast<std::uint32_t>(places_.size());
  places_.resize(places_.size() + s.loads_count);
  flows_.push_back(flow);
  return static_cast<std::uint32_t>(flows_.size() - 1);
}

FlowId FluidNetwork::start(ShapeId shape, double amount, Time now) {
  assert(positive_finite(amount));
  const std::uint32_t id = take_flow(shape.value);
  Flow& flow = flows_[id];
  flow.remaining = amount;
  flow.rate = 0;
  flow.updated = now;
  std::uint32_t place = flow.places_begin;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (resource.members.size() == members_max) throw std::length_error("too many flows on one resource");
    places_[place] = static_cast<std::uint32_t>(resource.members.size());
    resource.members.push_back({.load = l.load, .flow = id, .place = place});
    resource.demand += l.share;
    ++place;
  }
  started_.push_back(id);
  ++active_;
  return FlowId{id};
}

void FluidNetwork::leave(Resource& resource, std::uint32_t place) {
  const std::uint32_t position = places_[place];
  const Member last = resource.members.back();
  resource.members[position] = last;
  places_[last.place] = position;
  resource.members.pop_back();
}

void FluidNetwork::finish(FlowId id, Time now) {
  Flow& flow = flows_[id.index()];
  assert(flow.rate > 0);
  // A finish is rounded to a picosecond, and each change of the rate rounds what remains.
  assert(std::abs(flow.remaining - flow.rate * (now - flow.updated).seconds()) <=
         flow.rate * 1e-12 + 1e-9 * flow.remaining);
  std::uint32_t place = flow.places_begin;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (contended(resource) && !resource.to_share) {
      resource.to_share = true;
      to_share_.push_back(l.resource);
    }
    leave(resource, place);
    resource.demand -= l.share;
    if (maybe_full(resource))
      list_for_check(l.resource);
    else if (resource.full)
      set_full(resource, false, now);
    ++place;
  }
  ++flow.generation;
  flow.rate = 0;
  Shape& shape = shapes_[flow.shape];
  flow.next_free = shape.free_flow;
  shape.free_flow = id.value;
  --active_;
}

std::span<const FluidNetwork::Finish> FluidNetwork::resolve(Time now) {
  assert(now >= now_);
  now_ = now;
  ++epoch_;
  finishes_.clear();
  for (const std::uint32_t r : to_share_) {
    resources_[r].to_share = false;
    for (const Member& m : resources_[r].members) settle(m.flow);
  }
  for (const std::uint32_t f : started_) settle(f);
  to_share_.clear();
  started_.clear();
  check_full();
  return finishes_;
}

/// Finds the rate of a flow, and of all flows that contended resources connect it with, once a resolve.
void FluidNetwork::settle(std::uint32_t f) {
  Flow& flow = flows_[f];
  if (flow.visited == epoch_) return;
  const auto loads = loads_of(flow);
  const bool shared =
      std::any_of(loads.begin(), loads.end(), [&](const ShapeLoad& l) { return contended(resources_[l.resource]); });
  if (!shared) {
    flow.visited = epoch_;
    set_rate(f, shapes_[flow.shape].idle_rate);
    return;
  }
  collect(f);
  fill();
  ++resolves_;
}

void FluidNetwork::collect(std::uint32_t first) {
  group_.clear();
  group_resources_.clear();
  flows_[first].visited = epoch_;
  group_.push_back(first);
  for (std::size_t i = 0; i < group_.size(); ++i) {  // group_ grows meanwhile
    for (const ShapeLoad& l : loads_of(flows_[group_[i]])) {
      Resource& resource = resources_[l.resource];
      if (resource.visited != epoch_ && contended(resource)) visit(l.resource);
    }
  }
}

void FluidNetwork::visit(std::uint32_t r) {
  Resource& resource = resources_[r];
  resource.visited = epoch_;
  resource.left = resource.capacity;
  resource.open = resource.members.size();
  sum_pull(resource);
  group_resources_.push_back(r);
  for (const Member& m : resource.members) {
    if (flows_[m.flow].visited == epoch_) continue;
    flows_[m.flow].visited = epoch_;
    group_.push_back(m.flow);
  }
}

void FluidNetwork::sum_pull(Resource& resource) const {
  resource.pull = 0;
  for (const Member& m : resource.members) {
    const Flow& flow = flows_[m.flow];
    if (flow.frozen != epoch_) resource.pull += m.load * shapes_[flow.shape].weight;
  }
  resource.pull_summed = resource.pull;
}

/// Progressive filling of the component at hand.
void FluidNetwork::fill() {
  heap_.clear();
  for (const std::uint32_t r : group_resources_) {
    heap_.push_back({.level = resources_[r].left / resources_[r].pull, .index = r});
  }
  std::make_heap(heap_.begin(), heap_.end(), LowestFirst());
  caps_.clear();
  caps_done_ = 0;
  cap_lowest_ = uncapped;
  for (const std::uint32_t f : group_) cap_lowest_ = std::min(cap_lowest_, cap_level(flows_[f]));
  double water = 0;
  while (!heap_.empty()) {
    const Level top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), LowestFirst());
    heap_.pop_back();
    Resource& resource = resources_[top.index];
    if (resource.open == 0) continue;
    // Differences lose digits: sum again before a small rest of a large sum is used.
    if (resource.pull < 1e-3 * resource.pull_summed) sum_pull(resource);
    // Never below the water: rounding must not make a rate zero or negative.
    const double level = std::max(water, resource.left / resource.pull);
    if (level > top.level) {
      heap_.push_back({.level = level, .index = top.index});
      std::push_heap(heap_.begin(), heap_.end(), LowestFirst());
      continue;
    }
    water = level;
    const std::size_t open = resource.open;
    freeze_capped(level);
    if (resource.open == open) {
      freeze_members(resource, level);
    } else if (resource.open > 0) {  // capped flows left it something: its level has risen
      heap_.push_back({.level = level, .index = top.index});
      std::push_heap(heap_.begin(), heap_.end(), LowestFirst());
    }
  }
}

/// Freezes the flows whose idle rate is reached before `level`. Most components never come to it, so the list of
/// caps is made when the water first reaches the lowest.
void FluidNetwork::freeze_capped(double level) {
  if (level < cap_lowest_) return;
  if (caps_.empty()) {
    for (const std::uint32_t f : group_) {
      if (flows_[f].frozen != epoch_) caps_.push_back({.level = cap_level(flows_[f]), .index = f});
    }
    const auto lower = [](const Level& a, const Level& b) { return a.level < b.level; };
    // Equal caps are the rule, and need no sorting.
    if (!std::is_sorted(caps_.begin(), caps_.end(), lower)) {
      std::sort(caps_.begin(), caps_.end(), [](const Level& a, const Level& b) { return LowestFirst()(b, a); });
    }
  }
  for (; caps_done_ < caps_.size() && caps_[caps_done_].level <= level; ++caps_done_) {
    const std::uint32_t f = caps_[caps_done_].index;
    if (flows_[f].frozen != epoch_) freeze(f, shapes_[flows_[f].shape].idle_rate);
  }
  cap_lowest_ = uncapped;
  if (caps_done_ < caps_.size()) cap_lowest_ = caps_[caps_done_].level;
}

double FluidNetwork::cap_level(const Flow& flow) const {
  const Shape& shape = shapes_[flow.shape];
  return shape.idle_rate / shape.weight;
}

void FluidNetwork::freeze_members(Resource& resource, double level) {
  for (const Member& m : resource.members) {
    if (flows_[m.flow].frozen == epoch_) continue;
    const Shape& shape = shapes_[flows_[m.flow].shape];
    freeze(m.flow, std::min(shape.idle_rate, shape.weight * level));
  }
}

void FluidNetwork::freeze(std::uint32_t f, double rate) {
  Flow& flow = flows_[f];
  flow.frozen = epoch_;
  const double weight = shapes_[flow.shape].weight;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (resource.visited != epoch_) continue;
    resource.left -= l.load * rate;
    resource.pull -= l.load * weight;
    --resource.open;
  }
  set_rate(f, rate);
}

/// A flow whose rate stays keeps the finish it has; else what it has moved is booked and its finish is reported.
void FluidNetwork::set_rate(std::uint32_t f, double rate) {
  Flow& flow = flows_[f];
  if (std::abs(rate - flow.rate) <= same_rate * flow.rate) return;
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.updated).seconds());
  flow.updated = now_;
  flow.rate = rate;
  ++flow.generation;
  finishes_.push_back(
      {.flow = FlowId{f}, .generation = flow.generation, .at = now_ + fluid_time(flow.remaining, rate)});
  for (const ShapeLoad& l : loads_of(flow)) {
    if (maybe_full(resources_[l.resource])) list_for_check(l.resource);
  }
}

void FluidNetwork::list_for_check(std::uint32_t resource) {
  if (resources_[resource].to_check) return;
  resources_[resource].to_check = true;
  to_check_.push_back(resource);
}

void FluidNetwork::check_full() {
  for (const std::uint32_t r : to_check_) {
    Resource& resource = resources_[r];
    resource.to_check = false;
    double used = 0;
    for (const Member& m : resource.members) used += m.load * flows_[m.flow].rate;
    set_full(resource, used >= resource.capacity * full_part, now_);
  }
  to_check_.clear();
}

void FluidNetwork::set_full(Resource& resource, bool full, Time now) {
  if (full == resource.full) return;
  resource.full = full;
  if (full)
    resource.full_since = now;
  else
    resource.full_for += now - resource.full_since;
}

Duration FluidNetwork::saturated(ResourceId id) const {
  const Resource& resource = resources_[id.index()];
  return resource.full ? resource.full_for + (now_ - resource.full_since) : resource.full_for;
}

}  // namespace foretrain
