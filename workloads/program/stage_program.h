// The program of one pipeline rank: its schedule's actions, each turned into compute on the main stream, collectives on
// the streams of their dimensions, pipeline messages on a stream a direction, and memory changes. Internal to
// `generate`.
#pragma once

#include "sim/program.h"
#include "workloads/program/stage.h"

namespace foretrain {

/// `lists` are those of all pipeline ranks: a rank receives in the order in which others send.
[[nodiscard]] Program stage_program(const StageInput& in, const ActionLists& lists, std::int64_t pipeline_rank);

}  // namespace foretrain
