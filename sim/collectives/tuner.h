// The tuner: which algorithm and protocol NCCL picks for a call.
//
// NCCL compares `latency + bytes / bandwidth` of every (algorithm, protocol) from its own table of constants and takes
// the smallest; the table is made for ranking, not for absolute time (the times are ours, from the Transport). Where
// candidates come within 30 % of the best the table cannot tell, and our times decide.
// Source: NVIDIA/nccl 2.30, src/graph/tuning.cc and src/enqueue.cc.
//
//   Choice c = choose(Collective::all_reduce, mebibytes(64), shape, transport, {});
#pragma once

#include <optional>

#include "sim/collectives/collective.h"

namespace foretrain {

struct Choice {
  Algorithm algorithm{};
  Protocol protocol{};
  auto operator<=>(const Choice&) const = default;
};

/// NCCL_ALGO and NCCL_PROTO: what is set is the only thing allowed. As in NCCL, all-to-all, gather, scatter and
/// send/recv are point-to-point copies that these settings do not reach; of `pairwise` and `two_hop` an all-to-all (v
/// or not) uses the one that is set, and other calls take no notice. Algorithms that NCCL does not have run only when
/// set, but for `torus_ring`, the default of a group that fills a box of a torus.
struct Forced {
  std::optional<Algorithm> algorithm;
  std::optional<Protocol> protocol;
};

/// How far above NCCL's best estimate a choice may lie for our time to decide. Its table ranks no closer: of 225
/// all-reduces on 1 to 128 H100 nodes, 1 KiB to 16 GiB, the constants of 2.20 pick another way than those of 2.30 for
/// 21, which by the latter lies up to 29 % above the best; and the clusters that it is held against run many versions.
inline constexpr double near_tie = 1.3;

/// Throws std::invalid_argument naming op, what was forced and what is possible when nothing supports it on this group.
[[nodiscard]] Choice choose(Collective op, Bytes size, const GroupShape& shape, const Transport& transport,
                            const Forced& forced);

/// NCCL's own estimate of a call, the number that `choose` compares; nothing where NCCL has no such combination.
[[nodiscard]] std::optional<Duration> nccl_estimate(Collective op, Choice choice, Bytes size, const GroupShape& shape,
                                                    const Transport& transport);

}  // namespace foretrain
