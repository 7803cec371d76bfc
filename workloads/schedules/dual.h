// The steps that DualPipe and DualPipeV share: two directions of microbatches meet on every rank, and a forward of one
// runs as one block with a backward of the other. Source: deepseek-ai/DualPipe, dualpipe.py and dualpipev.py.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/schedules/action.h"

namespace foretrain {

/// One direction as a rank sees it.
struct Direction {
  std::int64_t chunk = 0;
  std::int64_t first = 0;  ///< microbatch
};

struct DualShape {
  std::int64_t turn = 1;                ///< ranks from an end to where the directions meet
  std::int64_t place = 0;               ///< of this rank: 0 at the end, turn - 1 at the meeting
  std::int64_t microbatches = 1;        ///< a direction
  std::array<Direction, 2> directions;  ///< 0: the one that enters at this rank's end
};

[[nodiscard]] std::vector<Action> dual_list(const DualShape& shape);

}  // namespace foretrain
