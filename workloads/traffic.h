// Message sizes of one microbatch, and the communicator slots of a rank: the vocabulary that `generate` shares between
// the stage programs and the communicators it binds.
#pragma once

#include <cstdint>
#include <optional>

#include "workloads/plan.h"

namespace foretrain {

/// Slots of every rank's communicators. Not every rank calls every slot. A pipeline message of a pass between two
/// neighbours has a communicator of its own, so that none waits behind another: "next" is pipeline rank r + 1 (or 0
/// after the last), "previous" r - 1.
enum class Slot : std::uint16_t {
  tp,               ///< tensor-parallel group
  cp,               ///< context-parallel group
  ep,               ///< expert-parallel group
  etp,              ///< tensor-parallel group of an expert
  dp,               ///< ranks that share one set of shards of dense parameters: dp x cp, or an HSDP group of it
  dp_replica,       ///< HSDP: ranks of other groups with the same shard
  edp,              ///< ranks that share one set of shards of the same experts
  edp_replica,      ///< HSDP: ranks of other groups with the same shard of experts
  forward_to_next,  ///< activations
  forward_from_previous,
  forward_to_previous,  ///< the way back of V-shaped and bidirectional schedules
  forward_from_next,
  backward_to_previous,  ///< gradients
  backward_from_next,
  backward_to_next,
  backward_from_previous,
  embedding,  ///< first and last stage share a tied embedding
  model       ///< all ranks that hold one replica: gradient norm
};
inline constexpr std::size_t slot_count = 18;
[[nodiscard]] constexpr bool is_pipeline_message(Slot slot) {
  return slot >= Slot::forward_to_next && slot <= Slot::backward_from_previous;
}

/// Bytes an element of activations in flight: 2, or 4 for fp32 training (fp8 GEMMs exchange bf16).
[[nodiscard]] std::int64_t activation_bytes(Precision precision);
/// Bytes an element of gradients, as they are accumulated and reduced.
[[nodiscard]] std::int64_t gradient_bytes(const Training& training);
/// The whole activation tensor of one microbatch: e b s h / cp.
[[nodiscard]] Bytes activation_message(const Model& model, const Plan& plan, const Training& training);
/// What the ranks of a tensor-parallel group gather of a microbatch for MLA's products out of latents: the compressed
/// query (or, where there is none, the activation), keys and values, and the rotary part of K. None without MLA.
[[nodiscard]] std::optional<Bytes> latent_message(const Model& model, const Plan& plan, const Training& training);
/// What one rank hands to the exchange that brings tokens to their experts: its tokens (of its sequence shard, with
/// sequence parallelism) of h elements each. For an all-to-all all copies of them: topk each, or of experts padded to
/// their capacity so many as they take. Requires a model with experts.
[[nodiscard]] Bytes expert_message(const Model& model, const Plan& plan, const Training& training);
/// What one tensor-parallel rank sends to the next stage: its 1/tp of it (sequence shard, or the scatter of Narayanan
/// 2021, section 4.1, which an all-gather inside the receiving group undoes), or all of it where the stack does not.
[[nodiscard]] Bytes pipeline_message(const Model& model, const Plan& plan, const Training& training);

}  // namespace foretrain
