// Stack: the training software, as a release of it behaves: whose rules memory and communication follow, and what its
// kernels and its launching reach over what the GPU's constants say. Values, with their sources and fits, are files of
// the catalogue (scenarios/stacks/*.yaml, docs/stacks.md); everything at its default is Megatron-Core on the GPU's own
// constants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "topology/units.h"

namespace foretrain {

/// Whose rules: recipes of states and buffers (docs/memory.md), what data parallelism sends when (docs/parallelism.md).
enum class Framework : std::uint8_t { megatron, deepspeed, fsdp, nanotron };
inline constexpr Framework all_frameworks[] = {Framework::megatron, Framework::deepspeed, Framework::fsdp,
                                               Framework::nanotron};
[[nodiscard]] std::string_view to_text(Framework);

struct Stack {
  std::string name = "megatron";
  Framework framework = Framework::megatron;

  // Constants of a release, at most eight.
  double attention_rate = 1;   ///< of flash attention, forward and backward, over the GPU's
  double memory_traffic = 1;   ///< of memory-bound kernels, over what docs/cost-model.md counts: what is not fused
  double expert_traffic = 1;   ///< the same of routing, permuting and sorting tokens for experts, and their activation
  double overhead = 1;         ///< of all computation: what no kernel accounts for (>= 1)
  double tp_time = 1;          ///< of tensor-parallel collectives, over the transport's
  double ep_time = 1;          ///< of dispatch and combine, over the transport's
  Duration host_layer;         ///< launching one pass of a dense layer takes this long on the host
  Duration host_expert_layer;  ///< of a layer with 128 experts; grows with the square root of their number

  // Ways of working.
  bool late_output_gradient = false;  ///< the output layer's weight gradient waits for the pipeline's cool-down
  bool prunes_recompute = false;      ///< recompute ends before a layer's last product, whose output nobody reads
  bool scattered_messages = true;     ///< a pipeline message is divided over the TP group (Narayanan 2021, section 4.1)
  /// ZeRO 1, 2: every owner of a shard broadcasts it by itself, so long on the host behind the one before (InternLM);
  /// 0: all are gathered at once.
  Duration owner_broadcast;
  std::int64_t data_channels = 0;  ///< data-parallel groups use so many NICs of a node; 0: all

  friend bool operator==(const Stack&, const Stack&) = default;
};

}  // namespace foretrain
