#include <algorithm>
#include <stdexcept>

#include "sim/network.h"

namespace foretrain {

// Progressive filling as the textbook has it (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2): all rates
// rise together as weight * level; where a resource is full or a cap is reached, the flows concerned stop. Everything
// is summed afresh each round: quadratic, and the yardstick of FluidNetwork, which shares no code with it.
namespace {

struct Filling {
  std::span<const double> capacities;
  std::span<const StaticFlow> flows;
  std::vector<double> rates;
  std::vector<bool> stopped;

  /// The level at which each resource is full, if only the flows still rising go on; infinite without such flows.
  [[nodiscard]] std::vector<double> full_levels() const {
    std::vector<double> left(capacities.begin(), capacities.end());
    std::vector<double> pull(capacities.size(), 0.0);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const Load& l : flows[f].loads) {
        if (stopped[f])
          left[l.resource.index()] -= l.load * rates[f];
        else
          pull[l.resource.index()] += l.load * flows[f].weight;
      }
    }
    for (std::size_t r = 0; r < left.size(); ++r) left[r] = pull[r] > 0 ? left[r] / pull[r] : uncapped;
    return left;
  }

  /// The level at which a flow stops.
  [[nodiscard]] double stop_level(std::size_t f, const std::vector<double>& full) const {
    double level = flows[f].rate_cap / flows[f].weight;
    for (const Load& l : flows[f].loads) level = std::min(level, full[l.resource.index()]);
    return level;
  }

  /// Stops the flows that stop first; false when all have stopped.
  bool advance() {
    const std::vector<double> full = full_levels();
    std::vector<double> stops(flows.size(), uncapped);
    double lowest = uncapped;
    bool any = false;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f]) continue;
      any = true;
      stops[f] = stop_level(f, full);
      lowest = std::min(lowest, stops[f]);
    }
    if (any && lowest == uncapped) throw std::invalid_argument("max_min_rates: a flow that nothing limits");
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f] || stops[f] > lowest) continue;
      rates[f] = std::min(flows[f].rate_cap, flows[f].weight * lowest);
      stopped[f] = true;
    }
    return any;
  }
};

}  // namespace

std::vector<double> max_min_rates(std::span<const double> capacities, std::span<const StaticFlow> flows) {
  Filling filling{.capacities = capacities,
                  .flows = flows,
                  .rates = std::vector<double>(flows.size(), 0.0),
                  .stopped = std::vector<bool>(flows.size(), false)};
  while (filling.advance()) {
  }
  return filling.rates;
}

}  // namespace foretrain
