// How rates are found without looking at most of the network.
//
// 1. No flow is ever faster than alone. So a resource that could carry all its flows at their idle rates at once limits
// none of them beyond what the idle rate says already, and can be left out of the problem. A resource is *contended*
// when what its flows would take so, its `demand`, exceeds its capacity. A flow on none has its idle rate, to the last
// bit.
//
// 2. The rest is progressive filling: the rates of *open* flows rise together as weight * level (the water), and freeze
// where a resource is full or an idle rate is reached. All others are *held* at the level that they had, but where that
// is above the water they count as open: a resource's key is the level at which it is full so. Open are
//   a. the flows that start;
//   b. the highest on a resource that was full, once a flow there has ended or is frozen lower than it was;
//   c. all that are higher than the key of a resource, when the water is there.
// Nothing is decided too early: what opens by (b) was at least as high as what was lowered, so it was above the water,
// and no key falls below the water. And nothing is missed. Take a flow that stayed held, and the resource that was its
// bottleneck before: full, and the flow among the highest. If nothing there ended or was lowered (b), those there take
// at least what they took, so the resource is full still; and none there is higher now than that flow is, for the key
// up to which they may rise is reached when the resource is full with the flow held. So it is its bottleneck still:
// rates are max-min fair (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2).
//
// 3. Capacities, and load * weight, are added up as integers (sim/parts.h). Sums are the same in any order and starts
// and ends cancel exactly; so a difference of large sums keeps all its digits.
//
// 4. Every choice is made by values, never by numbers of flows or resources: resources that are full at exactly the
// same level freeze their flows together, flows of exactly the same level are lowered together. So flows and resources
// that cannot be told apart are treated alike to the last bit, and one of each kind may be solved for all (sim/fold.h).
//
// Each contended resource keeps its flows sorted by level. Flows freeze in ascending order of level, so what is frozen
// finds its place at the end, when those above have stepped aside (`Resource::above`) until the water reaches them.
#include <algorithm>
#include <cassert>

#include "sim/network.h"

namespace foretrain {

namespace {

/// Relative: levels this close to the highest are opened too, so that rounding cannot hide an equal one.
constexpr double top_margin = 1e-11;

struct LowestFirst {
  template <class Level>
  bool operator()(const Level& a, const Level& b) const {
    return a.level != b.level ? a.level > b.level : a.index > b.index;
  }
};

}  // namespace

// ---- what is open -----------------------------------------------------------------------------------------------

void FluidNetwork::open_touched() {
  water_ = 0;
  cap_lowest_ = uncapped;
  caps_listed_ = false;
  for (const std::uint32_t r : left_) {
    if (contended(resources_[r])) visit(r, 0);
    resources_[r].relieved = false;
    relieve(r);
  }
  open_relieved();  // while those that start are not among the sorted
  for (const std::uint32_t f : started_) let_rise(f);
  started_.clear();
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

/// Before anything on the resource changes, but that a flow of this level has been taken out.
void FluidNetwork::visit(std::uint32_t r, double level) {
  Resource& resource = resources_[r];
  if (resource.visited == epoch_) return;
  resource.visited = epoch_;
  visited_.push_back(r);
  if (!resource.ordered) order(resource);
  if (!resource.left) {
    resource.top = uncapped;
    if (is_full(resource)) resource.top = std::max(level, highest_level(resource));
  }
  resource.relieved = false;
  resource.key = uncapped;
  resource.pull = 0;
  resource.open = 0;
  resource.rising = none;
}

/// A flow that shares is opened; any other has its idle rate.
void FluidNetwork::let_rise(std::uint32_t f) {
  const auto loads = loads_of(flows_[f]);
  const bool shares =
      std::any_of(loads.begin(), loads.end(), [&](const ShapeLoad& l) { return contended(resources_[l.resource]); });
  if (shares)
    open(f);
  else
    run_free(f);
}

void FluidNetwork::run_free(std::uint32_t f) {
  Flow& flow = flows_[f];
  flow.opened = epoch_;
  flow.level = cap_level(flow);
  const double before = flow.rate;
  if (!set_rate(f, shapes_[flow.shape].idle_rate)) return;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    resource.used += static_cast<Part>(part(resource, l, flow.rate) - part(resource, l, before));
    if (maybe_full(resource)) list_for_check(l.resource);
  }
}

/// Something has left the resource, or is lower: if it was full, its highest may rise.
void FluidNetwork::relieve(std::uint32_t r) {
  Resource& resource = resources_[r];
  if (resource.relieved || resource.top == uncapped) return;
  resource.relieved = true;
  relieved_.push_back(r);
}

void FluidNetwork::open_relieved() {
  for (std::size_t i = 0; i < relieved_.size(); ++i) {
    const Resource& resource = resources_[relieved_[i]];
    const double from = resource.top * (1 - top_margin);
    chosen_.clear();
    const auto choose = [&](const Member& m) {  // false: this one and those below stay
      if (!alive(m)) return true;
      const Flow& flow = flows_[m.flow];
      if (flow.rate == 0) return true;  // it has started, and is opened anyway
      if (flow.level < from) return false;
      if (flow.opened != epoch_ && flow.rate < shapes_[flow.shape].idle_rate) chosen_.push_back(m.flow);
      return true;
    };
    if (std::all_of(resource.above.begin(), resource.above.end(), choose))
      static_cast<void>(std::all_of(resource.members.rbegin(), resource.members.rend(), choose));
    for (const std::uint32_t f : chosen_) let_rise(f);
  }
  relieved_.clear();
}

/// Takes a flow out of what its resources carry. Its place among their members is void.
void FluidNetwork::open(std::uint32_t f) {
  Flow& flow = flows_[f];
  flow.opened = epoch_;
  flow.open = true;
  ++flow.life;
  ++open_;
  opened_.push_back(f);
  if (const double cap = cap_level(flow); cap < cap_lowest_) cap_lowest_ = cap;
  caps_listed_ = false;
  const double weight = shapes_[flow.shape].weight;
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    if (contended(resource)) {
      visit(l.resource, flow.rate > 0 ? flow.level : 0);
      resource.used -= static_cast<Part>(part(resource, l, flow.rate));
      resource.pull += pull(l, weight);
      if (!l.again) {
        ++resource.open;
        rising_.push_back({.flow = f, .next = resource.rising});
        resource.rising = static_cast<std::uint32_t>(rising_.size() - 1);
        // Up to its level it has counted as open: a lower key stays.
        if (!resource.to_key && (flow.rate == 0 || resource.key > flow.level)) {
          resource.to_key = true;
          to_key_.push_back(l.resource);
        }
      }
    }
    if (!l.again) one_more_dead(resource);
  }
}

// ---- keys -------------------------------------------------------------------------------------------------------

/// The level at which a resource is full when its open flows have that level, and held ones the lower of it and their
/// own. From all at their highest, held flows are lowered from the top, those of one level together, until what is over
/// capacity is gone. Infinite if the held ones leave room and none is open.
double FluidNetwork::full_level(std::uint32_t r) const {
  const Resource& resource = resources_[r];
  if (resource.open == 0 && resource.used <= whole_capacity + demand_slack) return uncapped;
  Wide used = resource.used;
  Wide pulled = resource.pull;
  double level = 0;
  if (resource.open > 0) level = level_when_full(resource.parts_per_unit, resource.used, pulled);
  double top = uncapped;  // of those that are being lowered
  const auto lower = [&](const Member& m) {
    if (!alive(m)) return true;
    const Flow& flow = flows_[m.flow];
    if (flow.level < top) {
      if (top < uncapped) level = level_when_full(resource.parts_per_unit, static_cast<Part>(used), pulled);
      top = flow.level;
      if (top <= std::max(level, water_) * (1 + same_rate)) return false;
    }
    const Share share = share_of(flow, r);
    used -= share.part;
    pulled += share.pull;
    return true;
  };
  if (std::all_of(resource.above.begin(), resource.above.end(), lower) &&
      std::all_of(resource.members.rbegin(), resource.members.rend(), lower) && pulled > 0)
    level = level_when_full(resource.parts_per_unit, static_cast<Part>(used), pulled);
  return std::max(level, water_);  // rounding must not make a rate zero or negative
}

FluidNetwork::Share FluidNetwork::share_of(const Flow& flow, std::uint32_t r) const {
  const auto loads = loads_of(flow);
  const auto before = [](const ShapeLoad& l, std::uint32_t resource) { return l.resource < resource; };
  Share share;
  for (auto l = std::lower_bound(loads.begin(), loads.end(), r, before); l != loads.end() && l->resource == r; ++l) {
    share.part += part(resources_[r], *l, flow.rate);
    share.pull += pull(*l, shapes_[flow.shape].weight);
  }
  return share;
}

/// Of resources where flows were opened. As flows freeze, a resource's key only rises, and is refreshed when it comes
/// to the top of the heap; as they open, it falls.
void FluidNetwork::set_keys() {
  const bool first = heap_.empty();
  for (const std::uint32_t r : to_key_) {
    Resource& resource = resources_[r];
    resource.to_key = false;
    const double level = full_level(r);
    if (level >= resource.key) continue;
    resource.key = level;
    heap_.push_back({.level = level, .index = r});
    if (!first) std::push_heap(heap_.begin(), heap_.end(), LowestFirst());
  }
  if (first) std::make_heap(heap_.begin(), heap_.end(), LowestFirst());
  to_key_.clear();
}

// ---- water ------------------------------------------------------------------------------------------------------

void FluidNetwork::fill() {
  set_keys();
  for (;;) {
    if (open_ == 0) keep_overfull();
    if (heap_.empty()) break;
    const double level = heap_.front().level;
    take_batch(level);
    if (batch_.empty()) continue;
    water_ = level;
    if (freeze_capped(level)) {
      // They have left something to some of the batch: asked of all before any freezes its flows.
      for (const std::uint32_t r : batch_) {
        resources_[r].key = level;
        heap_.push_back({.level = level, .index = r});
        std::push_heap(heap_.begin(), heap_.end(), LowestFirst());
      }
    } else {
      freeze_batch(level);
    }
    open_relieved();
    set_keys();
  }
  assert(open_ == 0);
}

/// Takes all resources of that key from the heap: those that are full there into `batch_`, the others back with the
/// key that they have now.
void FluidNetwork::take_batch(double level) {
  batch_.clear();
  while (!heap_.empty() && heap_.front().level == level) {
    const std::uint32_t r = heap_.front().index;
    Resource& resource = resources_[r];
    if (resource.key == level) {
      const double now = full_level(r);
      if (now > level) {
        resource.key = now;
        if (now < uncapped) {
          replace_lowest({.level = now, .index = r});
          continue;
        }
      } else {
        resource.key = uncapped;
        batch_.push_back(r);
      }
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

/// When no flow is open: only what is above its capacity is still to be seen to.
void FluidNetwork::keep_overfull() {
  std::erase_if(heap_, [&](const Level& entry) {
    Resource& resource = resources_[entry.index];
    if (entry.level != resource.key) return true;
    if (resource.used > whole_capacity + demand_slack) return false;
    resource.key = uncapped;
    return true;
  });
  std::make_heap(heap_.begin(), heap_.end(), LowestFirst());
}

/// Freezes the open flows whose idle rate is reached before `level`; false if there are none. Most solves never come to
/// it, so the list of caps is made when the water first reaches the lowest.
bool FluidNetwork::freeze_capped(double level) {
  if (level < cap_lowest_) return false;
  if (!caps_listed_) {
    caps_listed_ = true;
    caps_.clear();
    caps_done_ = 0;
    for (const std::uint32_t f : opened_)
      if (flows_[f].open) caps_.push_back({.level = cap_level(flows_[f]), .index = f});
    const auto lower = [](const Level& a, const Level& b) { return a.level < b.level; };
    // Equal caps are the rule, and need no sorting.
    if (!std::is_sorted(caps_.begin(), caps_.end(), lower))
      std::sort(caps_.begin(), caps_.end(), [](const Level& a, const Level& b) { return LowestFirst()(b, a); });
  }
  bool any = false;
  for (; caps_done_ < caps_.size() && caps_[caps_done_].level <= level; ++caps_done_) {
    const auto [cap, f] = caps_[caps_done_];
    if (!flows_[f].open) continue;
    freeze(f, cap, shapes_[flows_[f].shape].idle_rate);
    any = true;
  }
  cap_lowest_ = uncapped;
  if (caps_done_ < caps_.size()) cap_lowest_ = caps_[caps_done_].level;
  return any;
}

/// All that is open on the resources of the batch, and what is held there above `level`.
void FluidNetwork::freeze_batch(double level) {
  const auto freeze_here = [&](std::uint32_t f) {
    const Shape& shape = shapes_[flows_[f].shape];
    freeze(f, level, std::min(shape.idle_rate, shape.weight * level));
  };
  for (const std::uint32_t r : batch_)
    for (std::uint32_t i = resources_[r].rising; i != none; i = rising_[i].next)
      if (flows_[rising_[i].flow].open) freeze_here(rising_[i].flow);
  chosen_.clear();
  const auto choose = [&](const Member& m) {
    if (!alive(m)) return true;
    if (flows_[m.flow].level <= level * (1 + same_rate)) return false;
    chosen_.push_back(m.flow);
    return true;
  };
  for (const std::uint32_t r : batch_)
    if (const Resource& resource = resources_[r]; std::all_of(resource.above.begin(), resource.above.end(), choose))
      static_cast<void>(std::all_of(resource.members.rbegin(), resource.members.rend(), choose));
  for (const std::uint32_t f : chosen_) {
    if (flows_[f].opened == epoch_) continue;  // by another of the batch
    open(f);
    freeze_here(f);
  }
}

/// Gives a flow its rate and its place among the members of its resources: after all that froze before.
void FluidNetwork::freeze(std::uint32_t f, double level, double rate) {
  Flow& flow = flows_[f];
  flow.open = false;
  --open_;
  flow.level = level;
  const double before = flow.rate;
  const bool changed = set_rate(f, rate);
  const bool lowered = changed && rate < before;
  const double weight = shapes_[flow.shape].weight;
  const Member member{.flow = f, .life = flow.life};
  for (const ShapeLoad& l : loads_of(flow)) {
    Resource& resource = resources_[l.resource];
    resource.used += static_cast<Part>(part(resource, l, flow.rate));
    if (contended(resource)) {
      resource.pull -= pull(l, weight);
      if (!l.again) {
        --resource.open;
        place(resource, member, level);
      }
      if (lowered) relieve(l.resource);
    } else {
      resource.used -= static_cast<Part>(part(resource, l, before));
      if (!l.again) resource.members.push_back(member);
    }
    if (changed && maybe_full(resource)) list_for_check(l.resource);
  }
}

/// Behind all members that are not higher; the others wait above.
void FluidNetwork::place(Resource& resource, const Member& member, double level) {
  auto& members = resource.members;
  auto& above = resource.above;
  for (; !above.empty(); above.pop_back()) {
    if (!alive(above.back())) {
      --resource.dead;
      continue;
    }
    if (flows_[above.back().flow].level > level) break;
    members.push_back(above.back());
  }
  for (; !members.empty(); members.pop_back()) {
    if (!alive(members.back())) {
      --resource.dead;
      continue;
    }
    if (flows_[members.back().flow].level <= level) break;
    above.push_back(members.back());
  }
  members.push_back(member);
}

void FluidNetwork::settle() {
  for (const std::uint32_t r : visited_) {
    Resource& resource = resources_[r];
    for (; !resource.above.empty(); resource.above.pop_back()) {
      if (alive(resource.above.back()))
        resource.members.push_back(resource.above.back());
      else
        --resource.dead;
    }
  }
  for (const std::uint32_t r : left_) {
    resources_[r].left = false;
    if (!contended(resources_[r])) resources_[r].ordered = false;
  }
  left_.clear();
  visited_.clear();
  opened_.clear();
  rising_.clear();
}

}  // namespace foretrain
