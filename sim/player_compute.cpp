// The player's computations that communication may slow.
#include <algorithm>

#include "sim/player.h"

namespace foretrain {

/// A program without contention has no contending streams.
void Player::lay_out_contention() {
  contending_.resize(job_.programs.size());
  setter_.resize(job_.programs.size());
  slows_.resize(quotient_.groups.size());
  for (std::size_t p = 0; p < job_.programs.size(); ++p) {
    const Program& program = job_.programs[p];
    if (program.contention == 0) continue;
    setter_[p].resize(program.events);
    for (std::uint32_t s = 0; s < program.streams.size(); ++s) {
      if (s != 0 && program.streams[s].contends) contending_[p].push_back(s);
      for (const Operation& o : program.streams[s].operations)
        if (o.sets) setter_[p][o.sets->index()] = s;
    }
  }
  for (std::size_t g = 0; g < quotient_.groups.size(); ++g)
    for (const Quotient::Member& m : quotient_.members_of(quotient_.groups[g])) slows_[g] = slows_[g] || contends(m);
}

/// Whether a call of the rank may be in flight before its main stream, whose turn it is, has set another event. Not so
/// where each contending stream is done, or waits for an event that the main stream has yet to set, itself or through
/// the streams between them.
bool Player::may_be_slowed(ActorId actor) const {
  const std::uint32_t program = quotient_.actors[actor.index()].program;
  const auto waits_for_main = [&](std::uint32_t stream) {
    while (stream != 0) {
      const StreamState& s = state_of(actor, stream);
      if (s.state == State::done) return true;
      if (s.state != State::blocked) return false;
      stream = setter_[program][s.blocked_on];
    }
    return true;
  };
  return !std::all_of(contending_[program].begin(), contending_[program].end(), waits_for_main);
}

void Player::set_end(ActorId actor, std::optional<Contention::Foreseen> end) {
  if (end)
    queue_.push(Time::from_start(picoseconds(end->at)), Phase::end,
                {.kind = CueKind::compute_end, .of = actor.value, .generation = end->generation});
}

void Player::start_computing(ActorId actor, StreamState& s, std::int64_t work) {
  s.state = State::computing;
  set_end(actor, contention_.begin(actor, s.clock, work));
}

void Player::computed(ActorId actor, Time now) {
  contention_.finish(actor);
  StreamState& s = state_of(actor, 0);
  const Operation& o = program_of(actor).streams[0].operations[s.cursor];
  const Duration took = picoseconds(now.ps() - s.clock);
  RankAccount& account = accounts_[actor.index()];
  account.busy[o.activity] += took;
  account.slowed += took - picoseconds(job_.compute_ps(quotient_.actors[actor.index()].first, o.amount));
  record(actor, 0, s.cursor, s.clock, s.clock, now.ps(), nullptr);
  s.state = State::ready;
  finish_operation(actor, 0, s, o, now.ps());
  waiting_mains_.push_back(actor);
  run_streams();
}

/// All members have arrived.
void Player::call_complete(GroupId id, Time now) {
  for (const Quotient::Member& m : quotient_.members_of(quotient_.groups[id.index()]))
    if (contends(m)) set_end(m.actor, contention_.call_began(m.actor, now.ps()));
}

void Player::stop_slowing(GroupId id, Time now) {
  for (const Quotient::Member& m : quotient_.members_of(quotient_.groups[id.index()]))
    if (contends(m)) set_end(m.actor, contention_.call_ended(m.actor, now.ps()));
}

}  // namespace foretrain
