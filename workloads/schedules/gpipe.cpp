#include "workloads/schedules/rules.h"

namespace foretrain {

std::vector<Action> gpipe(const PipelineShape& shape, std::int64_t /*rank*/) {
  std::vector<Action> list;
  for (Pass pass : {Pass::forward, Pass::backward})
    for (std::int64_t i = 0; i < shape.microbatches; ++i) list.push_back({pass, 0, static_cast<std::int32_t>(i)});
  return list;
}

}  // namespace foretrain
