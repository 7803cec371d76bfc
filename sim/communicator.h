// Communicator: an ordered group of ranks that call collectives together, and the vocabulary of those calls.
//
// A communicator is used from one stream of each member (as with NCCL, where concurrent calls on one communicator
// serialise); all members make the same calls in the same order, else the job hangs and the player says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/ids.h"
#include "topology/units.h"

namespace foretrain {

using RankId = Id<struct RankTag>;
using CommunicatorId = Id<struct CommunicatorTag>;

/// `send_recv` goes from member 0 to member 1 of a communicator of two.
enum class Collective : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  send_recv
};
inline constexpr Collective all_collectives[] = {
    Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
    Collective::reduce,     Collective::all_to_all, Collective::send_recv};
[[nodiscard]] std::string_view to_text(Collective op);

/// Bus bandwidth over algorithm bandwidth for n ranks, as nccl-tests' doc/PERFORMANCE.md defines it:
/// all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all (n-1)/n; broadcast, reduce, send/recv 1.
[[nodiscard]] double busbw_factor(Collective op, std::size_t ranks);

enum class Algorithm : std::uint8_t { ring, tree, nvls, nvls_tree, pairwise };
inline constexpr Algorithm all_algorithms[] = {Algorithm::ring, Algorithm::tree, Algorithm::nvls, Algorithm::nvls_tree,
                                               Algorithm::pairwise};
[[nodiscard]] std::string_view to_text(Algorithm algorithm);

enum class Protocol : std::uint8_t { ll, ll128, simple };
inline constexpr Protocol all_protocols[] = {Protocol::ll, Protocol::ll128, Protocol::simple};
[[nodiscard]] std::string_view to_text(Protocol protocol);

/// Message sizes are nccl-tests' "size": the reduced buffer of an all-reduce, the whole gathered buffer of an
/// all-gather, the whole input of a reduce-scatter, what a rank sends in all (itself included) for an all-to-all.
struct Communicator {
  std::vector<RankId> members;
  std::uint8_t dimension = 0;  ///< index into Job::dimensions: what its time is booked under
};

}  // namespace foretrain
