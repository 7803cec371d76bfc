#include <algorithm>

#include "workloads/schedules/delayed_weights.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  const std::int64_t ahead = (shape.chunks - 1) * shape.group;
  return with_delayed_weights(shape, {.warm_up = ahead + shape.ranks - 1 - rank, .delay = rank});
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) {
  return std::min(shape.microbatches * shape.chunks, (shape.chunks - 1) * shape.group + shape.ranks);
}

}  // namespace

ScheduleRule interleaved_zb_rule() {
  return {.kind = ScheduleKind::interleaved_zb,
          .chunks = {1, any_chunks},
          .grouped = true,
          .actions = list,
          .budget = budget};
}

}  // namespace foretrain
