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

}  // namespace foretrain
