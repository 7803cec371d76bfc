#include "workloads/schedules/order.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

/// Backward runs through the microbatches the other way, as in PyTorch's ScheduleLoopedBFS.
std::vector<Action> list(const PipelineShape& shape, std::int64_t /*rank*/) {
  std::vector<Action> list;
  for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk)
    for (std::int64_t i = 0; i < shape.microbatches; ++i) list.push_back(action(Pass::forward, chunk, i));
  for (std::int64_t chunk = shape.chunks; chunk-- > 0;)
    for (std::int64_t i = shape.microbatches; i-- > 0;) list.push_back(action(Pass::backward, chunk, i));
  return list;
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) { return shape.microbatches * shape.chunks; }

}  // namespace

ScheduleRule looped_bfs_rule() {
  return {.kind = ScheduleKind::looped_bfs, .chunks = {1, any_chunks}, .actions = list, .budget = budget};
}

}  // namespace foretrain
