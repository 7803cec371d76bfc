// Schedules and shapes that tests go through.
#pragma once

#include <rapidcheck.h>

#include <string>

#include "workloads/schedules/schedule.h"

namespace foretrain {

/// Kinds with an own rule: all but `file`.
inline std::vector<ScheduleKind> ruled_kinds() {
  std::vector<ScheduleKind> kinds(std::begin(all_schedule_kinds), std::end(all_schedule_kinds));
  std::erase(kinds, ScheduleKind::file);
  return kinds;
}

struct ScheduleCase {
  ScheduleSpec spec;
  PipelineShape shape;
};

inline bool legal(const ScheduleSpec& spec, std::int64_t ranks, std::int64_t microbatches) {
  return check_schedule(spec, ranks, microbatches).empty();
}

inline ScheduleCase case_of(const ScheduleSpec& spec, std::int64_t ranks, std::int64_t microbatches) {
  return {spec, pipeline_shape(spec, ranks, microbatches)};
}

/// A legal shape of any kind, up to 10 ranks, 40 microbatches and 4 chunks.
inline ScheduleCase random_case() {
  ScheduleSpec spec;
  spec.kind = *rc::gen::elementOf(ruled_kinds());
  const ChunkRange chunks = chunks_allowed(spec.kind);
  spec.virtual_stages = *rc::gen::inRange(chunks.least, std::min<std::int64_t>(chunks.most, 4) + 1);
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 11);
  const auto microbatches = *rc::gen::inRange<std::int64_t>(1, 41);
  if (*rc::gen::arbitrary<bool>()) spec.microbatch_group = *rc::gen::inRange<std::int64_t>(1, microbatches + 1);
  if (!legal(spec, ranks, microbatches)) spec.microbatch_group.reset();
  RC_PRE(legal(spec, ranks, microbatches));
  return case_of(spec, ranks, microbatches);
}

}  // namespace foretrain
