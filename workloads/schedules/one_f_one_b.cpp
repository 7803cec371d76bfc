#include <algorithm>

#include "workloads/schedules/order.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  const auto warm_up = std::min(shape.microbatches, shape.ranks - 1 - rank);
  std::vector<Action> list;
  for (std::int64_t i = 0; i < warm_up; ++i) list.push_back(action(Pass::forward, 0, i));
  for (std::int64_t i = 0; i < shape.microbatches; ++i) {
    if (warm_up + i < shape.microbatches) list.push_back(action(Pass::forward, 0, warm_up + i));
    list.push_back(action(Pass::backward, 0, i));
  }
  return list;
}

std::int64_t budget(const PipelineShape& shape, std::int64_t rank) {
  return std::min(shape.microbatches, shape.ranks - rank);
}

}  // namespace

ScheduleRule one_f_one_b_rule() {
  return {.kind = ScheduleKind::one_f_one_b, .chunks = {1, 1}, .actions = list, .budget = budget};
}

}  // namespace foretrain
