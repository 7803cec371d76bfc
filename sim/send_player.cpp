#include "sim/send_player.h"

namespace foretrain {

bool SendPlayer::begin(GroupId id, const SendPlan& plan, Time now) {
  Call& call = calls_[id.index()];
  call.plan = &plan;
  call.left = plan.sends.size();
  call.waits.resize(plan.sends.size());
  call.gates.resize(plan.sends.size());
  for (std::size_t i = 0; i < plan.sends.size(); ++i) {
    call.waits[i] = plan.sends[i].waits;
    call.gates[i] = plan.sends[i].is_behind ? 2 : 1;
  }
  for (std::uint32_t i = 0; i < plan.sends.size(); ++i)
    if (plan.sends[i].waits == 0) ready(id, i, now);
  return arrive_all(id, now);
}

/// All that the send waits for has arrived.
void SendPlayer::ready(GroupId id, std::uint32_t send, Time now) {
  const std::int64_t latency = calls_[id.index()].plan->sends[send].latency;
  if (latency == 0) {
    pass_gate(id, send, now);
  } else {
    queue_.push(now + picoseconds(latency), Phase::start,
                {.kind = CueKind::send_latency_over, .of = id.value, .send = send});
  }
}

void SendPlayer::pass_gate(GroupId id, std::uint32_t send, Time now) {
  Call& call = calls_[id.index()];
  if (--call.gates[send] > 0) return;
  ++sent_;
  const SendPlan::Send& what = call.plan->sends[send];
  if (what.wire <= 0) {
    arrived_.push_back(send);
    return;
  }
  const FlowId flow = network_.start(what.shape, what.wire, now);
  if (moving_.size() <= flow.index()) moving_.resize(flow.index() + 1);
  moving_[flow.index()] = {id.value, send, now};
}

bool SendPlayer::arrive_all(GroupId id, Time now) {
  Call& call = calls_[id.index()];
  while (!arrived_.empty()) {
    const SendPlan::Send& send = call.plan->sends[arrived_.back()];
    arrived_.pop_back();
    --call.left;
    if (send.next != SendPlan::none) pass_gate(id, send.next, now);
    for (std::uint32_t w = send.wakes_begin; w < send.wakes_end; ++w) {
      const std::uint32_t woken = call.plan->wakes[w];
      if (--call.waits[woken] == 0) ready(id, woken, now);
    }
  }
  return call.left == 0;
}

bool SendPlayer::latency_over(GroupId id, std::uint32_t send, Time now) {
  pass_gate(id, send, now);
  return arrive_all(id, now);
}

std::optional<GroupId> SendPlayer::flow_ended(FlowId flow, Time now, TierRecorder* tiers) {
  const Moving& moved = moving_[flow.index()];
  const GroupId id{moved.communicator};
  const SendPlan::Send& send = calls_[id.index()].plan->sends[moved.send];
  shape_bytes_[send.shape.index()] += send.wire;
  if (tiers != nullptr) tiers->add(send.shape, send.wire, moved.since, now);
  arrived_.push_back(moved.send);
  if (!arrive_all(id, now)) return std::nullopt;
  return id;
}

}  // namespace foretrain
