// Communicators of the jobs that are benchmarked.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/program.h"

namespace foretrain::bench {

/// Ranks first, first + stride, ...
[[nodiscard]] inline std::vector<RankId> every(std::uint32_t first, std::uint32_t stride, std::uint32_t count) {
  std::vector<RankId> ranks;
  ranks.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) ranks.push_back(RankId{first + i * stride});
  return ranks;
}

/// One communicator, the next slot of each of its members.
inline void add_group(Job& job, std::uint8_t dimension, std::vector<RankId> members) {
  const auto id = id_at<CommunicatorId>(job.communicators.size());
  for (const RankId rank : members) job.ranks[rank.index()].slots.push_back(id);
  job.communicators.push_back({.members = std::move(members), .dimension = dimension});
}

/// `ranks` that run program 0 of the job, without communicators, rank r on GPU r.
inline void add_ranks(Job& job, std::uint32_t ranks) {
  job.ranks.resize(ranks);
  job.placement.reserve(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) job.placement.push_back(GpuId{r});
}

}  // namespace foretrain::bench
