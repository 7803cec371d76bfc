// The rule of each schedule; each in a file of its name. Internal to schedules/: callers use schedule.h.
#pragma once

#include "workloads/schedules/schedule.h"

namespace foretrain {

struct ScheduleRule {
  ScheduleKind kind{};
  Placement placement = Placement::loop;
  ChunkRange chunks;
  bool grouped = false;  ///< depends on `PipelineShape::group`
  /// What a rank runs, in order.
  std::vector<Action> (*actions)(const PipelineShape&, std::int64_t rank) = nullptr;
  /// Most live (chunk, microbatch) pairs of a rank.
  std::int64_t (*budget)(const PipelineShape&, std::int64_t rank) = nullptr;
};

/// As many chunks as there are layers for.
inline constexpr std::int64_t any_chunks = 4096;

/// All forwards, then all backwards. Huang 2019 (arXiv 1811.06965).
[[nodiscard]] ScheduleRule gpipe_rule();
/// 1F1B with flush. Narayanan 2021 (arXiv 2104.04473), section 2.2.
[[nodiscard]] ScheduleRule one_f_one_b_rule();
/// Interleaved 1F1B. The same, section 2.2.2; groups of any legal size: Llama 3 (arXiv 2407.21783), section 3.3.2.
[[nodiscard]] ScheduleRule interleaved_1f1b_rule();
/// The same with each steady forward and backward as one block that hides expert-parallel traffic. Megatron-Core,
/// `combined_1f1b`.
[[nodiscard]] ScheduleRule interleaved_1f1b_ep_overlap_rule();
/// Breadth first: all microbatches through a chunk, then the next chunk. Lamy-Poirier 2022 (arXiv 2211.05953).
[[nodiscard]] ScheduleRule looped_bfs_rule();
/// Zero bubble with the memory of 1F1B. Qi 2023 (arXiv 2401.10241), section 2.1.
[[nodiscard]] ScheduleRule zb_h1_rule();
/// Zero bubble with twice that. The same.
[[nodiscard]] ScheduleRule zb_h2_rule();
/// Two chunks there and back. Qi 2024 (arXiv 2405.15362); as PyTorch's ScheduleZBVZeroBubble.
[[nodiscard]] ScheduleRule zbv_rule();
/// ZB-H1 over chunks. PyTorch's ScheduleInterleavedZeroBubble.
[[nodiscard]] ScheduleRule interleaved_zb_rule();
/// From both ends at once. DeepSeek-V3 (arXiv 2412.19437), section 3.2.1.
[[nodiscard]] ScheduleRule dualpipe_rule();
/// DualPipe folded in the middle. deepseek-ai/DualPipe, dualpipev.py.
[[nodiscard]] ScheduleRule dualpipev_rule();

}  // namespace foretrain
