#include <algorithm>

#include "workloads/schedules/order.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  const auto forwards = forward_order(shape);
  const auto backwards = backward_order(shape, Pass::backward);
  const auto warm_up = std::min(forwards.size(), static_cast<std::size_t>(interleaved_warm_up(shape, rank)));
  std::vector<Action> list(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t k = 0; k < backwards.size(); ++k) {
    if (warm_up + k < forwards.size()) list.push_back(forwards[warm_up + k]);
    list.push_back(backwards[k]);
  }
  return list;
}

std::int64_t budget(const PipelineShape& shape, std::int64_t rank) {
  return std::min(shape.microbatches * shape.chunks, interleaved_warm_up(shape, rank) + 1);
}

}  // namespace

ScheduleRule interleaved_1f1b_rule() {
  return {.kind = ScheduleKind::interleaved_1f1b,
          .chunks = {2, any_chunks},
          .grouped = true,
          .actions = list,
          .budget = budget};
}

}  // namespace foretrain
