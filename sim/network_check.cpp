#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "sim/network.h"

namespace foretrain {

// Rates are max-min fair exactly if no resource is above its capacity and every flow has a bottleneck (Bertsekas and
// Gallager, Data Networks, 2nd ed., section 6.5.2). All sums are made afresh; nothing is taken from how the rates were
// found.
void FluidNetwork::check_max_min() const {
  constexpr double slack = 1e-9;  // relative: what rounding may leave, here and in the solver
  const auto fail = [&](const std::string& what, std::size_t index, const char* why) {
    throw std::logic_error("FluidNetwork: " + what + " " + std::to_string(index) + why + ", at " +
                           std::to_string(now_.ps()) + " ps");
  };
  std::vector<Wide> used(resources_.size(), 0);
  std::vector<double> highest(resources_.size(), 0.0);  // level, by resource
  std::uint64_t moving = 0;
  for (const Flow& flow : flows_) {
    if (flow.rate == 0) continue;
    ++moving;
    for (const ShapeLoad& l : loads_of(flow)) {
      used[l.resource] += part(resources_[l.resource], l, flow.rate);
      highest[l.resource] = std::max(highest[l.resource], flow.rate / shapes_[flow.shape].weight);
    }
  }
  if (moving != active_) fail("of", active_, " flows some have no rate");
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    if (used[r] != resources_[r].used) fail("resource", r, " is not used as its flows say");
    if (static_cast<double>(used[r]) > static_cast<double>(whole_capacity) * (1 + slack))
      fail("resource", r, " is above its capacity");
  }
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const Flow& flow = flows_[f];
    const Shape& shape = shapes_[flow.shape];
    if (flow.rate == 0 || flow.rate >= shape.idle_rate * (1 - slack)) continue;
    const auto loads = loads_of(flow);
    const bool held = std::any_of(loads.begin(), loads.end(), [&](const ShapeLoad& l) {
      return static_cast<double>(used[l.resource]) >= static_cast<double>(whole_capacity) * (1 - slack) &&
             highest[l.resource] <= flow.rate / shape.weight * (1 + slack);
    });
    if (!held) fail("flow", f, " has no bottleneck");
  }
}

}  // namespace foretrain
