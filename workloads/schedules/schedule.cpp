#include "workloads/schedules/schedule.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "workloads/schedules/rules.h"

namespace foretrain {

std::vector<Action> actions(ScheduleKind kind, const PipelineShape& shape, std::int64_t rank) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return gpipe(shape, rank);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b(shape, rank);
    case ScheduleKind::interleaved_1f1b:
      return interleaved_1f1b(shape, rank);
  }
  return {};
}

namespace {

/// (pass, global stage, microbatch) done so far.
using Done = std::set<std::tuple<Pass, std::int64_t, std::int32_t>>;

bool can_run(const PipelineShape& shape, std::int64_t rank, const Action& a, const Done& done) {
  const std::int64_t stage = a.chunk * shape.ranks + rank;
  const std::int64_t last = shape.ranks * shape.chunks - 1;
  if (a.pass == Pass::forward) return stage == 0 || done.contains({Pass::forward, stage - 1, a.microbatch});
  return done.contains({Pass::forward, stage, a.microbatch}) &&
         (stage == last || done.contains({Pass::backward, stage + 1, a.microbatch}));
}

std::string text(const Action& a) {
  return fmt::format("{} of microbatch {} on chunk {}", a.pass == Pass::forward ? "forward" : "backward", a.microbatch,
                     a.chunk);
}

}  // namespace

std::string verify(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<std::vector<Action>> lists;
  for (std::int64_t r = 0; r < shape.ranks; ++r) {
    lists.push_back(actions(kind, shape, r));
    auto sorted = lists.back();
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return fmt::format("rank {} runs an action twice", r);
    const auto expected = static_cast<std::size_t>(2 * shape.chunks * shape.microbatches);
    if (sorted.size() != expected) return fmt::format("rank {} runs {} actions of {}", r, sorted.size(), expected);
  }
  Done done;
  std::vector<std::size_t> cursor(lists.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < lists.size(); ++r)
      while (cursor[r] < lists[r].size() && can_run(shape, static_cast<std::int64_t>(r), lists[r][cursor[r]], done)) {
        const Action& a = lists[r][cursor[r]++];
        done.insert({a.pass, a.chunk * shape.ranks + static_cast<std::int64_t>(r), a.microbatch});
        moved = true;
      }
  }
  for (std::size_t r = 0; r < lists.size(); ++r)
    if (cursor[r] < lists[r].size())
      return fmt::format("rank {} waits for ever before {}", r, text(lists[r][cursor[r]]));
  return {};
}

std::int64_t peak_alive(ScheduleKind kind, const PipelineShape& shape, std::int64_t rank) {
  std::int64_t alive = 0;
  std::int64_t peak = 0;
  for (const Action& a : actions(kind, shape, rank)) {
    alive += a.pass == Pass::forward ? 1 : -1;
    peak = std::max(peak, alive);
  }
  return peak;
}

}  // namespace foretrain
