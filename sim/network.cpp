#include "sim/network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>

namespace foretrain {

namespace {

constexpr std::uint32_t times_max = (std::uint32_t{1} << 31) - 1;
/// A resource used to this part of its capacity is full.
constexpr auto full_min = static_cast<Part>(static_cast<double>(whole_capacity) * (1 - 1e-9));
/// Demand below which it cannot be full.
constexpr auto demand_full_min = static_cast<Part>(static_cast<double>(whole_capacity) * (1 - 2e-9));
/// Dead entries are dropped when they are more than this and than half of a list.
constexpr std::size_t dead_min = 16;

bool positive_finite(double x) { return x > 0 && std::isfinite(x); }

}  // namespace

// ---- shapes -----------------------------------------------------------------------------------------------------

FluidNetwork::FluidNetwork(std::vector<double> capacities) {
  resources_.resize(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    if (!positive_finite(capacities[r])) {
      throw std::invalid_argument("FluidNetwork: capacity of resource " + std::to_string(r) + " must be positive");
    }
    resources_[r].capacity = capacities[r];
    resources_[r].parts_per_unit = static_cast<double>(whole_capacity) / capacities[r];
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
std::uint64_t FluidNetwork::solved() const { return solved_; }
std::uint64_t FluidNetwork::rerated() const { return rerated_; }
std::uint64_t FluidNetwork::active() const { return active_; }

bool FluidNetwork::current(FlowId flow, std::uint32_t generation) const {
  return flows_[flow.index()].generation == generation;
}

bool FluidNetwork::is_full(const Resource& resource) { return resource.used >= full_min; }
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
    resource.demand += part(resource, l, s.idle_rate);
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
    resource.used -= static_cast<Part>(part(resource, l, flow.rate));
    resource.demand -= part(resource, l, shape.idle_rate);
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

/// A flow of this level leaves a dead entry behind. How high the others were where the resource was full is asked at
/// the first to leave in an instant, when all is as it was solved.
void FluidNetwork::leave(std::uint32_t r, double level) {
  Resource& resource = resources_[r];
  if (resource.ordered && !resource.left) {
    resource.left = true;
    left_.push_back(r);
    resource.top = uncapped;
    if (is_full(resource)) resource.top = std::max(level, highest_level(resource));
  }
  one_more_dead(resource);
}

/// Of those with a rate; 0 without any.
double FluidNetwork::highest_level(const Resource& resource) const {
  for (auto m = resource.members.rbegin(); m != resource.members.rend(); ++m)
    if (alive(*m) && flows_[m->flow].rate > 0) return flows_[m->flow].level;
  return 0;
}

void FluidNetwork::one_more_dead(Resource& resource) {
  ++resource.dead;
  if (resource.dead > dead_min && 2 * resource.dead > resource.members.size()) drop_dead(resource);
}

void FluidNetwork::drop_dead(Resource& resource) {
  resource.dead -= std::erase_if(resource.members, [&](const Member& m) { return !alive(m); });
}

std::span<const FluidNetwork::Finish> FluidNetwork::resolve(Time now) {
  assert(now >= now_);
  now_ = now;
  ++epoch_;
  finishes_.clear();
  open_touched();
  if (!opened_.empty()) {
    fill();
    ++resolves_;
    solved_ += opened_.size();
  }
  settle();
  check_full();
  if (checks_) check_max_min();
  return finishes_;
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
    set_full(resource, is_full(resource), now_);
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
