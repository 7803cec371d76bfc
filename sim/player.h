// The player: runs every rank's program against the network. Internal to sim; `simulate` is the way in.
//
// A rank's streams run ahead: operations whose start is known are played at once, without an event, because nothing can
// change them any more. A stream stops where it must learn something: an event not set yet, or a call whose other
// members have not arrived. The queue therefore holds transfers only: when one starts to move bytes, and when it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/event_queue.h"
#include "sim/expansion.h"
#include "sim/send_player.h"
#include "sim/simulate.h"
#include "sim/tier_recorder.h"

namespace foretrain {

class Player {
 public:
  Player(const Fabric& fabric, const Job& job, const SimulateOptions& options, Expansion expansion);
  [[nodiscard]] Measured play();

 private:
  static constexpr std::int64_t unset = INT64_MIN;
  static constexpr std::uint32_t nothing = UINT32_MAX;

  enum class State : std::uint8_t { ready, blocked, calling, done };
  struct StreamState {
    std::int64_t clock = 0;              ///< end of its last operation, ps
    std::uint32_t cursor = 0;            ///< next operation
    std::uint32_t blocked_on = nothing;  ///< event, while blocked
    State state = State::ready;
  };
  struct CallState {         ///< of a communicator: the call that is gathering or in flight
    std::int64_t ready = 0;  ///< last arrival so far, ps
    std::int64_t moving_since = 0;
    std::int64_t size = 0;
    const PlannedCall* planned = nullptr;
    std::uint32_t arrived = 0;
    std::uint32_t number = 0;  ///< calls completed before this one
    Collective op{};
  };
  struct Member {
    RankId rank;
    std::uint16_t stream;
  };
  struct Runnable {
    RankId rank;
    std::uint32_t stream;
  };

  void lay_out();
  void bind_members();
  void find_peaks();
  void run_streams();
  void run_stream(RankId rank, std::uint32_t stream);
  bool wait_for_events(RankId rank, std::uint32_t stream, StreamState& s, const Operation& o);
  void finish_operation(RankId rank, std::uint32_t stream, StreamState& s, const Operation& o, std::int64_t end);
  void arrive(RankId rank, std::uint32_t stream, StreamState& s, const Operation& o);
  void begin_call(CommunicatorId id, CallState& call);
  void start_moving(CommunicatorId id, Time now);
  void flow_ended(FlowId flow, Time now);
  void end_call(CommunicatorId id, Time now);
  void handle(const Cue& cue, Time now);
  void book_wait(RankId rank, std::uint16_t row, std::int64_t from, std::int64_t began, std::int64_t end);
  void record(RankId rank, std::uint32_t stream, std::uint32_t index, std::int64_t start, std::int64_t began,
              std::int64_t end, const CallState* call);
  void note_peak(RankId rank, std::uint32_t index, std::int64_t at);
  [[noreturn]] void refuse_mismatch(RankId rank, CommunicatorId id, const CallState& call, const Operation& o) const;
  void report_progress() const;
  void check_all_done() const;
  [[nodiscard]] std::string describe_stuck(RankId rank, std::uint32_t stream) const;
  static void check_accounts(const Measured& m);
  [[nodiscard]] Measured sum_up();
  void sum_up_links(Measured& m) const;

  const Program& program_of(RankId r) const { return job_.programs[job_.ranks[r.index()].program]; }
  StreamState& state_of(RankId r, std::uint32_t stream) { return streams_[stream_begin_[r.index()] + stream]; }
  const StreamState& state_of(RankId r, std::uint32_t s) const { return streams_[stream_begin_[r.index()] + s]; }

  const Fabric& fabric_;
  const Job& job_;
  const SimulateOptions& options_;
  Expansion expansion_;
  FluidNetwork& network_;
  EventQueue<Cue> queue_;
  std::optional<SendPlayer> sends_;  // fidelity flows only
  std::vector<Runnable> runnable_;

  std::vector<std::uint32_t> stream_begin_;  // by rank, into streams_
  std::vector<StreamState> streams_;
  std::vector<std::size_t> event_begin_;             // by rank, into event_time_
  std::vector<std::int64_t> event_time_;             // ps, or unset
  std::vector<std::vector<std::uint32_t>> waiters_;  // by program, by event: bit mask of streams that wait for it
  std::vector<CallState> calls_;                     // by communicator
  std::vector<std::uint32_t> member_begin_;          // by communicator, into members_
  std::vector<Member> members_;
  std::vector<std::uint32_t> communicator_of_flow_;

  struct PeakOperation {
    std::uint32_t index = nothing;
    Bytes peak;
    std::vector<Bytes> parts;
  };
  std::vector<PeakOperation> peaks_;   // by program
  std::vector<std::int64_t> peak_at_;  // by rank

  std::vector<RankAccount> accounts_;
  std::vector<CommunicationRow> rows_;
  std::vector<double> shape_bytes_;  // by shape: message bytes moved
  std::vector<std::optional<std::uint32_t>> trace_of_rank_;
  std::vector<std::vector<TracedOperation>> traces_;
  std::optional<TierRecorder> tiers_;
  std::uint64_t operations_ = 0, operations_total_ = 0, transfers_ = 0;
};

}  // namespace foretrain
