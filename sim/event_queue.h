// The event queue: what happens when, ordered by (time, phase, sequence). The sequence number is unique, so equal times
// never depend on addresses or on the heap's whims.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "topology/units.h"

namespace foretrain {

/// What goes first at one instant: ends free capacity before starts take it.
enum class Phase : std::uint8_t { end, start };

template <class Payload>
class EventQueue {
 public:
  void push(Time at, Phase phase, const Payload& payload) {
    heap_.push({at.ps(), (static_cast<std::uint64_t>(phase) << phase_shift) | next_++, payload});
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Time next_time() const { return Time::from_start(picoseconds(heap_.top().ps)); }
  Payload pop() {
    const Payload payload = heap_.top().payload;
    heap_.pop();
    ++popped_;
    return payload;
  }
  [[nodiscard]] std::uint64_t popped() const { return popped_; }

 private:
  static constexpr int phase_shift = 56;
  struct Entry {
    std::int64_t ps;
    std::uint64_t order;
    Payload payload;
    bool operator<(const Entry& other) const {  // std::priority_queue keeps the largest on top
      return ps != other.ps ? ps > other.ps : order > other.order;
    }
  };
  std::priority_queue<Entry> heap_;
  std::uint64_t next_ = 0;
  std::uint64_t popped_ = 0;
};

}  // namespace foretrain
