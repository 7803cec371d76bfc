// Track: what a stage's program is written on. Compute goes to the main stream, consecutive compute of one kind as one
// operation (what stands between two communications is one block of kernels on the GPU too); every slot has a stream of
// its own. Internal to `generate`.
//
//   track.compute(Work::compute, "F", t, place);                                // after all compute before it
//   Event gathered = track.call(Slot::tp, "all_gather", op, size, place);       // starts when that compute has ended
//   track.hold(gathered);                                                       // the next compute waits for it
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sim/program.h"
#include "workloads/generate.h"
#include "workloads/traffic.h"

namespace foretrain {

class Track {
 public:
  /// `contention`: what compute loses of its rate beside calls of any slot but those of pipeline messages, whose copies
  /// need few multiprocessors (Gpu::contention).
  explicit Track(RateShare contention = 0) { builder_.set_contention(contention); }
  void compute(Work work, std::string_view label, Duration duration, Place place);
  /// The next compute starts only after `e`, if there is one; what is pending belongs before it.
  void hold(std::optional<Event> e);
  /// A communication that starts when all compute so far has ended, and what the next compute would wait for.
  Event call(Slot slot, std::string_view label, Collective op, Bytes size, Place place);
  /// One that waits only for its turn on its stream and for `after`.
  Event post(Slot slot, std::string_view label, Collective op, Bytes size, Place place,
             std::span<const Event> after = {});
  /// The slot's next call comes so much later: its stream stands still for `duration` from `after` on.
  void delay(Slot slot, std::string_view label, Duration duration, Place place, std::span<const Event> after);
  void memory(std::string_view label, MemoryPart part, Bytes change, Place place = {});
  /// The end of all compute so far, if there was any.
  [[nodiscard]] std::vector<Event> now();
  [[nodiscard]] Program finish() &&;

 private:
  void flush();
  StreamId stream_of(Slot slot);

  ProgramBuilder builder_;
  std::vector<Event> holds_;
  std::optional<Event> last_;
  Duration pending_;
  Work work_{};
  std::string_view label_;
  Place place_;
};

}  // namespace foretrain
