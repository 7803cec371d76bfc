#include "workloads/schedules/dual.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  return dual_list({.turn = shape.ranks,
                    .place = rank,
                    .microbatches = shape.microbatches,
                    .directions = {Direction{.chunk = 0, .first = 0}, Direction{.chunk = 1, .first = 0}}});
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) { return 2 * shape.ranks + 1; }

}  // namespace

ScheduleRule dualpipev_rule() {
  return {.kind = ScheduleKind::dualpipev,
          .placement = Placement::vee,
          .chunks = {2, 2},
          .actions = list,
          .budget = budget};
}

}  // namespace foretrain
