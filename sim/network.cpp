#include "sim/network.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>

// How rates are found without looking at most of the network.
//
// 1. No flow is ever faster than alone. So a resource that could carry all its flows at their idle rates at once limits
// none of them beyond what the idle rate says already, and can be left out of the problem. A resource is *contended*
// when what its flows would take so, its `demand`, exceeds its capacity; flows are connected by contended resources
// only, and a flow on none has its idle rate, to the last bit.
//
// 2. The rest is progressive filling: all flows' rates rise together as weight * level (the water), and stop where a
// resource is full or an idle rate is reached. Let the old and the new problem fill side by side, and let p be the
// first level at which they part: some resource is full at p in one of them only, and some flow ended or started there.
//   - It is full in the old one: then a flow has ended there, and p is the highest level on it.
//   - It is full in the new one: flows have started there. Up to p the others take the lower of p and what they had,
//   and
//     the new ones at most the lower of p and their caps. So p is at least the level at which that fills the resource.
// `floor_` is the least of these levels over the resources of all starts and ends: what was below it stays, and what is
// new below it has its idle rate. Only what is from the floor up, and connected to a start or an end through such
// flows, is solved again. Each contended resource keeps its flows sorted by level: what is to be solved is its tail.
// Flows freeze in ascending order of level, so the tail comes back sorted by itself.
//
// 3. Capacities, and load * weight, are added up as integers. Sums are the same in any order and starts and ends cancel
// exactly; so a difference of large sums keeps all its digits.
//
// 4. Every choice is made by values, never by numbers of flows or resources: resources that are full at exactly the
// same level freeze their flows together, flows of exactly the same level are lowered together. So flows and resources
// that cannot be told apart are treated alike to the last bit, and one of each kind may be solved for all (sim/fold.h).

namespace foretrain {

namespace {

/// A resource's capacity, in parts. Twice that still fits int64.
constexpr std::int64_t whole = std::int64_t{1} << 61;
/// load * weight 1, in units of `pull`. 2^17 flows of 2^46 fit 128 bits; 2^-24 has 40 digits.
constexpr double pull_one = 0x1p64;
constexpr double pull_max = 0x1p46;
/// A double's rounding in load * idle rate / capacity (2^-51 of each share), granted with room to spare: a resource
/// that its flows fill exactly (a non-blocking trunk) is not contended.
constexpr std::int64_t demand_slack = whole >> 37;
constexpr std::uint32_t times_max = (std::uint32_t{1} << 31) - 1;
/// Relative: below it a new rate counts as the old one.
constexpr double same_rate = 1e-12;
/// Relative: levels this close to the floor are solved too, so that rounding cannot hide an equal one.
constexpr double floor_margin = 1e-9;
/// A resource used to this part of its capacity is full.
constexpr auto full_min = static_cast<std::int64_t>(static_cast<double>(whole) * (1 - 1e-9));
/// Demand below which it cannot be full.
constexpr auto demand_full_min = static_cast<std::int64_t>(static_cast<double>(whole) * (1 - 2e-9));
/// Dead entries are dropped when they are more than this and than half of a list.
constexpr std::size_t dead_min = 16;

__extension__ typedef __int128 Integer;  // NOLINT(modernize-use-using): __extension__ wants a typedef

/// The integer part of a double from 0 to 2^126: what a cast gives, without the call that a cast to 128 bits is.
Integer to_integer(double x) {
  constexpr int mantissa_bits = 52;
  constexpr int exponent_bias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> mantissa_bits) - exponent_bias;
  if (exponent < mantissa_bits) return static_cast<std::int64_t>(x);
  constexpr std::uint64_t one = std::uint64_t{1} << mantissa_bits;
  return Integer{one | (bits & (one - 1))} << (exponent - mantissa_bits);
}

bool positive_finite(double x) { return x > 0 && std::isfinite(x); }

struct LowestFirst {
  template <class Level>
  bool operator()(const Level& a, const Level& b) const {
    return a.level != b.level ? a.level > b.level : a.index > b.index;
  }
};

struct HighestFirst {
  template <class Level>
  bool operator()(const Level& a, const Level& b) const {
    return LowestFirst()(b, a);
  }
};

}  // namespace

// ---- shapes -----------------------------------------------------------------------------------------------------

FluidNetwork::FluidNetwork(std::vector<double> capacities) {
  resources_.resize(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    if (!positive_finite(capacities[r])) {
      throw std::invalid_argument("FluidNetwork: capacity of resource " + std::to_string(r) + " must be positive");
    }
    resources_[r].capacity = capacities[r];
    resources_[r].units = static_cast<double>(whole) / capacities[r];
  }
}

ShapeId FluidNetwork::add_shape(std::vector<Load> loads, double rate_cap, double weight) {
  std::sort(loads.begin(), loads.end(), [](const Load& a, const Load& b) {
    return a.resource != b.resource ? a.resource < b.resource : a.load < b.load;
  });
  return add_sorted_shape(loads, rate_cap, weight);
}

ShapeId FluidNetwork::add_sorted_shape(std::span<const Load> loads, double rate_cap, double weight) {
  if (!positive_finite(weight)) throw std::invalid_argument("add_shape: weight must be positive");
  double idle = rate_cap;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const ResourceId resource = loads[i].resource;
    if (resource.index() >= resources_.size()) throw std::invalid_argument("add_shape: no such resource");
    const bool again = i > 0 && resource == loads[i - 1].resource;
    if (again && loads[i].load == loads[i - 1].load) throw std::invalid_argument("add_shape: resource twice");
    if (i > 0 && (resource < loads[i - 1].resource || (again && loads[i].load < loads[i - 1].load)))
      throw std::invalid_argument("add_shape: loads are not sorted");
    if (!positive_finite(loads[i].load)) throw std::invalid_argument("add_shape: load must be positive");
    if (loads[i].times == 0 || loads[i].times > times_max)
      throw std::invalid_argument("add_shape: times must be 1 to 2^31 - 1");
    if (loads[i].load * weight > pull_max) throw std::invalid_argument("add_shape: load * weight is above 2^46");
    idle = std::min(idle, resources_[resource.index()].capacity / loads[i].load);
  }
  if (!positive_finite(idle)) throw std::invalid_argument("add_shape: rate must be positive and limited");

  shapes_.push_back({.idle_rate = idle,
                     .weight = weight,
                     .loads_begin = static_cast<std::uint32_t>(loads_.size()),
                     .loads_count = static_cast<std::uint32_t>(loads.size())});
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads_.push_back({.load = loads[i].load,
                      .resource = loads[i].resource.value,
                      .times = loads[i].times & times_max,
                      .again = i > 0 && loads[i].resource == loads[i - 1].resource});
  }
  return id_at<ShapeId>(shapes_.size() - 1);
}

void FluidNetwork::reserve(std::size_t shapes, std::size_t loads) {
  shapes_.reserve(shapes_.size() + shapes);
  loads_.reserve(loads_.size() + loads);
}

double FluidNetwork::idle_rate(ShapeId shape) const { return shapes_[shape.index()].idle_rate; }
double FluidNetwork::rate(FlowId flow) const { return flows_[flow.index()].rate; }
std::uint64_t FluidNetwork::resolves() const { return resolves_; }
std::uint64_t FluidNetwork::rerated() const { return rerated_; }
std::uint64_t FluidNetwork::active() const { return active_; }

bool FluidNetwork::current(FlowId flow, std::uint32_t generation) const {
  return flows_[flow.index()].generation == generation;
}

std::span<const FluidNetwork::ShapeLoad> FluidNetwork::loads_of(const Flow& flow) const {
  const Shape& shape = shapes_[flow.shape];
  return {loads_.data() + shape.loads_begin, shape.loads_count};
}

/// Never more than the whole: load * idle rate / capacity may round above 1.
FluidNetwork::Wide FluidNetwork::part_of(const Resource& resource, const ShapeLoad& l, double rate) {
  // Positive, where adding a half and cutting is rounding; std::lround is a call in the hottest path.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  return Wide{std::min(static_cast<Part>(l.load * rate * resource.units + 0.5), whole)} * l.times;
}

FluidNetwork::Wide FluidNetwork::pull_of(const ShapeLoad& l, double weight) {
  return std::max(Wide{to_integer(l.load * weight * pull_one)}, Wide{1}) * l.times;
}

FluidNetwork::Share FluidNetwork::share_of(const Flow& flow, std::uint32_t r, double rate) const {
  const auto loads = loads_of(flow);
  const auto before = [](const ShapeLoad& l, std::uint32_t resource) { return l.resource < resource; };
  Share share;
  for (auto l = std::lower_bound(loads.begin(), loads.end(), r, before); l != loads.end() && l->resource == r; ++l) {
    share.part += part_of(resources_[r], *l, rate);
    share.pull += pull_of(*l, shapes_[flow.shape].weight);
  }
  return share;
}

/// The water at which a resource is full, when `used` is taken by flows that do not rise any more.
double FluidNetwork::level_of(const Resource& resource, Part used, Wide pull) {
  return static_cast<double>(whole - used) / resource.units / (static_cast<double>(pull) / pull_one);
}

bool FluidNetwork::contended(const Resource& resource) { return resource.demand > whole + demand_slack; }
bool FluidNetwork::maybe_full(const Resource& resource) { return resource.demand >= demand_full_min; }

double FluidNetwork::cap_level(const Flow& flow) const {
  const Shape& shape = shapes_[flow.shape];
  return shape.idle_rate / shape.weight;
}

// ---- starts and ends --------------------------------------------------------------------------------------------

/// An ended flow of the same shape, or a new one.
std::uint32_t FluidNetwork::take_flow(std::uint32_t shape) {
  Shape& s = shapes_[shape];
  if (s.free_flow != none) {
    const std::uint32_t flow = s.free_flow;
    s.free_flow = flows_[flow].next_free;
    return flow;
  }
  Flow flow;
  flow.shape = shape;
  flows_.push_back(flow);
  return static_cast<std::uint32_t>(flows_.size() - 1);
}

FlowId FluidNetwork::start(ShapeId shape, double amount, Time now) {
  assert(positive_finite(amount));
  const std::uint32_t id = take_flow(shape.value);
  Flow& flow = flows_[id];
  flow.remaining = amount;
  flow.rate = 0;
  flow.level = uncapped;
  flow.updated = now;
  const Shape& s = shapes_[shape.index()];
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (!l.again) resource.members.push_back({.flow = id, .life = flow.life});
    resource.demand += part_of(resource, l, s.idle_rate);
  }
  started_.push_back(id);
  ++active_;
  return FlowId{id};
}

void FluidNetwork::finish(FlowId id, Time now) {
  Flow& flow = flows_[id.index()];
  Shape& shape = shapes_[flow.shape];
  assert(flow.rate > 0);
  // A finish is rounded to a picosecond, and each change of the rate rounds what remains.
  assert(std::abs(flow.remaining - flow.rate * (now - flow.updated).seconds()) <=
         flow.rate * 1e-12 + 1e-9 * flow.remaining);
  ++flow.life;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (!l.again) leave(l.resource, flow.level);
    resource.used -= static_cast<Part>(part_of(resource, l, flow.rate));
    resource.demand -= part_of(resource, l, shape.idle_rate);
    if (maybe_full(resource))
      list_for_check(l.resource);
    else if (resource.full)
      set_full(resource, false, now);
  }
  ++flow.generation;
  flow.rate = 0;
  flow.next_free = shape.free_flow;
  shape.free_flow = id.value;
  --active_;
}

/// A flow of this level leaves a dead entry behind. Where the resource was full, everything from its highest level up
/// may now rise: asked at the first to leave in an instant, when all is as it was solved.
void FluidNetwork::leave(std::uint32_t r, double level) {
  Resource& resource = resources_[r];
  if (resource.ordered && !resource.to_share) {
    resource.to_share = true;
    to_share_.push_back(r);
    if (resource.used >= full_min) floor_ = std::min(floor_, std::max(level, highest_level(resource)));
  }
  ++resource.dead;
  if (resource.dead > dead_min && 2 * resource.dead > resource.members.size()) drop_dead(resource);
}

/// Of those with a rate; 0 without any.
double FluidNetwork::highest_level(const Resource& resource) const {
  for (auto m = resource.members.rbegin(); m != resource.members.rend(); ++m)
    if (alive(*m) && flows_[m->flow].rate > 0) return flows_[m->flow].level;
  return 0;
}

void FluidNetwork::drop_dead(Resource& resource) {
  std::erase_if(resource.members, [&](const Member& m) { return !alive(m); });
  resource.dead = 0;
}

// ---- what is to be solved ---------------------------------------------------------------------------------------

std::span<const FluidNetwork::Finish> FluidNetwork::resolve(Time now) {
  assert(now >= now_);
  now_ = now;
  ++epoch_;
  finishes_.clear();
  group_.clear();
  group_resources_.clear();
  tails_.clear();
  lower_floor();
  collect_all();
  if (!group_.empty()) {
    fill();
    ++resolves_;
  }
  started_.clear();
  floor_ = uncapped;
  check_full();
  if (checks_) check_max_min();
  return finishes_;
}

/// Lowers the floor from the lowest level that may rise to the lowest that the new flows may press on.
void FluidNetwork::lower_floor() {
  if (started_.size() == active_) floor_ = 0;  // all are new: there is nothing to be spared
  for (const std::uint32_t f : started_) {
    for (const ShapeLoad& l : loads_of(flows_[f])) {
      Resource& resource = resources_[l.resource];
      if (!contended(resource)) continue;
      if (!resource.ordered) order(resource);
      if (floor_ == 0 || resource.bounded == epoch_) continue;
      resource.bounded = epoch_;
      floor_ = std::min(floor_, fresh_level(l.resource));
    }
  }
  floor_ *= 1 - floor_margin;
}

/// Sorts a resource that has become contended.
void FluidNetwork::order(Resource& resource) {
  drop_dead(resource);
  resource.ordered = true;
  const auto lower = [&](const Member& a, const Member& b) {
    const double la = flows_[a.flow].level;
    const double lb = flows_[b.flow].level;
    return la != lb ? la < lb : a.flow < b.flow;
  };
  if (!std::is_sorted(resource.members.begin(), resource.members.end(), lower))
    std::sort(resource.members.begin(), resource.members.end(), lower);
}

/// The level at which a resource is full if each new flow takes the lower of it and its cap, and each old one the lower
/// of it and its own level; or something above the floor. From all at their highest, flows are lowered from the top,
/// those of one level together, until what is over capacity is gone.
double FluidNetwork::fresh_level(std::uint32_t r) {
  const Resource& resource = resources_[r];
  Wide used = resource.used;
  caps_.clear();
  auto old = resource.members.rbegin();
  for (; old != resource.members.rend() && (!alive(*old) || flows_[old->flow].rate == 0); ++old) {
    if (!alive(*old)) continue;
    const Flow& flow = flows_[old->flow];
    used += share_of(flow, r, shapes_[flow.shape].idle_rate).part;
    caps_.push_back({.level = cap_level(flow), .index = old->flow});
  }
  std::make_heap(caps_.begin(), caps_.end(), HighestFirst());
  const auto level_of_old = [&] {
    while (old != resource.members.rend() && !alive(*old)) ++old;
    return old != resource.members.rend() ? flows_[old->flow].level : 0;
  };
  const auto level_of_new = [&] { return caps_.empty() ? 0 : caps_.front().level; };
  Wide pull = 0;
  double level = used > whole ? 0 : uncapped;
  const double enough = floor_ * (1 + floor_margin);  // from here on the result only rises, but for rounding
  while (level < enough) {
    const double top = std::max(level_of_old(), level_of_new());
    if (level >= top) break;
    for (; level_of_new() == top; caps_.pop_back()) {
      const Flow& flow = flows_[caps_.front().index];
      const Share share = share_of(flow, r, shapes_[flow.shape].idle_rate);
      used -= share.part;
      pull += share.pull;
      std::pop_heap(caps_.begin(), caps_.end(), HighestFirst());
    }
    for (; level_of_old() == top; ++old) {
      const Flow& flow = flows_[old->flow];
      const Share share = share_of(flow, r, flow.rate);
      used -= share.part;
      pull += share.pull;
    }
    if (used <= whole) level = level_of(resource, static_cast<Part>(used), pull);
  }
  return level;
}

void FluidNetwork::collect_all() {
  for (const std::uint32_t r : to_share_) {
    resources_[r].to_share = false;
    if (contended(resources_[r]))
      visit(r);
    else
      dissolve(r);
  }
  to_share_.clear();
  for (const std::uint32_t f : started_) collect(f);
  for (std::size_t i = 0; i < group_resources_.size(); ++i) {  // grows meanwhile
    Resource& resource = resources_[group_resources_[i]];
    take_tail(resource);
    for (std::size_t t = resource.tail_begin; t < resource.tail_end; ++t) collect(tails_[t].flow);
  }
}

void FluidNetwork::visit(std::uint32_t r) {
  Resource& resource = resources_[r];
  if (resource.visited == epoch_) return;
  resource.visited = epoch_;
  resource.pull = 0;
  resource.open = 0;
  group_resources_.push_back(r);
}

/// Moves the members from the floor up to `tails_`.
void FluidNetwork::take_tail(Resource& resource) {
  resource.tail_begin = tails_.size();
  while (!resource.members.empty()) {
    const Member last = resource.members.back();
    if (!alive(last)) {
      --resource.dead;
    } else {
      if (flows_[last.flow].level < floor_) break;
      tails_.push_back(last);
    }
    resource.members.pop_back();
  }
  resource.tail_end = tails_.size();
}

/// A resource is contended no more: its flows from the floor up may be faster, and its order ends.
void FluidNetwork::dissolve(std::uint32_t r) {
  Resource& resource = resources_[r];
  drop_dead(resource);
  resource.ordered = false;
  for (auto m = resource.members.rbegin(); m != resource.members.rend(); ++m) {
    const Flow& flow = flows_[m->flow];
    if (flow.visited != epoch_ && flow.level < floor_) break;
    collect(m->flow);
  }
}

/// A flow that shares is to be solved, with its contended resources; any other has its idle rate.
void FluidNetwork::collect(std::uint32_t f) {
  Flow& flow = flows_[f];
  if (flow.visited == epoch_) return;
  flow.visited = epoch_;
  const double weight = shapes_[flow.shape].weight;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (!contended(resource)) continue;
    flow.open = true;
    visit(l.resource);
    resource.used -= static_cast<Part>(part_of(resource, l, flow.rate));
    resource.pull += pull_of(l, weight);
    if (!l.again) ++resource.open;
  }
  if (flow.open)
    group_.push_back(f);
  else
    run_free(f);
}

// ---- water ------------------------------------------------------------------------------------------------------

/// Progressive filling from the floor. As flows freeze, a resource's level only rises, so a key in the heap is
/// refreshed when it comes to the top.
void FluidNetwork::fill() {
  heap_.clear();
  for (const std::uint32_t r : group_resources_) {
    const Resource& resource = resources_[r];
    if (resource.open > 0) heap_.push_back({.level = level_of(resource, resource.used, resource.pull), .index = r});
  }
  std::make_heap(heap_.begin(), heap_.end(), LowestFirst());
  caps_.clear();
  caps_done_ = 0;
  cap_lowest_ = uncapped;
  for (const std::uint32_t f : group_) cap_lowest_ = std::min(cap_lowest_, cap_level(flows_[f]));
  double water = floor_;
  while (!heap_.empty()) {
    const double level = heap_.front().level;
    take_batch(level, water);
    if (batch_.empty()) continue;
    water = level;
    freeze_capped(level);
    // Capped flows have left something to some: their level has risen. Asked of all before any freezes its flows.
    std::erase_if(batch_, [&](const Batched& b) {
      if (resources_[b.resource].open == b.open) return false;
      heap_.push_back({.level = level, .index = b.resource});
      std::push_heap(heap_.begin(), heap_.end(), LowestFirst());
      return true;
    });
    for (const Batched& b : batch_) freeze_tail(resources_[b.resource], level);
  }
}

/// Takes all resources of that key from the heap: those that are full there into `batch_`, the others back with the
/// level that they have now. Never below the water: rounding must not make a rate zero or negative.
void FluidNetwork::take_batch(double level, double water) {
  batch_.clear();
  while (!heap_.empty() && heap_.front().level == level) {
    const std::uint32_t r = heap_.front().index;
    const Resource& resource = resources_[r];
    if (resource.open > 0) {
      const double now = std::max(water, level_of(resource, resource.used, resource.pull));
      if (now > level) {
        replace_lowest({.level = now, .index = r});
        continue;
      }
      batch_.push_back({.resource = r, .open = resource.open});
    }
    std::pop_heap(heap_.begin(), heap_.end(), LowestFirst());
    heap_.pop_back();
  }
}

/// The lowest of the heap becomes higher: it sinks, which is less than to take it out and put it in again.
void FluidNetwork::replace_lowest(Level higher) {
  const LowestFirst behind;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
    if (child + 1 < heap_.size() && behind(heap_[child], heap_[child + 1])) ++child;
    if (!behind(higher, heap_[child])) break;
    heap_[hole] = heap_[child];
    hole = child;
  }
  heap_[hole] = higher;
}

/// Freezes the flows whose idle rate is reached before `level`. Most solves never come to it, so the list of
/// caps is made when the water first reaches the lowest.
void FluidNetwork::freeze_capped(double level) {
  if (level < cap_lowest_) return;
  if (caps_.empty()) {
    for (const std::uint32_t f : group_) {
      if (flows_[f].open) caps_.push_back({.level = cap_level(flows_[f]), .index = f});
    }
    const auto lower = [](const Level& a, const Level& b) { return a.level < b.level; };
    // Equal caps are the rule, and need no sorting.
    if (!std::is_sorted(caps_.begin(), caps_.end(), lower)) {
      std::sort(caps_.begin(), caps_.end(), [](const Level& a, const Level& b) { return LowestFirst()(b, a); });
    }
  }
  for (; caps_done_ < caps_.size() && caps_[caps_done_].level <= level; ++caps_done_) {
    const auto [cap, f] = caps_[caps_done_];
    if (flows_[f].open) freeze(f, cap, shapes_[flows_[f].shape].idle_rate);
  }
  cap_lowest_ = uncapped;
  if (caps_done_ < caps_.size()) cap_lowest_ = caps_[caps_done_].level;
}

void FluidNetwork::freeze_tail(const Resource& resource, double level) {
  for (std::size_t t = resource.tail_begin; t < resource.tail_end; ++t) {
    const std::uint32_t f = tails_[t].flow;
    if (!flows_[f].open) continue;
    const Shape& shape = shapes_[flows_[f].shape];
    freeze(f, level, std::min(shape.idle_rate, shape.weight * level));
  }
}

/// Gives a flow its rate and its place in the lists of its resources: after all that froze before.
void FluidNetwork::freeze(std::uint32_t f, double level, double rate) {
  Flow& flow = flows_[f];
  flow.open = false;
  flow.level = level;
  const double before = flow.rate;
  const bool changed = set_rate(f, rate);
  const double weight = shapes_[flow.shape].weight;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    resource.used += static_cast<Part>(part_of(resource, l, flow.rate));
    if (resource.visited == epoch_) {
      resource.pull -= pull_of(l, weight);
      if (!l.again) {
        --resource.open;
        put_in_order(resource, {.flow = f, .life = flow.life}, level);
      }
    } else {
      resource.used -= static_cast<Part>(part_of(resource, l, before));
    }
    if (changed && maybe_full(resource)) list_for_check(l.resource);
  }
}

/// Behind all that are not higher. Only a new flow with a low cap belongs below the floor, among those that stay.
void FluidNetwork::put_in_order(Resource& resource, const Member& member, double level) {
  auto at = resource.members.end();
  if (level < floor_) {
    while (at != resource.members.begin() && (!alive(at[-1]) || flows_[at[-1].flow].level > level)) --at;
  }
  resource.members.insert(at, member);
}

void FluidNetwork::run_free(std::uint32_t f) {
  Flow& flow = flows_[f];
  flow.level = cap_level(flow);
  const double before = flow.rate;
  if (!set_rate(f, shapes_[flow.shape].idle_rate)) return;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    resource.used += static_cast<Part>(part_of(resource, l, flow.rate) - part_of(resource, l, before));
    if (maybe_full(resource)) list_for_check(l.resource);
  }
}

/// A flow whose rate stays keeps the finish it has; else what it has moved is booked and its finish is reported.
bool FluidNetwork::set_rate(std::uint32_t f, double rate) {
  Flow& flow = flows_[f];
  if (std::abs(rate - flow.rate) <= same_rate * flow.rate) return false;
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.updated).seconds());
  flow.updated = now_;
  flow.rate = rate;
  ++flow.generation;
  ++rerated_;
  finishes_.push_back(
      {.flow = FlowId{f}, .generation = flow.generation, .at = now_ + fluid_time(flow.remaining, rate)});
  return true;
}

// ---- full or not ------------------------------------------------------------------------------------------------

void FluidNetwork::list_for_check(std::uint32_t resource) {
  if (resources_[resource].to_check) return;
  resources_[resource].to_check = true;
  to_check_.push_back(resource);
}

void FluidNetwork::check_full() {
  for (const std::uint32_t r : to_check_) {
    Resource& resource = resources_[r];
    resource.to_check = false;
    set_full(resource, resource.used >= full_min, now_);
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
