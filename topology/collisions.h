// Collisions: how many flows meet on each link when given pairs of GPUs send at once, and what that costs against an
// even spread over all shortest paths.
//
//   CollisionReport r = find_collisions(fabric, ring_pairs(fabric), Routing::ecmp, {.seed = 1, .flows_per_pair = 16});
//   r.lost_bandwidth;                       // 0.4: the pairs get 60 % of what an even spread gives them
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/fabric.h"
#include "topology/routing/router.h"

namespace foretrain {

/// Which pairs send at once.
enum class TrafficPattern : std::uint8_t { ring, permutation };
inline constexpr TrafficPattern all_traffic_patterns[] = {TrafficPattern::ring, TrafficPattern::permutation};
[[nodiscard]] std::string_view to_text(TrafficPattern pattern);

struct GpuPair {
  GpuId from;
  GpuId to;
};

/// Every GPU sends to the one in its position in the next node that has such: the rings between nodes of data-parallel
/// groups, all at once. Empty with one node.
[[nodiscard]] std::vector<GpuPair> ring_pairs(const Fabric& fabric);
/// Every GPU sends to one other GPU and receives from one: a random cycle through all of them, by the seed. Empty with
/// one GPU.
[[nodiscard]] std::vector<GpuPair> permutation_pairs(const Fabric& fabric, std::uint64_t seed);

/// Towards the core, from it, or between switches of one kind (torus, dragonfly).
enum class Direction : std::uint8_t { up, down, across };
[[nodiscard]] std::string_view to_text(Direction direction);

/// The links between switches of one tier and direction that an even spread of the same pairs uses.
struct TierCollisions {
  std::string tier;
  Direction direction{};
  std::size_t links = 0;
  std::size_t idle = 0;  ///< of them, with no flow
  double flows_min = 0;  ///< on a link; a flow divided over several links counts by its parts
  double flows_mean = 0;
  double flows_max = 0;
  std::map<std::uint32_t, std::size_t> histogram;  ///< flows, rounded: links that carry so many
};

struct CollisionReport {
  std::size_t pairs = 0;
  std::uint32_t flows_per_pair = 1;
  std::vector<TierCollisions> tiers;  ///< by tier, then direction; none without links between switches in use
  /// Time that the busiest link needs for its bytes when every pair sends one byte: exactly what a collective takes in
  /// which all pairs advance together, and the least that pairs need which do not wait for each other.
  double busiest_s_per_byte = 0;
  double even_s_per_byte = 0;     ///< the same with an even spread
  double lost_bandwidth = 0;      ///< 1 - even / busiest; below 0 where the routing does better than an even spread
  std::optional<LinkId> busiest;  ///< the first of those that need longest; none without pairs
};

/// Throws as the router: std::runtime_error where a pair has no path.
[[nodiscard]] CollisionReport find_collisions(const Fabric& fabric, std::span<const GpuPair> pairs, Routing routing,
                                              const RouterOptions& options);

}  // namespace foretrain
