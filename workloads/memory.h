// Memory: bytes a rank holds, by part; each formula cites its paper. The player adds them up over time.
#pragma once

#include "workloads/gpu.h"
#include "workloads/parameters.h"
#include "workloads/plan.h"

namespace foretrain {

/// The parts of design.md's result, in this order.
enum class MemoryPart : std::uint8_t { parameters, gradients, optimizer, activations, buffers, overhead };
inline constexpr MemoryPart all_memory_parts[] = {MemoryPart::parameters,  MemoryPart::gradients, MemoryPart::optimizer,
                                                  MemoryPart::activations, MemoryPart::buffers,   MemoryPart::overhead};
[[nodiscard]] std::string_view to_text(MemoryPart part);

/// Mixed-precision Adam. ZeRO 0: 16 bytes a parameter; ZeRO 1: 4 + 12/dp with half-precision gradients (Rajbhandari
/// 2020), 6 + 12/dp with fp32 gradient accumulation (Megatron-Core's distributed optimizer).
struct StateBytes {
  Bytes parameters, gradients, optimizer;
};
[[nodiscard]] StateBytes state_bytes(std::int64_t parameters, const Plan& plan, const Training& training);

/// Kept for backward by one layer for one microbatch on one rank (Korthikanti 2022, section 4, plus the flash
/// attention and SwiGLU forms): sbh(34 + 5as/h) unfused, sbh(10 + 24/t + 5as/(ht)) with TP, (34 + 5as/h)sbh/t with SP.
[[nodiscard]] Bytes layer_activations(const Model& model, const Plan& plan, const Training& training);
/// Kept by the embedding's dropout, and by final norm and logits until the backward of the loss.
[[nodiscard]] Bytes embedding_activations(const Model& model, const Plan& plan, const Training& training);
[[nodiscard]] Bytes output_activations(const Model& model, const Plan& plan, const Training& training);
/// What the backward of one layer takes on top while it runs: gradients of the activation and of the layer's input, the
/// gathered input with SP, and the throw-away weight gradients of stacks that accumulate into fp32 inside the product.
[[nodiscard]] Bytes backward_transient(const Model& model, const Plan& plan, const Training& training);
/// What backward makes again of one layer before it runs: with full recompute the layer's whole table, with selective
/// the rows that `layer_activations` left out.
[[nodiscard]] Bytes recompute_transient(const Model& model, const Plan& plan, const Training& training);

/// CUDA context, NCCL buffers and allocator slack over `allocated` bytes of tensors.
[[nodiscard]] Bytes overhead_bytes(Bytes allocated);

}  // namespace foretrain
