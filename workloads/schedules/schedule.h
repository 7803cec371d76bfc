// A pipeline schedule: the order in which one pipeline rank runs forwards and backwards of microbatches and chunks.
// One schedule a file, one line in `make_schedule`. `verify` proves a schedule complete and deadlock-free.
//
//   for (Action a : actions({.kind = ScheduleKind::one_f_one_b}, {.ranks = 4, .microbatches = 8}, 2)) ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/plan.h"

namespace foretrain {

enum class Pass : std::uint8_t { forward, backward };

struct Action {
  Pass pass{};
  std::int32_t chunk = 0;  ///< of this rank; global stage = chunk * ranks + rank
  std::int32_t microbatch = 0;
  auto operator<=>(const Action&) const = default;
};

struct PipelineShape {
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;  ///< a rank
  std::int64_t microbatches = 1;
};

/// What pipeline rank `rank` runs, in order. Shapes that the schedule cannot run are refused by `check` (plan.h).
[[nodiscard]] std::vector<Action> actions(ScheduleKind kind, const PipelineShape& shape, std::int64_t rank);

/// Plays all ranks' lists against the dependencies (F after the previous stage's F; B after the next stage's B and the
/// own F). Empty if every microbatch passes every chunk forward and backward once and nobody waits for ever; else what
/// is wrong.
[[nodiscard]] std::string verify(ScheduleKind kind, const PipelineShape& shape);

/// Most (chunk, microbatch) pairs alive at once on a rank: forward adds one, backward takes it away.
[[nodiscard]] std::int64_t peak_alive(ScheduleKind kind, const PipelineShape& shape, std::int64_t rank);

}  // namespace foretrain
