// Message sizes of one microbatch, and the communicator slots of a rank: the vocabulary that `generate` shares between
// the stage programs and the communicators it binds.
#pragma once

#include <cstdint>

#include "workloads/plan.h"

namespace foretrain {

/// Slots of every rank's communicators. Not every rank calls every slot.
enum class Slot : std::uint16_t {
  tp,            ///< tensor-parallel group
  dp,            ///< data-parallel group
  forward_out,   ///< activations to the next pipeline rank
  forward_in,    ///< activations from the previous one
  backward_out,  ///< gradients to the previous one
  backward_in,   ///< gradients from the next one
  embedding,     ///< first and last stage share a tied embedding
  model          ///< all ranks that hold one replica: gradient norm
};
inline constexpr std::size_t slot_count = 8;

/// Bytes an element of activations in flight: 2, or 4 for fp32 training (fp8 GEMMs exchange bf16).
[[nodiscard]] std::int64_t activation_bytes(Precision precision);
/// The whole activation tensor of one microbatch: e b s h / cp.
[[nodiscard]] Bytes activation_message(const Model& model, const Plan& plan, const Training& training);
/// What one tensor-parallel rank sends to the next stage: its 1/tp of it (sequence shard, or the scatter of Narayanan
/// 2021, section 4.1, which an all-gather inside the receiving group undoes).
[[nodiscard]] Bytes pipeline_message(const Model& model, const Plan& plan, const Training& training);

}  // namespace foretrain
