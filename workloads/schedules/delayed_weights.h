// What the handcrafted zero-bubble schedules on a loop have in common: some forwards ahead, then a forward, an input
// gradient and, a fixed number of steps late, a weight gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/schedules/action.h"

namespace foretrain {

struct WeightDelay {
  std::int64_t warm_up = 0;  ///< forwards before the first of (forward, input gradient); all if there are fewer
  std::int64_t delay = 0;    ///< the weight gradient of step k runs in step k + delay, or at the end
};

[[nodiscard]] std::vector<Action> with_delayed_weights(const PipelineShape& shape, const WeightDelay& rule);

}  // namespace foretrain
