// In which order microbatches pass the chunks of a rank; shared by the interleaved schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/schedules/action.h"

namespace foretrain {

[[nodiscard]] inline Action action(Pass pass, std::int64_t chunk, std::int64_t microbatch) {
  return {pass, static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

/// The virtual microbatches k = 0 .. chunks * microbatches - 1 of forward: microbatches in groups of `shape.group`, the
/// last perhaps shorter; within a group chunk 0 for all of them, then chunk 1, ... (Narayanan 2021, section 2.2.2).
[[nodiscard]] std::vector<Action> forward_order(const PipelineShape& shape);
/// Those of backward: the same table with the chunks the other way round.
[[nodiscard]] std::vector<Action> backward_order(const PipelineShape& shape, Pass pass);

/// Forwards before the first backward in interleaved 1F1B, unless there are fewer.
[[nodiscard]] std::int64_t interleaved_warm_up(const PipelineShape& shape, std::int64_t rank);

}  // namespace foretrain
