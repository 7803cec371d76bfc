// Plays calls send by send: what the player uses at fidelity `flows`.
//
// A call in flight counts, for each of its sends, the arrivals that are still missing. When none is, the send's latency
// passes; when it has, and the send ahead of it in its line has arrived, the send becomes a flow of the network.
#pragma once

#include <optional>
#include <vector>

#include "sim/event_queue.h"
#include "sim/quotient.h"
#include "sim/send_plan.h"
#include "sim/tier_recorder.h"

namespace foretrain {

/// What the player's queue holds.
enum class CueKind : std::uint32_t {
  call_latency_over,  ///< its bytes start to move, or where it has none it ends
  call_complete,      ///< all its members have arrived: it begins to slow their computation
  flow_end,           ///< as the network foresaw it
  send_latency_over,
  compute_end  ///< as its contention foresaw it
};
struct Cue {
  CueKind kind{};
  std::uint32_t of = 0;          ///< group, flow or actor
  std::uint32_t generation = 0;  ///< of a flow's or a computation's end: void once that has moved on
  std::uint32_t send = 0;        ///< of the group's call
};

class SendPlayer {
 public:
  SendPlayer(FluidNetwork& network, EventQueue<Cue>& queue, std::size_t groups, std::size_t shapes)
      : network_(network), queue_(queue), calls_(groups), shape_bytes_(shapes) {}

  /// The launch of a call is over. True when nothing of it moves and it has ended.
  [[nodiscard]] bool begin(GroupId id, const SendPlan& plan, Time now);
  /// The latency of a send is over. True when that was the last of its call to arrive (it moves nothing).
  [[nodiscard]] bool latency_over(GroupId id, std::uint32_t send, Time now);
  /// A flow has ended. Its group when it was the last send of its call to arrive. `tiers` may be null.
  [[nodiscard]] std::optional<GroupId> flow_ended(FlowId flow, Time now, TierRecorder* tiers);

  [[nodiscard]] const std::vector<double>& shape_bytes() const { return shape_bytes_; }  ///< wire bytes moved
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  struct Call {
    const SendPlan* plan = nullptr;
    std::vector<std::uint32_t> waits;  ///< by send: arrivals missing
    std::vector<std::uint8_t> gates;   ///< by send: latency and the send ahead, as far as not over
    std::size_t left = 0;              ///< sends that have not arrived
  };
  struct Moving {
    std::uint32_t communicator = 0;
    std::uint32_t send = 0;
    Time since;
  };

  void ready(GroupId id, std::uint32_t send, Time now);
  void pass_gate(GroupId id, std::uint32_t send, Time now);
  bool arrive_all(GroupId id, Time now);

  FluidNetwork& network_;
  EventQueue<Cue>& queue_;
  std::vector<Call> calls_;             // by group
  std::vector<Moving> moving_;          // by flow
  std::vector<std::uint32_t> arrived_;  // of the call at hand, to be worked off
  std::vector<double> shape_bytes_;
  std::uint64_t sent_ = 0;
};

}  // namespace foretrain
