#include "workloads/schedules/order.h"

#include <algorithm>

namespace foretrain {

std::vector<Action> forward_order(const PipelineShape& shape) {
  std::vector<Action> order;
  for (std::int64_t first = 0; first < shape.microbatches; first += shape.group) {
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (std::int64_t i = first; i < std::min(first + shape.group, shape.microbatches); ++i)
        order.push_back(action(Pass::forward, chunk, i));
    }
  }
  return order;
}

std::vector<Action> backward_order(const PipelineShape& shape, Pass pass) {
  auto order = forward_order(shape);
  for (Action& a : order) a = action(pass, shape.chunks - 1 - a.chunk, a.microbatch);
  return order;
}

std::int64_t interleaved_warm_up(const PipelineShape& shape, std::int64_t rank) {
  return (shape.chunks - 1) * shape.group + 2 * (shape.ranks - 1 - rank);
}

}  // namespace foretrain
