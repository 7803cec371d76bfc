// Contention: computation that communication beside it slows. Kernels of a communication library occupy some of a
// GPU's multiprocessors and part of its memory bandwidth: while a call is in flight, what the rank computes advances at
// 1 - c of its rate. How many calls there are does not matter.
//
// A computation of C beside calls that keep it slow for all of G <= C therefore takes C + c G; one that is slow from
// end to end C / (1 - c), both rounded up to a picosecond. Internal to sim.
//
//   Contention contention(lost);                                  // by actor: c
//   Foreseen end = contention.begin(actor, start, work);           // at full rate, or slowed by calls in flight
//   if (auto moved = contention.call_began(actor, now)) ...        // the end that was foreseen is void
//   contention.finish(actor);                                      // at the end that holds
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/program.h"
#include "sim/quotient.h"

namespace foretrain {

class Contention {
 public:
  /// By actor, what part of its rate is lost.
  explicit Contention(const std::vector<RateShare>& lost);

  /// An end of an actor's computation, as long as it is `current`.
  struct Foreseen {
    std::int64_t at = 0;  ///< ps
    std::uint32_t generation = 0;
  };
  /// Of `work` ps at full rate; one at a time.
  Foreseen begin(ActorId actor, std::int64_t start, std::int64_t work);
  /// A call of the actor is in flight from now on; no longer. Where that moves the end of its computation: the new one.
  std::optional<Foreseen> call_began(ActorId actor, std::int64_t now);
  std::optional<Foreseen> call_ended(ActorId actor, std::int64_t now);
  [[nodiscard]] bool current(ActorId actor, std::uint32_t generation) const {
    return actors_[actor.index()].generation == generation;
  }
  void finish(ActorId actor);

 private:
  __extension__ typedef __int128 Work;  // NOLINT(modernize-use-using): __extension__ wants a typedef
  struct Actor {
    RateShare slow_rate = whole_rate;
    Work left = 0;            ///< ps at full rate, in parts of 2^20
    std::int64_t since = 0;   ///< `left` was left then
    std::uint32_t calls = 0;  ///< in flight
    std::uint32_t generation = 0;
    bool computes = false;
  };

  static RateShare rate_of(const Actor& a) { return a.calls > 0 ? a.slow_rate : whole_rate; }
  static void advance(Actor& a, std::int64_t now);
  static Foreseen foresee(Actor& a);

  std::vector<Actor> actors_;
};

}  // namespace foretrain
