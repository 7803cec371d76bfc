#include "sim/contention.h"

#include <algorithm>

namespace foretrain {

Contention::Contention(const std::vector<RateShare>& lost) {
  for (const RateShare share : lost) actors_.emplace_back().slow_rate = whole_rate - share;
}

Contention::Foreseen Contention::begin(ActorId actor, std::int64_t start, std::int64_t work) {
  Actor& a = actors_[actor.index()];
  a.left = Work{work} * whole_rate;
  a.since = start;
  a.computes = true;
  return foresee(a);
}

std::optional<Contention::Foreseen> Contention::call_began(ActorId actor, std::int64_t now) {
  Actor& a = actors_[actor.index()];
  const bool alone = a.calls == 0;
  if (alone) advance(a, now);
  ++a.calls;
  return alone && a.computes ? std::optional(foresee(a)) : std::nullopt;
}

std::optional<Contention::Foreseen> Contention::call_ended(ActorId actor, std::int64_t now) {
  Actor& a = actors_[actor.index()];
  const bool last = a.calls == 1;
  if (last) advance(a, now);
  --a.calls;
  return last && a.computes ? std::optional(foresee(a)) : std::nullopt;
}

void Contention::finish(ActorId actor) {
  Actor& a = actors_[actor.index()];
  a.computes = false;
  ++a.generation;
}

/// A computation may lie ahead: nothing of it is done before it starts.
void Contention::advance(Actor& a, std::int64_t now) {
  if (!a.computes || now <= a.since) return;
  a.left = std::max(Work{0}, a.left - Work{now - a.since} * rate_of(a));
  a.since = now;
}

Contention::Foreseen Contention::foresee(Actor& a) {
  const Work rate = rate_of(a);
  return {a.since + static_cast<std::int64_t>((a.left + rate - 1) / rate), ++a.generation};
}

}  // namespace foretrain
