// What `foretrain schedule` says of a schedule that was played.
#pragma once

#include <string>
#include <vector>

#include "workloads/schedules/play.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {

struct PlayedSchedule {
  ScheduleSpec spec;
  PipelineShape shape;
  PassTimes times;
  SchedulePlay play;
};

[[nodiscard]] std::string schedule_text(const PlayedSchedule& played);
[[nodiscard]] std::string schedule_json(const PlayedSchedule& played);

}  // namespace foretrain
