#include "workloads/plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

/// Extents by Axis. Ranks are numbered along the plan's order of axes, fastest first.
using Extents = std::array<std::int64_t, std::size(all_axes)>;
using Position = std::array<std::int64_t, std::size(all_axes)>;

constexpr std::size_t at(Axis axis) { return static_cast<std::size_t>(axis); }

Extents attention_grid(const Plan& plan) { return {plan.tp, plan.cp, 1, plan.dp, plan.pp}; }
Extents expert_grid(const Plan& plan) {
  return {plan.etp, 1, plan.ep, plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp), plan.pp};
}

/// Ranks of one pipeline that hold a stage.
std::int64_t holders(const Plan& plan) { return placement_of(plan.schedule) == Placement::bidirectional ? 2 : 1; }

Position position_of(const Plan& plan, const Extents& extents, RankId rank) {
  Position position{};
  auto rest = static_cast<std::int64_t>(rank.index());
  for (const Axis axis : plan.order) {
    position[at(axis)] = rest % extents[at(axis)];
    rest /= extents[at(axis)];
  }
  return position;
}

RankId rank_of(const Plan& plan, const Extents& extents, const Position& position) {
  std::int64_t rank = 0;
  std::int64_t stride = 1;
  for (const Axis axis : plan.order) {
    rank += position[at(axis)] * stride;
    stride *= extents[at(axis)];
  }
  return id_at<RankId>(static_cast<std::size_t>(rank));
}

/// The group that `first` begins: every position along `axes`, the first of them fastest.
std::vector<RankId> group_from(const Plan& plan, const Extents& extents, Position first, std::span<const Axis> axes) {
  std::int64_t members = 1;
  for (const Axis axis : axes) members *= extents[at(axis)];
  std::vector<RankId> group;
  group.reserve(static_cast<std::size_t>(members));
  for (std::int64_t i = 0; i < members; ++i) {
    std::int64_t rest = i;
    for (const Axis axis : axes) {
      first[at(axis)] = rest % extents[at(axis)];
      rest /= extents[at(axis)];
    }
    group.push_back(rank_of(plan, extents, first));
  }
  return group;
}

RankGroups groups_along(const Plan& plan, const Extents& extents, std::span<const Axis> axes) {
  RankGroups result;
  for (std::int64_t r = 0; r < plan.ranks(); ++r) {
    const Position position = position_of(plan, extents, id_at<RankId>(static_cast<std::size_t>(r)));
    const bool first = std::all_of(axes.begin(), axes.end(), [&](Axis axis) { return position[at(axis)] == 0; });
    if (first) result.push_back(group_from(plan, extents, position, axes));  // made when its first member comes
  }
  return result;
}

/// Where every stage is held twice, each group is joined by the ranks at the other end of its pipelines.
RankGroups with_mirrors(const Plan& plan, const Extents& extents, RankGroups all) {
  if (holders(plan) == 1) return all;
  RankGroups joined;
  for (std::vector<RankId>& group : all) {
    const std::int64_t stage = position_of(plan, extents, group.front())[at(Axis::pp)];
    if (2 * stage >= plan.pp) continue;  // the other end of one that is there
    for (std::size_t i = 0, own = group.size(); i < own; ++i) {
      Position mirrored = position_of(plan, extents, group[i]);
      mirrored[at(Axis::pp)] = plan.pp - 1 - stage;
      group.push_back(rank_of(plan, extents, mirrored));
    }
    joined.push_back(std::move(group));
  }
  return joined;
}

/// Each group in parts of `size` neighbours.
RankGroups cut(const RankGroups& all, std::int64_t size) {
  RankGroups result;
  for (const auto& group : all)
    for (auto first = group.begin(); first != group.end(); first += size) result.emplace_back(first, first + size);
  return result;
}

/// Of each group the members that lie `stride` apart.
RankGroups strided(const RankGroups& all, std::int64_t stride) {
  const auto step = static_cast<std::size_t>(stride);
  RankGroups result;
  for (const auto& group : all)
    for (std::size_t first = 0; first < step; ++first) {
      std::vector<RankId>& same = result.emplace_back();
      for (std::size_t i = first; i < group.size(); i += step) same.push_back(group[i]);
    }
  return result;
}

}  // namespace

std::string_view to_text(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
    case Precision::fp8:
      return "fp8";
    case Precision::fp4:
      return "fp4";
    case Precision::fp32:
      return "fp32";
  }
  return "";
}

std::string_view to_text(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::tensor:
      return "tensor";
    case Fp8Recipe::block:
      return "block";
    case Fp8Recipe::mx:
      return "mx";
  }
  return "";
}

std::string_view to_text(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "";
}

std::string_view to_text(RecomputeModule module) {
  switch (module) {
    case RecomputeModule::attention:
      return "attention";
    case RecomputeModule::norm:
      return "norm";
    case RecomputeModule::activation:
      return "activation";
    case RecomputeModule::latent:
      return "latent";
    case RecomputeModule::mlp:
      return "mlp";
    case RecomputeModule::experts:
      return "experts";
    case RecomputeModule::matmul:
      return "matmul";
    case RecomputeModule::projection:
      return "projection";
  }
  return "";
}

std::string_view to_text(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::flash:
      return "flash";
    case AttentionKernel::unfused:
      return "unfused";
  }
  return "";
}

std::string_view to_text(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved_1f1b:
      return "interleaved_1f1b";
    case ScheduleKind::interleaved_1f1b_ep_overlap:
      return "interleaved_1f1b_ep_overlap";
    case ScheduleKind::looped_bfs:
      return "looped_bfs";
    case ScheduleKind::zb_h1:
      return "zb_h1";
    case ScheduleKind::zb_h2:
      return "zb_h2";
    case ScheduleKind::zbv:
      return "zbv";
    case ScheduleKind::interleaved_zb:
      return "interleaved_zb";
    case ScheduleKind::dualpipe:
      return "dualpipe";
    case ScheduleKind::dualpipev:
      return "dualpipev";
    case ScheduleKind::file:
      return "file";
  }
  return "";
}

std::string_view to_text(Axis axis) {
  switch (axis) {
    case Axis::tp:
      return "tp";
    case Axis::cp:
      return "cp";
    case Axis::ep:
      return "ep";
    case Axis::dp:
      return "dp";
    case Axis::pp:
      return "pp";
  }
  return "";
}

std::string_view to_text(RecomputeMethod method) {
  switch (method) {
    case RecomputeMethod::uniform:
      return "uniform";
    case RecomputeMethod::block:
      return "block";
  }
  return "";
}

std::string_view to_text(LossKernel loss) {
  switch (loss) {
    case LossKernel::fused:
      return "fused";
    case LossKernel::unfused:
      return "unfused";
    case LossKernel::eager:
      return "eager";
    case LossKernel::parallel:
      return "parallel";
  }
  return "";
}

std::string_view to_text(ContextExchange exchange) {
  switch (exchange) {
    case ContextExchange::ring:
      return "ring";
    case ContextExchange::all_gather:
      return "all_gather";
    case ContextExchange::all_to_all:
      return "all_to_all";
  }
  return "";
}

std::string_view to_text(ExpertExchange exchange) {
  switch (exchange) {
    case ExpertExchange::all_to_all:
      return "all_to_all";
    case ExpertExchange::all_gather:
      return "all_gather";
    case ExpertExchange::two_hop:
      return "two_hop";
  }
  return "";
}

std::string_view to_text(GradientSync sync) {
  switch (sync) {
    case GradientSync::last:
      return "last";
    case GradientSync::each:
      return "each";
  }
  return "";
}

std::int64_t Plan::replicas() const { return dp * cp * holders(*this); }

std::int64_t Plan::expert_replicas() const { return tp * cp * dp / (ep * etp) * holders(*this); }

std::int64_t Plan::expert_shard_ranks() const {
  const std::int64_t sets = replicas() / shard_ranks();
  return expert_replicas() / std::gcd(expert_replicas(), sets);
}

std::int64_t Plan::stages() const {
  return stage_count({.ranks = pp, .chunks = schedule.virtual_stages, .placement = placement_of(schedule)});
}

Coordinates coordinates_of(const Plan& plan, RankId rank) {
  const Position p = position_of(plan, attention_grid(plan), rank);
  return {.tp = p[at(Axis::tp)], .cp = p[at(Axis::cp)], .dp = p[at(Axis::dp)], .pp = p[at(Axis::pp)]};
}

RankId rank_at(const Plan& plan, const Coordinates& c) {
  return rank_of(plan, attention_grid(plan), {c.tp, c.cp, 0, c.dp, c.pp});
}

ExpertCoordinates expert_coordinates_of(const Plan& plan, RankId rank) {
  const Position p = position_of(plan, expert_grid(plan), rank);
  return {.etp = p[at(Axis::tp)], .ep = p[at(Axis::ep)], .edp = p[at(Axis::dp)], .pp = p[at(Axis::pp)]};
}

RankId rank_at(const Plan& plan, const ExpertCoordinates& c) {
  return rank_of(plan, expert_grid(plan), {c.etp, 0, c.ep, c.edp, c.pp});
}

RankGroups groups(const Plan& plan, Axis axis) { return groups(plan, std::span(&axis, 1)); }

RankGroups groups(const Plan& plan, std::span<const Axis> axes) {
  return groups_along(plan, attention_grid(plan), axes);
}

RankGroups expert_groups(const Plan& plan, Axis axis) {
  return groups_along(plan, expert_grid(plan), std::span(&axis, 1));
}

RankGroups replica_groups(const Plan& plan) {
  return with_mirrors(plan, attention_grid(plan), groups(plan, std::array{Axis::cp, Axis::dp}));
}

RankGroups expert_replica_groups(const Plan& plan) {
  return with_mirrors(plan, expert_grid(plan), expert_groups(plan, Axis::dp));
}

RankGroups shard_groups(const Plan& plan) { return cut(replica_groups(plan), plan.shard_ranks()); }

RankGroups shard_replica_groups(const Plan& plan) { return strided(replica_groups(plan), plan.shard_ranks()); }

RankGroups expert_shard_groups(const Plan& plan) { return cut(expert_replica_groups(plan), plan.expert_shard_ranks()); }

RankGroups expert_shard_replica_groups(const Plan& plan) {
  return strided(expert_replica_groups(plan), plan.expert_shard_ranks());
}

std::vector<std::int64_t> layers_by_stage(const Model& model, const Plan& plan) {
  if (!plan.stage_layers.empty()) return plan.stage_layers;
  const std::int64_t stages = plan.stages();
  if ((model.layers + 2) % stages == 0) {
    std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), (model.layers + 2) / stages);
    --layers.front();
    --layers.back();
    return layers;
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), model.layers / stages);
  const auto remainder = static_cast<std::size_t>(model.layers % stages);
  for (std::size_t stage = 1; stage <= remainder; ++stage) ++layers[stage];
  return layers;
}

std::int64_t microbatches(const Plan& plan, const Training& training) {
  return training.global_batch / (training.microbatch * plan.dp);
}

std::int64_t padded_vocabulary(const Model& model, const Plan& plan) {
  const std::int64_t unit = 128 * plan.tp;  // Megatron-LM: --make-vocab-size-divisible-by 128, times TP
  return (model.vocabulary + unit - 1) / unit * unit;
}

}  // namespace foretrain
