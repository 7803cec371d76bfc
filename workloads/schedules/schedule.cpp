#include "workloads/schedules/schedule.h"

#include <algorithm>
#include <array>

#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

std::vector<Action> no_actions(const PipelineShape& /*shape*/, std::int64_t /*rank*/) { return {}; }
std::int64_t everything(const PipelineShape& shape, std::int64_t /*rank*/) { return shape.chunks * shape.microbatches; }

const ScheduleRule& rule_of(ScheduleKind kind) {
  static const std::array rules = {gpipe_rule(),
                                   one_f_one_b_rule(),
                                   interleaved_1f1b_rule(),
                                   interleaved_1f1b_ep_overlap_rule(),
                                   looped_bfs_rule(),
                                   zb_h1_rule(),
                                   zb_h2_rule(),
                                   zbv_rule(),
                                   interleaved_zb_rule(),
                                   dualpipe_rule(),
                                   dualpipev_rule()};
  // What a file has is in the file.
  static const ScheduleRule listed{
      .kind = ScheduleKind::file, .chunks = {1, any_chunks}, .actions = no_actions, .budget = everything};
  const auto* rule = std::find_if(rules.begin(), rules.end(), [&](const ScheduleRule& r) { return r.kind == kind; });
  return rule == rules.end() ? listed : *rule;
}

}  // namespace

std::int64_t usual_group(std::int64_t ranks, std::int64_t microbatches) {
  const std::int64_t rounds = std::max<std::int64_t>(1, microbatches / ranks);
  return microbatches % rounds == 0 ? microbatches / rounds : ranks;
}

PipelineShape pipeline_shape(const ScheduleSpec& spec, std::int64_t ranks, std::int64_t microbatches) {
  return {.ranks = ranks,
          .chunks = spec.virtual_stages,
          .microbatches = microbatches,
          .group = spec.microbatch_group.value_or(usual_group(ranks, microbatches)),
          .placement = placement_of(spec)};
}

PipelineShape pipeline_shape(const Plan& plan, const Training& training) {
  return pipeline_shape(plan.schedule, plan.pp, microbatches(plan, training));
}

std::vector<Action> actions(const ScheduleSpec& spec, const PipelineShape& shape, std::int64_t rank) {
  if (spec.listed) return spec.listed->lists[static_cast<std::size_t>(rank)];
  return rule_of(spec.kind).actions(shape, rank);
}

ActionLists all_actions(const ScheduleSpec& spec, const PipelineShape& shape) {
  ActionLists lists;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) lists.push_back(actions(spec, shape, rank));
  return lists;
}

std::int64_t activation_budget(const ScheduleSpec& spec, const PipelineShape& shape, std::int64_t rank) {
  return rule_of(spec.kind).budget(shape, rank);
}

ChunkRange chunks_allowed(ScheduleKind kind) { return rule_of(kind).chunks; }

std::int64_t usual_chunks(ScheduleKind kind) { return std::min<std::int64_t>(2, chunks_allowed(kind).most); }

bool runs_in_groups(ScheduleKind kind) { return rule_of(kind).grouped; }

Placement placement_of(const ScheduleSpec& spec) {
  return spec.listed ? spec.listed->shape.placement : rule_of(spec.kind).placement;
}

}  // namespace foretrain
