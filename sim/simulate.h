// simulate: plays a Job on a Fabric and returns what happened.
//
//   Measured m = simulate(fabric, transport, job, {.routing = Routing::spread});
//   m.step.seconds();
//
// Fidelity `fluid`: transfers share links max-min fairly. `analytic`: every transfer takes its time on an idle network.
// `flows`: every call is played as its single chunk sends with their dependencies, each a flow; the oracle for `fluid`.
// Same arguments, same answer, bit for bit.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/collectives/tuner.h"
#include "sim/per_rank.h"
#include "sim/program.h"
#include "sim/total_time.h"
#include "sim/transport.h"
#include "topology/fabric.h"
#include "topology/routing/router.h"

namespace foretrain {

enum class Fidelity : std::uint8_t { fluid, analytic, flows };
inline constexpr Fidelity all_fidelities[] = {Fidelity::fluid, Fidelity::analytic, Fidelity::flows};
[[nodiscard]] std::string_view to_text(Fidelity fidelity);

struct SimulateOptions {
  Fidelity fidelity = Fidelity::fluid;
  Routing routing = Routing::spread;
  std::uint64_t seed = 1;
  std::uint32_t flows_per_pair = 1;  ///< RouterOptions
  Forced forced;
  std::uint32_t pieces = 64;   ///< flows: into how many a message that goes through a tree or chain is cut at most
  bool fold = true;            ///< ranks that do the same are played once (sim/fold.h); same answers, faster
  std::vector<RankId> traced;  ///< ranks whose operations are recorded
  std::function<void(double)> progress;  ///< told now and then which part of all operations has been played
};

/// How one rank's step divides. Exact: busy + exposed + waiting + tail = step, checked by the player.
struct RankAccount {
  std::vector<Duration> busy;     ///< by activity: the main stream computes
  std::vector<Duration> exposed;  ///< by communication row: the main stream waits for bytes in flight
  std::vector<Duration> waiting;  ///< by communication row: the main stream waits for a peer to arrive
  Duration tail;                  ///< after its last operation, until the slowest rank is done
  Duration slowed;                ///< of `busy`: how much longer it took beside communication (Program::contention)
};

/// All calls of one collective in one dimension.
struct CommunicationRow {
  std::uint8_t dimension = 0;
  Collective op{};
  std::uint64_t calls = 0;  ///< summed over ranks
  std::uint64_t ranks = 0;  ///< that make such calls
  double bytes = 0;         ///< message bytes, summed over calls and ranks
  double bus_bytes = 0;     ///< the same times the busbw factor
  TotalTime time;           ///< last arrival to end, summed over calls and ranks
  TotalTime idle_time;      ///< the same calls on an idle network, in closed form
};

struct LinkUse {
  double bytes = 0;    ///< that crossed it
  Duration saturated;  ///< time during which it was some transfer's full bottleneck
};

struct MemoryPeak {
  Bytes peak;                ///< largest sum of the rank's memory changes
  std::vector<Bytes> parts;  ///< by memory part, at that instant
  Time at;
};

struct TracedOperation {
  std::uint32_t stream = 0;
  std::uint32_t index = 0;  ///< into Program::streams[stream].operations
  Time start;               ///< communicate: this rank arrived
  Time began;               ///< communicate: all had arrived
  Time end;
  std::uint32_t call = 0;  ///< communicate: the how-manieth call of its communicator
  Choice choice{};         ///< communicate
};

/// Bytes over time through one tier, in equal bins from the start of the step.
struct TierTimeline {
  Duration bin;
  std::vector<double> utilization;  ///< mean over the tier's links
};

struct EngineStats {
  std::uint64_t operations = 0;    ///< played, over all ranks
  std::uint64_t events = 0;        ///< that were queued, those that became void included
  std::uint64_t transfers = 0;     ///< calls
  std::uint64_t sends = 0;         ///< flows: chunk sends of them
  std::uint64_t resolves = 0;      ///< max-min solves with more than one flow
  std::size_t resources = 0;       ///< distinct capacities after merging links that are always used together
  std::size_t rank_classes = 0;    ///< that were played, one rank each
  std::size_t rank_kinds = 0;      ///< programs at different paces: the fewest classes that there could be
  std::size_t rank_groupings = 0;  ///< classes by programs and communicators, as if no link were shared
};

struct Measured {
  Duration step;
  PerRank<RankAccount> ranks;
  std::vector<CommunicationRow> communication;
  std::vector<LinkUse> links;  ///< by LinkId
  PerRank<MemoryPeak> memory;
  std::vector<std::vector<TracedOperation>> traces;  ///< in the order of SimulateOptions::traced, by start time
  std::vector<TierTimeline> tiers;                   ///< by TierId; empty when nothing is traced
  EngineStats engine;
};

/// The job cannot finish: the message says who waits for whom.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Deadlock; std::invalid_argument when the job does not fit the fabric or is inconsistent (Job::check).
[[nodiscard]] Measured simulate(const Fabric& fabric, const Transport& transport, const Job& job,
                                const SimulateOptions& options);

/// One call on an otherwise idle network: what `foretrain collective` prints a row of.
struct IdleCall {
  Choice choice;
  Duration latency;
  Duration time;               ///< latency and transfer
  std::string limit;           ///< tier of the link that bounds it, "protocol", or "latency"
  std::optional<LinkId> link;  ///< that bounds it, where one does
};
[[nodiscard]] IdleCall idle_call(const Fabric& fabric, const Transport& transport, const Router& router, Collective op,
                                 Bytes size, const std::vector<GpuId>& group, const Forced& forced,
                                 const Exchange& exchange = even_exchange);

}  // namespace foretrain
