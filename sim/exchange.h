// Exchange: how the parts of an all-to-all differ, for `all_to_allv` and its way back.
//
// Every member sends the size of the call in all. Of that, a member that is in demand gets more than the mean: a rank
// that holds popular experts of a mixture of experts. What a token's copies have in common may be sent once: to a node
// that several of them go to, to a rank that several of them go to.
//
//   Exchange exchange = one_in_demand(64, 1.5);                // 64 ranks; the first gets 1.5 times the mean
//   const double nodes = expected_groups(8, 4, 256, 8);        // top-8 of 256 experts on 8 nodes, at most 4 of them
//   exchange.copies_per_node = as_share(8 / nodes);            // 2.2 copies of a token go to a node that gets any
//   job.exchanges.push_back(exchange);
//   job.communicators.push_back({.members = ranks, .dimension = ep, .exchange = 0});
//   program.communicate(stream, {.op = Collective::all_to_allv, .size = copies_of_all_tokens, .slot = slot});
//   program.communicate(stream, {.op = Collective::all_to_allv_back, ...});
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/communicator.h"

namespace foretrain {

/// A factor in parts of 2^20, so that it is the same on every machine.
using Share = std::uint64_t;
inline constexpr Share whole_share = Share{1} << 20;
/// To the nearest part. Throws std::invalid_argument for what is negative, above 2^20 or no number.
[[nodiscard]] Share as_share(double factor);
[[nodiscard]] constexpr double as_factor(Share share) {
  return static_cast<double>(share) / static_cast<double>(whole_share);
}

struct Exchange {
  /// By member of the communicator: what it gets, over the mean. They add up to one whole a member. Empty: all get the
  /// same. On the way back a member sends what it got.
  std::vector<Share> demand;
  /// Copies that travel to a node as one, on the mean, with an algorithm that forwards inside the node (`two_hop`); at
  /// least one whole. Others send every copy by itself.
  Share copies_per_node = whole_share;
  /// The same of one member, over NVLink; at most `copies_per_node`.
  Share copies_per_rank = whole_share;
  /// The software's own choice of `pairwise` or `two_hop`, where neither is forced.
  std::optional<Algorithm> usual = {};
  friend bool operator==(const Exchange&, const Exchange&) = default;

  [[nodiscard]] double demand_of(std::size_t member) const { return demand.empty() ? 1 : as_factor(demand[member]); }
  /// What is wrong with it for so many members, or empty.
  [[nodiscard]] std::string check(std::size_t members) const;
};

/// Member `hottest` of `members` gets `factor` times the mean, all others alike. Throws std::invalid_argument unless
/// 1 <= factor <= members and hottest < members.
[[nodiscard]] Exchange one_in_demand(std::size_t members, double factor, std::size_t hottest = 0);

/// How many groups (nodes, ranks) hold at least one of `drawn` different items, on the mean, when `items` are spread
/// evenly over `groups`, `limit` of the groups are drawn first (group-limited routing; `groups` for none) and then the
/// items, evenly, from those. With m groups and e items in each of them that is m (1 - C(m e - e, drawn) / C(m e,
/// drawn)), the mean of the hypergeometric law. Routers that choose groups for their best items hit slightly more of
/// them. Throws std::invalid_argument unless groups divides items, 1 <= limit <= groups and 1 <= drawn <= limit * e.
[[nodiscard]] double expected_groups(std::uint32_t groups, std::uint32_t limit, std::uint32_t items,
                                     std::uint32_t drawn);

}  // namespace foretrain
