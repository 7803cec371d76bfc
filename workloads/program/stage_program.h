// The program of one pipeline rank: its schedule's actions, each turned into compute on the main stream, collectives on
// the streams of their dimensions, pipeline messages on a stream a direction, and memory changes. Internal to
// `generate`.
#pragma once

#include "sim/program.h"
#include "workloads/program/stage.h"

namespace foretrain {

[[nodiscard]] Program stage_program(const StageInput& in, std::int64_t pipeline_rank);

}  // namespace foretrain
