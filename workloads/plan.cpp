#include "workloads/plan.h"

namespace foretrain {
namespace {

std::int64_t extent(const Plan& plan, Axis axis) {
  switch (axis) {
    case Axis::tp:
      return plan.tp;
    case Axis::cp:
      return plan.cp;
    case Axis::dp:
      return plan.dp;
    case Axis::pp:
      return plan.pp;
    case Axis::ep:
      return 1;  // dense models: expert parallelism has no extent
  }
  return 1;
}

/// The field of `at` that belongs to `axis`; null for the expert axis.
std::int64_t* coordinate(Coordinates& at, Axis axis) {
  switch (axis) {
    case Axis::tp:
      return &at.tp;
    case Axis::cp:
      return &at.cp;
    case Axis::dp:
      return &at.dp;
    case Axis::pp:
      return &at.pp;
    case Axis::ep:
      return nullptr;
  }
  return nullptr;
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
    case Precision::fp32:
      return "fp32";
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

Coordinates coordinates_of(const Plan& plan, RankId rank) {
  Coordinates at;
  std::int64_t rest = static_cast<std::int64_t>(rank.index());
  for (const Axis axis : plan.order) {
    if (std::int64_t* c = coordinate(at, axis)) *c = rest % extent(plan, axis);
    rest /= extent(plan, axis);
  }
  return at;
}

RankId rank_at(const Plan& plan, const Coordinates& at) {
  Coordinates position = at;
  std::int64_t rank = 0;
  std::int64_t stride = 1;
  for (const Axis axis : plan.order) {
    if (const std::int64_t* c = coordinate(position, axis)) rank += *c * stride;
    stride *= extent(plan, axis);
  }
  return id_at<RankId>(static_cast<std::size_t>(rank));
}

std::vector<std::vector<RankId>> groups(const Plan& plan, Axis axis) {
  const std::int64_t members = extent(plan, axis);
  std::vector<std::vector<RankId>> result;
  result.reserve(static_cast<std::size_t>(plan.ranks() / members));
  for (std::int64_t r = 0; r < plan.ranks(); ++r) {
    Coordinates at = coordinates_of(plan, id_at<RankId>(static_cast<std::size_t>(r)));
    std::int64_t* along = coordinate(at, axis);
    if (along != nullptr && *along != 0) continue;  // a group is made when its first member comes
    std::vector<RankId>& group = result.emplace_back();
    group.reserve(static_cast<std::size_t>(members));
    for (std::int64_t i = 0; i < members; ++i) {
      if (along != nullptr) *along = i;
      group.push_back(rank_at(plan, at));
    }
  }
  return result;
}

std::vector<std::int64_t> layers_by_stage(const Model& model, const Plan& plan) {
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
