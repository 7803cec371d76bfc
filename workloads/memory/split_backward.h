// Split backward: what a chunk holds between the gradient of its input and those of its weights, in schedules that take
// them apart (zero bubble, DualPipe).
#pragma once

#include "workloads/memory/activations.h"

namespace foretrain {

/// From the end of `backward_input` to `backward_weight`, in place of `chunk_activations`: inputs of the layers'
/// matrices and gradients of their outputs. The ends are done with their input gradient. Of GPT 32sbh a layer (Qi 2023,
/// section 3.1).
[[nodiscard]] Bytes waiting_for_weight_gradients(const Model& model, const Plan& plan, const Training& training,
                                                 const ChunkSpan& chunk);

/// Whether the gradient of the output layer's weights waits for the pipeline's cool-down (Stack::late_output_gradient).
[[nodiscard]] bool has_late_output_gradient(const Plan& plan, const Training& training);
/// What it needs of one microbatch: the layer's input and the gradient of the logits.
[[nodiscard]] Bytes waiting_for_output_gradient(const Model& model, const Plan& plan, const Training& training);

}  // namespace foretrain
