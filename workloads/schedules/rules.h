// The schedules we have; each in a file of its name. Internal to schedules/: callers use `actions`.
#pragma once

#include "workloads/schedules/schedule.h"

namespace foretrain {

/// All forwards, then all backwards, microbatches ascending. Source: Huang 2019 (arXiv 1811.06965).
[[nodiscard]] std::vector<Action> gpipe(const PipelineShape& shape, std::int64_t rank);
/// 1F1B with flush. Source: Narayanan 2021 (arXiv 2104.04473), section 2.2.
[[nodiscard]] std::vector<Action> one_f_one_b(const PipelineShape& shape, std::int64_t rank);
/// Interleaved 1F1B with groups of `ranks` microbatches. Source: the same, section 2.2.2.
[[nodiscard]] std::vector<Action> interleaved_1f1b(const PipelineShape& shape, std::int64_t rank);

}  // namespace foretrain
