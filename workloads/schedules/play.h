// play: a schedule's lists played in time with the same few durations on every stage: who starts when, and what that
// costs. Knows no machine: the oracle beside the simulator, and what `foretrain schedule` draws.
//
//   const SchedulePlay played = play(all_actions(spec, shape), shape, {.forward = 1, .backward_input = 1,
//                                                                      .backward_weight = 1});
//   played.makespan(); played.bubble_fraction(); played.ranks[0].peak;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/schedules/action.h"

namespace foretrain {

/// Of one chunk, in any one unit. A whole backward takes `backward_input + backward_weight`.
struct PassTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double latency = 0;           ///< of each message; none between chunks of one rank
  std::optional<double> block;  ///< an overlapped forward and backward; none: one after the other

  [[nodiscard]] double backward() const { return backward_input + backward_weight; }
};

struct PlayedAction {
  Action action;
  double start = 0;
  double end = 0;
};

struct PlayedRank {
  std::vector<PlayedAction> actions;  ///< in the order of the list; two of a block have the same start and end
  double work = 0;                    ///< time in which it runs something
  /// Most live (chunk, microbatch) pairs: a forward adds one, `backward` or `backward_weight` takes it away.
  std::int64_t peak = 0;
  /// The same until `backward` or `backward_input`, after which part of the memory is free.
  std::int64_t peak_until_input = 0;

  /// First start to last end.
  [[nodiscard]] double span() const;
};

struct SchedulePlay {
  std::vector<PlayedRank> ranks;
  std::string stuck;  ///< who waits for ever, and before what; empty if all lists run to their ends

  [[nodiscard]] double makespan() const;
  /// Idle part of all ranks' time from 0 to the makespan.
  [[nodiscard]] double bubble_fraction() const;
  [[nodiscard]] double longest_span() const;
};

/// Plays lists whose actions are all within `shape`. A rank runs its list in order. F(s) starts after F(s-1), the input
/// gradient of s after F(s) and that of s+1, W after its input gradient; a block when both of its actions may, and both
/// give what they make at its end.
[[nodiscard]] SchedulePlay play(const ActionLists& lists, const PipelineShape& shape, const PassTimes& times);

/// How long an action by itself takes.
[[nodiscard]] double time_of(Pass pass, const PassTimes& times);

/// "forward of microbatch 3 on chunk 1"
[[nodiscard]] std::string described(const Action& action);

}  // namespace foretrain
