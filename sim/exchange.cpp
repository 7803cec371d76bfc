#include "sim/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace foretrain {

Share as_share(double factor) {
  constexpr double most = static_cast<double>(whole_share);
  if (!(factor >= 0 && factor <= most)) {
    throw std::invalid_argument(fmt::format("a share of {}; allowed: 0 to {}", factor, most));
  }
  return static_cast<Share>(std::llround(factor * most));
}

std::string Exchange::check(std::size_t members) const {
  if (copies_per_rank < whole_share || copies_per_node < copies_per_rank) {
    return fmt::format("{} copies a rank and {} a node travel as one; allowed: 1 <= a rank's <= a node's",
                       as_factor(copies_per_rank), as_factor(copies_per_node));
  }
  if (demand.empty()) return {};
  if (demand.size() != members) return fmt::format("the demand of {} members, not of {}", demand.size(), members);
  const Share whole = members * whole_share;
  const bool within = std::all_of(demand.begin(), demand.end(), [&](Share share) { return share <= whole; });
  const Share sum = std::accumulate(demand.begin(), demand.end(), Share{0});
  if (within && sum == whole) return {};
  return fmt::format("the demand of {} members adds up to {}, and must to {}", members, as_factor(sum), members);
}

Exchange one_in_demand(std::size_t members, double factor, std::size_t hottest) {
  const auto n = static_cast<double>(members);
  if (!(factor >= 1 && factor <= n)) {
    throw std::invalid_argument(
        fmt::format("{} times the mean for the hottest of {} members; allowed: 1 to {}", factor, members, members));
  }
  if (hottest >= members) {
    throw std::invalid_argument(fmt::format("member {} in demand; there are {}", hottest, members));
  }
  Exchange exchange;
  if (factor == 1) return exchange;
  // Rounded down, so that all others are alike to the last part; the hottest gets what is missing.
  const Share rest = members * whole_share - as_share(factor);
  const Share each = rest / (members - 1);
  exchange.demand.assign(members, each);
  exchange.demand[hottest] = members * whole_share - each * (members - 1);
  return exchange;
}

double expected_groups(std::uint32_t groups, std::uint32_t limit, std::uint32_t items, std::uint32_t drawn) {
  if (groups == 0 || items == 0 || items % groups != 0) {
    throw std::invalid_argument(fmt::format("{} items do not spread evenly over {} groups", items, groups));
  }
  if (limit < 1 || limit > groups) {
    throw std::invalid_argument(fmt::format("at most {} groups; allowed: 1 to {}", limit, groups));
  }
  const std::uint32_t each = items / groups;
  const std::uint64_t all = std::uint64_t{limit} * each;
  if (drawn < 1 || drawn > all) {
    throw std::invalid_argument(fmt::format("{} items drawn of {}; allowed: 1 to {}", drawn, all, all));
  }
  double none = 1;  // that a group gets none: one draw after another
  for (std::uint32_t i = 0; i < drawn && none > 0; ++i) {
    const double others = static_cast<double>(all - each) - i;
    none *= std::max(0.0, others) / (static_cast<double>(all) - i);
  }
  return limit * (1 - none);
}

}  // namespace foretrain
