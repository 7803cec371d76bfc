// Transients: what a part of the step takes on top of what it keeps, while it runs.
#pragma once

#include "workloads/memory/activations.h"

namespace foretrain {

/// While one layer's backward runs: gradients of the activation and of the layer's input, the gathered input with SP,
/// exchanged keys and values with CP.
[[nodiscard]] Bytes backward_transient(const Model& model, const Plan& plan, const Training& training,
                                       LayerKind kind = {});
/// What backward makes again of one layer before it runs: with full recompute the layer's whole table, with selective
/// the rows that `layer_activations` left out.
[[nodiscard]] Bytes recompute_transient(const Model& model, const Plan& plan, const Training& training,
                                        LayerKind kind = {});
/// The most that the backward of a chunk's layers takes at once: both of the above, for a whole group with uniform
/// recompute. Nothing without layers.
[[nodiscard]] Bytes chunk_transient(const Model& model, const Plan& plan, const Training& training,
                                    const ChunkSpan& chunk);

/// At the loss, on top of `output_activations`: the rest of the logits' copies, and the gathered input with SP.
[[nodiscard]] Bytes loss_transient(const Model& model, const Plan& plan, const Training& training);
/// In the backward of the output: gradients of the logits, the gathered input, and the throw-away weight gradient that
/// Megatron allocates for the head.
[[nodiscard]] Bytes output_backward_transient(const Model& model, const Plan& plan, const Training& training);

}  // namespace foretrain
