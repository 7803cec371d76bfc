#include <algorithm>

#include "workloads/schedules/delayed_weights.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  return with_delayed_weights(shape, {.warm_up = 2 * (shape.ranks - 1 - rank), .delay = 2 * rank});
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) {
  return std::min(shape.microbatches, 2 * shape.ranks - 1);
}

}  // namespace

ScheduleRule zb_h2_rule() { return {.kind = ScheduleKind::zb_h2, .chunks = {1, 1}, .actions = list, .budget = budget}; }

}  // namespace foretrain
