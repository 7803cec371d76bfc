// Plan: how a model is split over ranks, and Training: what a step is. `check` finds everything illegal at once.
//
//   Plan plan{.tp = 8, .pp = 16, .dp = 128, .zero = 1, .schedule = {ScheduleKind::interleaved_1f1b, 8}};
//   plan.ranks() == 16384;
//   groups(plan, Axis::dp)[3];               // the ranks of the fourth data-parallel group
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/communicator.h"
#include "workloads/model.h"
#include "workloads/schedules/action.h"
#include "workloads/stack.h"

namespace foretrain {

enum class Precision : std::uint8_t { bf16, fp16, fp8, fp4, fp32 };
/// How fp8 operands are scaled: by a factor a tensor (Transformer Engine's delayed and current scaling, torchao's
/// tensorwise); a block of 128 elements (DeepSeek-V3, arXiv 2412.19437, section 3.3.2); every 32 elements (MXFP8, OCP
/// Microscaling). fp4 is NVFP4: every 16.
enum class Fp8Recipe : std::uint8_t { tensor, block, mx };
enum class Recompute : std::uint8_t { none, selective, full };
/// What `selective` recomputes. Attention core: Korthikanti 2022. Norm and activation: their outputs are made again in
/// backward from their inputs (memory-bound, so nearly free).
/// Latent: MLA's up-projections. MLP, experts: the whole block from its norm's output. Projection: the product
/// behind attention. Matmul: FSDP's per-operator policy, every second matrix product.
enum class RecomputeModule : std::uint8_t { attention, norm, activation, latent, mlp, experts, matmul, projection };
/// `uniform`: inputs of groups of `recompute_layers` layers are kept; `block`: the first `recompute_layers` of a stage
/// are recomputed, the others keep everything (Megatron-LM, --recompute-method).
enum class RecomputeMethod : std::uint8_t { uniform, block };
enum class AttentionKernel : std::uint8_t { flash, unfused };
/// docs/schedules.md has the rule of each; `file`: the action lists that a file gives.
enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved_1f1b,
  interleaved_1f1b_ep_overlap,
  looped_bfs,
  zb_h1,
  zb_h2,
  zbv,
  interleaved_zb,
  dualpipe,
  dualpipev,
  file
};
enum class Axis : std::uint8_t { tp, cp, ep, dp, pp };
/// How the loss works on its logits.
enum class LossKernel : std::uint8_t { fused, unfused, eager, parallel };
/// What context-parallel ranks exchange: K and V around a ring beside the attention (zig-zag chunks), all K and V
/// before it (Llama 3), or heads against sequence (Ulysses).
enum class ContextExchange : std::uint8_t { ring, all_gather, all_to_all };
/// How tokens reach their experts and come back: all-to-all; everybody's tokens gathered and partial sums scattered;
/// once a node over the network, then NVLink (DeepEP).
enum class ExpertExchange : std::uint8_t { all_to_all, all_gather, two_hop };
/// When gradients of several microbatches are exchanged: after the last, or after each.
enum class GradientSync : std::uint8_t { last, each };

inline constexpr Precision all_precisions[] = {Precision::bf16, Precision::fp16, Precision::fp8, Precision::fp4,
                                               Precision::fp32};
inline constexpr Fp8Recipe all_fp8_recipes[] = {Fp8Recipe::tensor, Fp8Recipe::block, Fp8Recipe::mx};
inline constexpr Recompute all_recomputes[] = {Recompute::none, Recompute::selective, Recompute::full};
inline constexpr RecomputeModule all_recompute_modules[] = {
    RecomputeModule::attention, RecomputeModule::norm,    RecomputeModule::activation, RecomputeModule::latent,
    RecomputeModule::mlp,       RecomputeModule::experts, RecomputeModule::matmul,     RecomputeModule::projection};
inline constexpr AttentionKernel all_attention_kernels[] = {AttentionKernel::flash, AttentionKernel::unfused};
inline constexpr ScheduleKind all_schedule_kinds[] = {ScheduleKind::gpipe,
                                                      ScheduleKind::one_f_one_b,
                                                      ScheduleKind::interleaved_1f1b,
                                                      ScheduleKind::interleaved_1f1b_ep_overlap,
                                                      ScheduleKind::looped_bfs,
                                                      ScheduleKind::zb_h1,
                                                      ScheduleKind::zb_h2,
                                                      ScheduleKind::zbv,
                                                      ScheduleKind::interleaved_zb,
                                                      ScheduleKind::dualpipe,
                                                      ScheduleKind::dualpipev,
                                                      ScheduleKind::file};
inline constexpr RecomputeMethod all_recompute_methods[] = {RecomputeMethod::uniform, RecomputeMethod::block};
inline constexpr LossKernel all_loss_kernels[] = {LossKernel::fused, LossKernel::unfused, LossKernel::eager,
                                                  LossKernel::parallel};
inline constexpr ContextExchange all_context_exchanges[] = {ContextExchange::ring, ContextExchange::all_gather,
                                                            ContextExchange::all_to_all};
inline constexpr ExpertExchange all_expert_exchanges[] = {ExpertExchange::all_to_all, ExpertExchange::all_gather,
                                                          ExpertExchange::two_hop};
inline constexpr GradientSync all_gradient_syncs[] = {GradientSync::last, GradientSync::each};
inline constexpr Axis all_axes[] = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

[[nodiscard]] std::string_view to_text(Precision);
[[nodiscard]] std::string_view to_text(Fp8Recipe);
/// Whether products cast their operands to fewer than 16 bits.
[[nodiscard]] constexpr bool quantised(Precision p) { return p == Precision::fp8 || p == Precision::fp4; }
[[nodiscard]] std::string_view to_text(Recompute);
[[nodiscard]] std::string_view to_text(RecomputeModule);
[[nodiscard]] std::string_view to_text(AttentionKernel);
[[nodiscard]] std::string_view to_text(ScheduleKind);
[[nodiscard]] std::string_view to_text(Axis);
[[nodiscard]] std::string_view to_text(RecomputeMethod);
[[nodiscard]] std::string_view to_text(LossKernel);
[[nodiscard]] std::string_view to_text(ContextExchange);
[[nodiscard]] std::string_view to_text(ExpertExchange);
[[nodiscard]] std::string_view to_text(GradientSync);

struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;  ///< sequences a step
  std::int64_t microbatch = 1;    ///< sequences
  Precision precision = Precision::bf16;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensor;  ///< with fp8
  Precision gradients = Precision::fp32;     ///< accumulated and reduced in: fp32, or bf16/fp16 for half
  Recompute recompute = Recompute::none;
  std::vector<RecomputeModule> recompute_modules = {RecomputeModule::attention};  ///< for `selective`
  RecomputeMethod recompute_method = RecomputeMethod::uniform;                    ///< for `full`
  std::int64_t recompute_layers = 1;  ///< for `full`: of a group, or of a stage's start
  AttentionKernel attention = AttentionKernel::flash;
  Stack stack = {};
  LossKernel loss = LossKernel::unfused;
  AttentionFlops attention_flops = AttentionFlops::full;  ///< how MFU counts causal attention
  Precision moments = Precision::fp32;  ///< of the optimizer; bf16 with Megatron-Core's precision-aware one
  bool compiled = false;                ///< layers through torch.compile, which fuses what the fsdp stack leaves apart
};

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::int64_t virtual_stages = 1;  ///< model chunks a rank
  /// Microbatches that pass one chunk before the rank turns to the next; none: the usual number (`usual_group`).
  std::optional<std::int64_t> microbatch_group = {};
  std::shared_ptr<const ListedSchedule> listed = {};  ///< there for kind `file`
};

struct Overlap {
  bool dp = true;   ///< gradient reduction and parameter gather beside compute
  bool tp = false;  ///< tensor-parallel collectives beside the GEMMs they feed
  bool pp = true;   ///< pipeline sends do not hold up the next compute (interleaved schedules)
  bool ep = false;  ///< dispatch and combine of one microbatch beside compute of another (schedules with FB blocks)
};

/// Fully sharded data parallelism (PyTorch FSDP2), for ZeRO 3.
struct Sharding {
  std::int64_t prefetch = 1;          ///< units gathered ahead of the one in use
  bool reshard_after_forward = true;  ///< gathered parameters are freed after forward and gathered again for backward
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

struct Plan {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;   ///< replicas of the dense part
  std::int64_t ep = 1;   ///< expert-parallel, carved out of tp x cp x dp
  std::int64_t etp = 1;  ///< tensor-parallel inside an expert
  bool sequence_parallel = false;
  int zero = 0;                 ///< 0 to 3; 3 is FSDP
  std::int64_t hsdp_shard = 0;  ///< ranks of dp x cp that share one set of shards; 0: all (no replication across)
  Sharding sharding = {};       ///< for ZeRO 3
  GradientSync gradient_sync = GradientSync::last;
  ContextExchange context = ContextExchange::ring;
  ExpertExchange experts = ExpertExchange::all_to_all;
  double expert_imbalance = 1;  ///< tokens of the busiest expert rank over the mean
  double expert_capacity = 0;   ///< tokens an expert takes, over the mean: padded or the rest dropped; 0: dropless
  ScheduleSpec schedule = {};
  std::vector<std::int64_t> stage_layers = {};  ///< transformer layers by global stage; empty: `layers_by_stage`'s rule
  std::array<Axis, 5> order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};  ///< fastest-varying first
  Overlap overlap = {};
  std::int64_t bucket_parameters = 40'000'000;  ///< gradients reduced together (Megatron-Core's default)

  [[nodiscard]] std::int64_t ranks() const { return tp * cp * pp * dp; }
  [[nodiscard]] std::int64_t stages() const;
  /// Ranks that hold the same dense parameters and share them under ZeRO: context parallelism is folded in, and
  /// schedules that hold every stage twice (DualPipe) bring both holders together.
  [[nodiscard]] std::int64_t replicas() const;
  /// Ranks that hold the same experts. Requires ep x etp to divide tp x cp x dp.
  [[nodiscard]] std::int64_t expert_replicas() const;
  /// Over how many ranks ZeRO spreads dense state; state of experts. HSDP's sets hold copies of each other's shards: of
  /// experts as many sets as divide their replicas.
  [[nodiscard]] std::int64_t shard_ranks() const { return hsdp_shard > 0 ? hsdp_shard : replicas(); }
  [[nodiscard]] std::int64_t expert_shard_ranks() const;
};

/// A rank's place on each axis of the attention grid, tp x cp x dp x pp.
struct Coordinates {
  std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;
};
[[nodiscard]] Coordinates coordinates_of(const Plan& plan, RankId rank);
[[nodiscard]] RankId rank_at(const Plan& plan, const Coordinates& at);

/// And of the expert grid, etp x ep x edp x pp, over the same ranks in the same order of axes (Megatron-Core's
/// "parallel folding"): etp stands where tp does, edp where dp does, cp has no extent.
struct ExpertCoordinates {
  std::int64_t etp = 0, ep = 0, edp = 0, pp = 0;
};
[[nodiscard]] ExpertCoordinates expert_coordinates_of(const Plan& plan, RankId rank);
[[nodiscard]] RankId rank_at(const Plan& plan, const ExpertCoordinates& at);

using RankGroups = std::vector<std::vector<RankId>>;
/// All groups of ranks that differ only along `axis` of the attention grid (its ep axis has one rank a group), members
/// in axis order, groups in order of their first member.
[[nodiscard]] RankGroups groups(const Plan& plan, Axis axis);
/// The same along several axes at once, the first named varying fastest: {cp, dp} is the group that shares gradients.
[[nodiscard]] RankGroups groups(const Plan& plan, std::span<const Axis> axes);
/// Along an axis of the expert grid: `tp` means etp, `dp` means edp.
[[nodiscard]] RankGroups expert_groups(const Plan& plan, Axis axis);

/// Ranks that hold the same dense parameters; the same experts. Schedules that hold every stage twice (DualPipe) bring
/// both holders of a pipeline together.
[[nodiscard]] RankGroups replica_groups(const Plan& plan);
[[nodiscard]] RankGroups expert_replica_groups(const Plan& plan);
/// Of these, the ranks that share one set of shards (`shard_ranks` neighbours), and those that hold the same shard; the
/// same of experts.
[[nodiscard]] RankGroups shard_groups(const Plan& plan);
[[nodiscard]] RankGroups shard_replica_groups(const Plan& plan);
[[nodiscard]] RankGroups expert_shard_groups(const Plan& plan);
[[nodiscard]] RankGroups expert_shard_replica_groups(const Plan& plan);

/// Transformer layers by global stage: `stage_layers` where the plan says them (a stage of none holds the embedding or
/// the loss alone). Else, if stages divide layers + 2, the embedding and the loss take a slot each (Llama 3: 126 layers
/// in 128 slots); otherwise layers / stages each, and the remainder one a stage from the second stage on.
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
