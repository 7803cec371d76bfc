// Weighted max-min rates by linear programming: slow, independent of progressive filling, for tests only.
#pragma once

#include <span>
#include <vector>

#include "sim/network.h"

namespace foretrain {

/// Maximises the lowest x / weight; stops the flows that cannot have more; repeats with the others. Good to some 1e-6
/// for numbers between 1/1000 and 1000.
[[nodiscard]] std::vector<double> max_min_rates_by_lp(std::span<const double> capacities,
                                                      std::span<const StaticFlow> flows);

}  // namespace foretrain
