// Plan: how a model is split over ranks, and Training: what a step is. `check` finds everything illegal at once.
//
//   Plan plan{.tp = 8, .pp = 16, .dp = 128, .zero = 1, .schedule = {ScheduleKind::interleaved_1f1b, 8}};
//   plan.ranks() == 16384;
//   groups(plan, Axis::dp)[3];               // the ranks of the fourth data-parallel group
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/communicator.h"
#include "workloads/model.h"

namespace foretrain {

enum class Precision : std::uint8_t { bf16, fp16, fp8, fp32 };
enum class Recompute : std::uint8_t { none, selective, full };
/// What `selective` recomputes. Attention core: Korthikanti 2022. Norm and activation: their outputs are made again in
/// backward from their inputs (memory-bound, so nearly free).
enum class RecomputeModule : std::uint8_t { attention, norm, activation };
enum class AttentionKernel : std::uint8_t { flash, unfused };
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved_1f1b };
enum class Axis : std::uint8_t { tp, cp, ep, dp, pp };

inline constexpr Precision all_precisions[] = {Precision::bf16, Precision::fp16, Precision::fp8, Precision::fp32};
inline constexpr Recompute all_recomputes[] = {Recompute::none, Recompute::selective, Recompute::full};
inline constexpr RecomputeModule all_recompute_modules[] = {RecomputeModule::attention, RecomputeModule::norm,
                                                            RecomputeModule::activation};
inline constexpr AttentionKernel all_attention_kernels[] = {AttentionKernel::flash, AttentionKernel::unfused};
inline constexpr ScheduleKind all_schedule_kinds[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                                      ScheduleKind::interleaved_1f1b};
inline constexpr Axis all_axes[] = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

[[nodiscard]] std::string_view to_text(Precision);
[[nodiscard]] std::string_view to_text(Recompute);
[[nodiscard]] std::string_view to_text(RecomputeModule);
[[nodiscard]] std::string_view to_text(AttentionKernel);
[[nodiscard]] std::string_view to_text(ScheduleKind);
[[nodiscard]] std::string_view to_text(Axis);

struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;  ///< sequences a step
  std::int64_t microbatch = 1;    ///< sequences
  Precision precision = Precision::bf16;
  Precision gradients = Precision::fp32;  ///< accumulated and reduced in: fp32, or bf16/fp16 for half
  Recompute recompute = Recompute::none;
  std::vector<RecomputeModule> recompute_modules = {RecomputeModule::attention};  ///< for `selective`
  AttentionKernel attention = AttentionKernel::flash;
  AttentionFlops attention_flops = AttentionFlops::full;  ///< how MFU counts causal attention
};

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::int64_t virtual_stages = 1;  ///< model chunks a rank
};

struct Overlap {
  bool dp = true;   ///< gradient reduction and parameter gather beside compute
  bool tp = false;  ///< tensor-parallel collectives beside the GEMMs they feed
  bool pp = true;   ///< pipeline sends do not hold up the next compute (interleaved schedules)
};

struct Plan {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;
  bool sequence_parallel = false;
  int zero = 0;  ///< 0 or 1
  ScheduleSpec schedule = {};
  std::array<Axis, 5> order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};  ///< fastest-varying first
  Overlap overlap = {};
  std::int64_t bucket_parameters = 40'000'000;  ///< gradients reduced together (Megatron-Core's default)

  [[nodiscard]] std::int64_t ranks() const { return tp * cp * pp * dp; }
  [[nodiscard]] std::int64_t stages() const { return pp * schedule.virtual_stages; }
};

/// A rank's place on each axis.
struct Coordinates {
  std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;
};
[[nodiscard]] Coordinates coordinates_of(const Plan& plan, RankId rank);
[[nodiscard]] RankId rank_at(const Plan& plan, const Coordinates& at);
/// All groups of ranks that differ only along `axis`, members in axis order, groups in order of their first member.
[[nodiscard]] std::vector<std::vector<RankId>> groups(const Plan& plan, Axis axis);

/// Transformer layers by global stage (chunk c of pipeline rank r is stage c*pp + r). If stages divide layers + 2, the
/// embedding and the loss take a slot each (Llama 3: 126 layers in 128 slots); otherwise layers / stages each, and the
/// remainder one a stage from the second stage on.
[[nodiscard]] std::vector<std::int64_t> layers_by_stage(const Model& model, const Plan& plan);

[[nodiscard]] std::int64_t microbatches(const Plan& plan, const Training& training);
/// Vocabulary padded to a multiple of 128 * tp, as Megatron does.
[[nodiscard]] std::int64_t padded_vocabulary(const Model& model, const Plan& plan);

/// One broken rule. `keys` are dotted scenario keys it concerns, the one to point at first.
struct PlanError {
  std::vector<std::string> keys;
  std::string message;  ///< what is wrong; what is allowed, with the nearest legal values
};
/// Every rule that the plan breaks for this model, training and number of GPUs; empty if it is legal.
[[nodiscard]] std::vector<PlanError> check(const Model& model, const Plan& plan, const Training& training,
                                           std::int64_t gpus);

}  // namespace foretrain
