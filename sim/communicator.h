// Communicator: an ordered group of ranks that call collectives together, and the vocabulary of those calls.
//
// A communicator is used from one stream of each member (as with NCCL, where concurrent calls on one communicator
// serialise); all members make the same calls in the same order, else the job hangs and the player says so.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/ids.h"
#include "topology/units.h"

namespace foretrain {

using RankId = Id<struct RankTag>;
using CommunicatorId = Id<struct CommunicatorTag>;

/// `send_recv` goes from member 0 to member 1 of a communicator of two; member 0 is the root of broadcast, reduce,
/// gather and scatter. A `barrier` is an all-reduce of nothing. `all_to_allv` has parts as its communicator's exchange
/// says, `all_to_allv_back` is the same with all copies turned round: dispatch and combine of expert parallelism. In a
/// `shift` every member sends to the one after it, the last to the first: one step around a ring (nccl-tests'
/// sendrecv).
enum class Collective : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  send_recv,
  gather,
  scatter,
  barrier,
  all_to_allv,
  all_to_allv_back,
  shift
};
inline constexpr Collective all_collectives[] = {
    Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
    Collective::reduce,     Collective::all_to_all, Collective::send_recv,      Collective::gather,
    Collective::scatter,    Collective::barrier,    Collective::all_to_allv,    Collective::all_to_allv_back,
    Collective::shift};
[[nodiscard]] std::string_view to_text(Collective op);
/// A call on the wire: a barrier runs as an all-reduce without bytes, so algorithms need not know it.
[[nodiscard]] constexpr Collective played_as(Collective op) {
  return op == Collective::barrier ? Collective::all_reduce : op;
}
/// Every member sends to every member.
[[nodiscard]] constexpr bool is_all_to_all(Collective op) {
  return op == Collective::all_to_all || op == Collective::all_to_allv || op == Collective::all_to_allv_back;
}
/// Made of copies from one rank to another, which NCCL's algorithms and their settings do not reach.
[[nodiscard]] constexpr bool is_point_to_point(Collective op) {
  return is_all_to_all(op) || op == Collective::send_recv || op == Collective::shift || op == Collective::gather ||
         op == Collective::scatter;
}
[[nodiscard]] constexpr bool moves_bytes(Collective op) { return op != Collective::barrier; }

/// Bus bandwidth over algorithm bandwidth for n ranks, as nccl-tests' doc/PERFORMANCE.md defines it:
/// all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all (and v), gather, scatter (n-1)/n; broadcast, reduce,
/// send/recv and shift 1. A barrier has no bandwidth: 0.
[[nodiscard]] double busbw_factor(Collective op, std::size_t ranks);

enum class Algorithm : std::uint8_t {
  ring,
  tree,
  nvls,
  nvls_tree,
  pairwise,
  collnet,     ///< NCCL's CollNetDirect: reduced in the network's switches (SHARP)
  nvls_sharp,  ///< the same, and NVLS inside the node
  pat,
  halving_doubling,
  hierarchical,
  two_hop,
  torus_ring
};
inline constexpr Algorithm all_algorithms[] = {
    Algorithm::ring,    Algorithm::tree,       Algorithm::nvls, Algorithm::nvls_tree,        Algorithm::pairwise,
    Algorithm::collnet, Algorithm::nvls_sharp, Algorithm::pat,  Algorithm::halving_doubling, Algorithm::hierarchical,
    Algorithm::two_hop, Algorithm::torus_ring};
[[nodiscard]] std::string_view to_text(Algorithm algorithm);

enum class Protocol : std::uint8_t { ll, ll128, simple };
inline constexpr Protocol all_protocols[] = {Protocol::ll, Protocol::ll128, Protocol::simple};
[[nodiscard]] std::string_view to_text(Protocol protocol);

/// Message sizes are nccl-tests' "size": the reduced buffer of an all-reduce, the whole gathered buffer of an
/// all-gather, the whole input of a reduce-scatter, what a rank sends in all (itself included) for an all-to-all, what
/// the root has in all for gather and scatter, what a rank sends for a shift; a barrier's size means nothing. For
/// all_to_allv it is what every rank sends, and for its way back what every rank gets, copies counted one by one: the
/// mean of the other direction.
struct Communicator {
  std::vector<RankId> members;
  std::uint8_t dimension = 0;                  ///< index into Job::dimensions: what its time is booked under
  std::optional<std::uint16_t> exchange = {};  ///< index into Job::exchanges; none: all parts alike
  /// Its calls take so many times what the transport says: longer latencies, lower rates, the same bytes on the links.
  /// Below 1 up to the line rate of the links.
  double time_factor = 1;
  /// Between nodes at most so many channels, each over one NIC of a node; 0: one for every member in a node.
  std::uint32_t channels = 0;
};

}  // namespace foretrain
