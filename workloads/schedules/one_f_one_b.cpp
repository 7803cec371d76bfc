#include <algorithm>

#include "workloads/schedules/rules.h"

namespace foretrain {

std::vector<Action> one_f_one_b(const PipelineShape& shape, std::int64_t rank) {
  const auto warm_up = std::min(shape.microbatches, shape.ranks - 1 - rank);
  std::vector<Action> list;
  const auto add = [&](Pass pass, std::int64_t i) { list.push_back({pass, 0, static_cast<std::int32_t>(i)}); };
  for (std::int64_t i = 0; i < warm_up; ++i) add(Pass::forward, i);
  for (std::int64_t i = 0; i + warm_up < shape.microbatches; ++i) {
    add(Pass::forward, warm_up + i);
    add(Pass::backward, i);
  }
  for (std::int64_t i = shape.microbatches - warm_up; i < shape.microbatches; ++i) add(Pass::backward, i);
  return list;
}

}  // namespace foretrain
