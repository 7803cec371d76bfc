#include <algorithm>

#include "workloads/schedules/dual.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  const std::int64_t half = shape.microbatches / 2;
  const Direction there{.chunk = 0, .first = 0};
  const Direction back{.chunk = 1, .first = half};
  const bool first_half = rank < shape.ranks / 2;
  return dual_list({.turn = shape.ranks / 2,
                    .place = std::min(rank, shape.ranks - 1 - rank),
                    .microbatches = half,
                    .directions = {first_half ? there : back, first_half ? back : there}});
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) { return shape.ranks + 1; }

}  // namespace

ScheduleRule dualpipe_rule() {
  return {.kind = ScheduleKind::dualpipe,
          .placement = Placement::bidirectional,
          .chunks = {2, 2},
          .actions = list,
          .budget = budget};
}

}  // namespace foretrain
