#include "workloads/schedules/order.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t /*rank*/) {
  std::vector<Action> list;
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (std::int64_t i = 0; i < shape.microbatches; ++i) list.push_back(action(pass, 0, i));
  return list;
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) { return shape.microbatches; }

}  // namespace

ScheduleRule gpipe_rule() { return {.kind = ScheduleKind::gpipe, .chunks = {1, 1}, .actions = list, .budget = budget}; }

}  // namespace foretrain
