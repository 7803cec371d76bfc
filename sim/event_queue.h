// The event queue: what happens when, ordered by (time, phase, sequence). The sequence number is unique, so equal times
// never depend on addresses or on the heap's whims.
//
// Some events are void before they are due: a network that shares its rates anew moves the ends of many flows, and most
// of them move again before any of them is reached. So what is pushed together waits together: only the earliest few
// are put in order. The others wait unordered until those are over; then the void ones among them are dropped by a look
// each, and the next few are put in order, more each time. What `pop` returns is in the same order as if all had been
// pushed one by one; it only leaves out events that were void.
//
//   EventQueue<Cue> queue([&](const Cue& cue) { return !network.current(cue.flow, cue.generation); });
//   queue.push_all(Phase::end, finishes, [](const Finish& f) { return std::pair{f.at, cue_of(f)}; });
//   while (!queue.empty()) {
//     const Time now = queue.next_time();
//     handle(queue.pop(), now);
//   }
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "topology/units.h"

namespace foretrain {

/// What goes first at one instant: ends free capacity before starts take it.
enum class Phase : std::uint8_t { end, start };

template <class Payload>
class EventQueue {
 public:
  EventQueue() = default;
  /// `is_void` says of an event that it need not happen any more; once void, an event must stay so.
  explicit EventQueue(std::function<bool(const Payload&)> is_void) : is_void_(std::move(is_void)) {}

  void push(Time at, Phase phase, const Payload& payload) { heap_.push(entry(at, phase, payload)); }
  /// The events that `make` gives, as pairs of time and payload, of the elements of `items` in their order.
  template <class Items, class Make>
  void push_all(Phase phase, const Items& items, Make make) {
    Batch batch;
    if (items.size() > first_portion) batch.events = take_spare();
    for (const auto& item : items) {
      const auto& [at, payload] = make(item);
      if (items.size() > first_portion)
        batch.events.push_back(entry(at, phase, payload));
      else
        push(at, phase, payload);
    }
    if (!batch.events.empty()) put_in_order(std::move(batch));
  }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Time next_time() const { return Time::from_start(picoseconds(heap_.top().ps)); }
  Payload pop() {
    const Payload payload = heap_.top().payload;
    heap_.pop();
    ++over_;
    while (!waiting_.empty() && (heap_.empty() || heap_.top() < waiting_.front().next())) look_at_waiting();
    return payload;
  }
  /// Events that are over: popped, or dropped because they were void.
  [[nodiscard]] std::uint64_t over() const { return over_; }

 private:
  static constexpr int phase_shift = 56;
  static constexpr std::size_t first_portion = 16;
  static constexpr std::size_t portion_growth = 4;  // n events that stay valid cost n log4(n) looks in all
  struct Entry {
    std::int64_t ps;
    std::uint64_t order;
    Payload payload;
    bool operator<(const Entry& other) const {  // std::priority_queue keeps the largest on top
      return ps != other.ps ? ps > other.ps : order > other.order;
    }
  };
  /// Events that were pushed together and wait.
  struct Batch {
    std::vector<Entry> events;            ///< the earliest last, the others in no order
    std::size_t portion = first_portion;  ///< how many are to be put in order when their time comes
    [[nodiscard]] const Entry& next() const { return events.back(); }
    bool operator<(const Batch& other) const { return next() < other.next(); }
  };

  Entry entry(Time at, Phase phase, const Payload& payload) {
    return {at.ps(), (static_cast<std::uint64_t>(phase) << phase_shift) | next_++, payload};
  }

  /// The earliest of the batch go to the heap; what is left waits.
  void put_in_order(Batch batch) {
    std::vector<Entry>& events = batch.events;
    const std::size_t portion = std::min(batch.portion, events.size());
    if (portion < events.size())
      std::nth_element(events.begin(), events.end() - static_cast<std::ptrdiff_t>(portion + 1), events.end());
    for (std::size_t i = 0; i < portion; ++i) {
      heap_.push(events.back());
      events.pop_back();
    }
    if (events.empty()) {
      spare_.push_back(std::move(events));
    } else {
      batch.portion *= portion_growth;
      waiting_.push_back(std::move(batch));
      std::push_heap(waiting_.begin(), waiting_.end());
    }
  }

  /// The batch whose next event is the earliest of all.
  void look_at_waiting() {
    std::pop_heap(waiting_.begin(), waiting_.end());
    Batch batch = std::move(waiting_.back());
    waiting_.pop_back();
    if (is_void_) over_ += std::erase_if(batch.events, [&](const Entry& e) { return is_void_(e.payload); });
    put_in_order(std::move(batch));
  }

  std::vector<Entry> take_spare() {
    if (spare_.empty()) return {};
    std::vector<Entry> events = std::move(spare_.back());
    spare_.pop_back();
    return events;
  }

  std::function<bool(const Payload&)> is_void_;
  std::priority_queue<Entry> heap_;
  std::vector<Batch> waiting_;             // a heap, the one with the earliest next event first
  std::vector<std::vector<Entry>> spare_;  // empty ones, for their memory
  std::uint64_t next_ = 0;
  std::uint64_t over_ = 0;
};

}  // namespace foretrain
