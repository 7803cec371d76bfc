// The familiar staircase of a pipeline schedule, in characters: a row a rank, time from left to right, every action a
// cell with its pass and its microbatch.
#pragma once

#include <cstddef>
#include <string>

#include "workloads/schedules/play.h"

namespace foretrain {

/// Each action is |F3 | with F, B, I or W and the microbatch, and the chunk behind it where a rank has several
/// (|F3b|: the second); two of a block stand in one cell, as |F3a&B1b|; dots are idle. As wide as its time, so that the
/// shortest action still shows its name. What is wider than `width` columns goes on in further rows below; of a very
/// long one the middle is left out, and that is said.
[[nodiscard]] std::string schedule_picture(const SchedulePlay& played, std::int64_t chunks, std::size_t width);

}  // namespace foretrain
