// Does the event queue keep the order of (time, phase, sequence), whether events come one by one or together, and void
// or not?
#include "sim/event_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace foretrain {
namespace {

Time at(std::int64_t ps) { return Time::from_start(picoseconds(ps)); }

/// All that has ever been pushed; an event's payload is its place in here, which is also its sequence.
struct Pushed {
  struct Event {
    std::int64_t ps;
    Phase phase;
    bool is_void = false;
    bool over = false;
  };
  std::vector<Event> events;

  /// The one that is to come next, among those that are neither void nor over.
  [[nodiscard]] std::size_t next() const {
    std::size_t best = events.size();
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].over || events[i].is_void) continue;
      const auto key = [&](std::size_t e) { return std::tuple(events[e].ps, events[e].phase, e); };
      if (best == events.size() || key(i) < key(best)) best = i;
    }
    return best;
  }
};

/// Pushes portions of all sizes, makes events void at random, and pops; few times, so that many are equal.
RC_GTEST_PROP(EventQueue, PopsInOrderHoweverEventsAreGrouped, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  Pushed pushed;
  EventQueue<std::size_t> queue([&](std::size_t e) { return pushed.events[e].is_void; });
  std::int64_t now = 0;
  const auto invent = [&](Phase phase) {
    pushed.events.push_back({.ps = now + static_cast<std::int64_t>(draw(40)), .phase = phase});
    return pushed.events.size() - 1;
  };
  for (int round = 0; round < 60; ++round) {
    if (round < 30) {
      const Phase phase = draw(2) == 0 ? Phase::end : Phase::start;
      std::vector<std::size_t> group(draw(100));
      for (std::size_t& e : group) e = invent(phase);
      queue.push_all(phase, group, [&](std::size_t e) { return std::pair{at(pushed.events[e].ps), e}; });
      const std::size_t single = invent(Phase::start);
      queue.push(at(pushed.events[single].ps), Phase::start, single);
    }
    for (std::size_t n = draw(pushed.events.size() / 2 + 1); n > 0; --n)
      pushed.events[draw(pushed.events.size())].is_void = true;
    for (std::size_t n = draw(80); n > 0 && !queue.empty(); --n) {
      now = queue.next_time().since_start().ps();
      const std::size_t e = queue.pop();
      RC_ASSERT(pushed.events[e].ps == now);
      RC_ASSERT(!pushed.events[e].over);
      if (!pushed.events[e].is_void) RC_ASSERT(e == pushed.next());
      pushed.events[e].over = true;
    }
  }
  while (!queue.empty()) pushed.events[queue.pop()].over = true;
  RC_ASSERT(pushed.next() == pushed.events.size());
  RC_ASSERT(queue.over() == pushed.events.size());
}

TEST(EventQueue, WhatIsVoidWhenItsTurnComesIsDroppedByTheLook) {
  const std::size_t many = 10'000;
  std::vector<std::size_t> events(many);
  for (std::size_t e = 0; e < many; ++e) events[e] = e;
  std::size_t valid_up_to = many;
  EventQueue<std::size_t> queue([&](std::size_t e) { return e >= valid_up_to; });
  queue.push_all(Phase::end, events, [](std::size_t e) { return std::pair{at(static_cast<std::int64_t>(e)), e}; });
  valid_up_to = 1;
  std::size_t popped = 0;
  for (; !queue.empty(); ++popped) EXPECT_EQ(queue.pop(), popped);
  EXPECT_LT(popped, 100U);
  EXPECT_EQ(queue.over(), many);
}

}  // namespace
}  // namespace foretrain
