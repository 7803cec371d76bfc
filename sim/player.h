// The player: runs every actor's program against the network. Internal to sim; `simulate` is the way in.
//
// It plays a quotient (sim/quotient.h): an actor stands for the ranks of its class, a group for the communicators of
// its class. Where nothing is folded that is one each.
//
// A rank's streams run ahead: operations whose start is known are played at once, without an event, because nothing can
// change them any more. A stream stops where it must learn something: an event not set yet, or a call whose other
// members have not arrived. So does the main stream where calls may slow what it computes (sim/contention.h): the end
// of a computation that a call could still join is an event. The queue otherwise holds transfers only: when one starts
// to move bytes, and when it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/contention.h"
#include "sim/event_queue.h"
#include "sim/quotient.h"
#include "sim/send_player.h"
#include "sim/simulate.h"
#include "sim/tier_recorder.h"

namespace foretrain {

class Player {
 public:
  /// Keeps references to all but the quotient.
  Player(const Fabric& fabric, const Job& job, const SimulateOptions& options, const Expansion& expansion,
         const Fold& fold, Quotient quotient);
  [[nodiscard]] Measured play();

 private:
  static constexpr std::int64_t unset = INT64_MIN;
  static constexpr std::uint32_t nothing = UINT32_MAX;
  static constexpr std::uint64_t report_every = 1U << 16;  // events: a few hundred reports in a long run

  enum class State : std::uint8_t { ready, blocked, calling, computing, done };
  struct StreamState {
    std::int64_t clock = 0;    ///< end of its last operation, ps; of the call or computation at hand the start
    std::uint32_t cursor = 0;  ///< next operation
    std::uint32_t blocked_on = nothing;  ///< event, while blocked
    State state = State::ready;
  };
  struct CallState {         ///< of a group: the call that is gathering or in flight
    std::int64_t ready = 0;  ///< last arrival so far, ps
    std::int64_t moving_since = 0;
    std::int64_t size = 0;
    std::uint32_t planned = 0;  ///< into Quotient::calls, once all have arrived
    std::uint32_t arrived = 0;  ///< members of the group
    std::uint32_t number = 0;   ///< calls completed before this one
    Collective op{};
  };
  struct Played {  ///< of a planned call, over the calls of one communicator
    std::uint64_t calls = 0;
    TotalTime time;  ///< last arrival to end
  };
  struct Runnable {
    ActorId actor;
    std::uint32_t stream;
  };

  void lay_out();
  void find_peaks();
  void run_streams();
  void run_stream(ActorId actor, std::uint32_t stream);
  void lay_out_contention();
  [[nodiscard]] bool may_be_slowed(ActorId actor) const;
  void start_computing(ActorId actor, StreamState& s, std::int64_t work);
  void computed(ActorId actor, Time now);
  void set_end(ActorId actor, std::optional<Contention::Foreseen> end);
  void call_complete(GroupId id, Time now);
  void stop_slowing(GroupId id, Time now);
  bool wait_for_events(ActorId actor, std::uint32_t stream, StreamState& s, const Operation& o);
  void finish_operation(ActorId actor, std::uint32_t stream, StreamState& s, const Operation& o, std::int64_t end);
  void arrive(ActorId actor, std::uint32_t stream, StreamState& s, const Operation& o);
  void begin_call(GroupId id, CallState& call);
  void start_moving(GroupId id, Time now);
  void flow_ended(FlowId flow, Time now);
  void end_call(GroupId id, Time now);
  void handle(const Cue& cue, Time now);
  [[nodiscard]] bool is_void(const Cue& cue) const;
  void book_wait(ActorId actor, std::uint16_t row, std::int64_t from, std::int64_t began, std::int64_t end);
  void record(ActorId actor, std::uint32_t stream, std::uint32_t index, std::int64_t start, std::int64_t began,
              std::int64_t end, const CallState* call);
  void note_peak(ActorId actor, std::uint32_t index, std::int64_t at);
  [[noreturn]] void refuse_mismatch(ActorId actor, GroupId id, const CallState& call, const Operation& o) const;
  void report_progress();
  void check_all_done() const;
  [[nodiscard]] std::string describe_stuck(ActorId actor, std::uint32_t stream) const;
  static void check_accounts(const Measured& m);
  [[nodiscard]] Measured sum_up();
  void sum_up_ranks(Measured& m);
  [[nodiscard]] std::vector<CommunicationRow> communication() const;
  void sum_up_links(Measured& m) const;

  bool contends(ActorId a) const { return !contending_[quotient_.actors[a.index()].program].empty(); }
  bool contends(const Quotient::Member& m) const {
    return contends(m.actor) && program_of(m.actor).streams[m.stream].contends;
  }
  const Program& program_of(ActorId a) const { return job_.programs[quotient_.actors[a.index()].program]; }
  StreamState& state_of(ActorId a, std::uint32_t stream) { return streams_[stream_begin_[a.index()] + stream]; }
  const StreamState& state_of(ActorId a, std::uint32_t s) const { return streams_[stream_begin_[a.index()] + s]; }
  GroupId group_in_slot(ActorId a, std::uint16_t slot) const {
    return quotient_.slots[quotient_.actors[a.index()].slots_begin + slot];
  }
  [[nodiscard]] std::string dimension_of(GroupId id) const;

  const Fabric& fabric_;
  const Job& job_;
  const SimulateOptions& options_;
  const Expansion& expansion_;
  const Fold& fold_;
  Quotient quotient_;
  FluidNetwork& network_;
  EventQueue<Cue> queue_;
  std::optional<SendPlayer> sends_;  // fidelity flows only
  std::vector<Runnable> runnable_;
  Time now_;

  Contention contention_;
  std::vector<std::vector<std::uint32_t>> contending_;  // by program: its contending streams; none where nothing slows
  std::vector<std::vector<std::uint32_t>> setter_;      // by program, by event: the stream that sets it
  std::vector<bool> slows_;                             // by group: calls of a contending stream
  std::vector<ActorId> waiting_mains_;  // main streams that go on when all others have gone as far as they can

  std::vector<std::uint32_t> stream_begin_;  // by actor, into streams_
  std::vector<StreamState> streams_;
  std::vector<std::size_t> event_begin_;             // by actor, into event_time_
  std::vector<std::int64_t> event_time_;             // ps, or unset
  std::vector<std::vector<std::uint32_t>> waiters_;  // by program, by event: bit mask of streams that wait for it
  std::vector<CallState> calls_;                     // by group
  std::vector<Played> played_;                       // by planned call
  std::vector<std::uint32_t> group_of_flow_;

  struct PeakOperation {
    std::uint32_t index = nothing;
    Bytes peak;
    std::vector<Bytes> parts;
  };
  std::vector<PeakOperation> peaks_;   // by program
  std::vector<std::int64_t> peak_at_;  // by actor

  std::vector<RankAccount> accounts_;  // by actor
  std::vector<std::optional<std::uint32_t>> trace_of_actor_;
  std::vector<std::vector<TracedOperation>> traces_;
  std::optional<TierRecorder> tiers_;
  std::uint64_t operations_ = 0, operations_total_ = 0, transfers_ = 0;
  std::uint64_t next_report_ = report_every;  // events that are over by then
};

}  // namespace foretrain
