// A pipeline schedule: the order in which each pipeline rank runs forwards and backwards of microbatches on its chunks.
// One schedule a file; a line in schedule.cpp makes it known. `verify` proves one complete, free of deadlock and within
// its activation budget.
//
//   const ScheduleSpec spec{.kind = ScheduleKind::zbv, .virtual_stages = 2};
//   const PipelineShape shape = pipeline_shape(spec, 4, 8);          // 4 ranks, 8 microbatches
//   for (const Action& a : actions(spec, shape, 2)) ... stage_of(shape, 2, a.chunk) ...
//   verify(spec, shape) == "";
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/plan.h"
#include "workloads/schedules/action.h"

namespace foretrain {

/// The shape with which a schedule runs: chunks and group of `spec` (the usual group where it names none), and the
/// placement that the kind has.
[[nodiscard]] PipelineShape pipeline_shape(const ScheduleSpec& spec, std::int64_t ranks, std::int64_t microbatches);
[[nodiscard]] PipelineShape pipeline_shape(const Plan& plan, const Training& training);

/// PyTorch's rule: m microbatches go in max(1, m div p) rounds of equal groups; that is p where p divides m, as
/// Megatron has it. Where the rounds do not divide m there is no usual group, and p comes back, which is not legal
/// then.
[[nodiscard]] std::int64_t usual_group(std::int64_t ranks, std::int64_t microbatches);

/// What pipeline rank `rank` runs, in order. Shapes that the schedule cannot run are refused by `check_schedule`.
[[nodiscard]] std::vector<Action> actions(const ScheduleSpec& spec, const PipelineShape& shape, std::int64_t rank);
[[nodiscard]] ActionLists all_actions(const ScheduleSpec& spec, const PipelineShape& shape);

/// Most (chunk, microbatch) pairs whose activations a rank may hold at once, by the schedule's formula
/// (docs/schedules.md): a forward adds one, `backward` or `backward_weight` takes it away. Of a file: all.
[[nodiscard]] std::int64_t activation_budget(const ScheduleSpec& spec, const PipelineShape& shape, std::int64_t rank);

/// Empty if every microbatch passes every stage once forward and once backward (whole, or first input and then weight),
/// on the rank that holds it; nobody waits for ever; and no rank goes over its activation budget. Else what is wrong.
[[nodiscard]] std::string verify(const ScheduleSpec& spec, const PipelineShape& shape);
/// The same of lists, without a budget.
[[nodiscard]] std::string verify(const ActionLists& lists, const PipelineShape& shape);

/// Model chunks a rank that a kind can have.
struct ChunkRange {
  std::int64_t least = 1, most = 1;
};
[[nodiscard]] ChunkRange chunks_allowed(ScheduleKind kind);
/// Two where a kind can have several; one where not.
[[nodiscard]] std::int64_t usual_chunks(ScheduleKind kind);
/// Whether microbatches pass the chunks in groups.
[[nodiscard]] bool runs_in_groups(ScheduleKind kind);
/// Which stage a chunk is; of a file, what the file says.
[[nodiscard]] Placement placement_of(const ScheduleSpec& spec);

/// What keeps a schedule from running: chunks, groups, ranks and (where known) microbatches; empty if it can.
[[nodiscard]] std::vector<PlanError> check_schedule(const ScheduleSpec& spec, std::int64_t ranks,
                                                    std::optional<std::int64_t> microbatches);
/// The same, and what else of the plan and the training it bears on.
[[nodiscard]] std::vector<PlanError> check_schedule(const Plan& plan, const Training& training);

}  // namespace foretrain
