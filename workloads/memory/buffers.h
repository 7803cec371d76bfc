// Buffers of a stack: what it holds beside states and activations because of how it is built.
//
// A unit is what FSDP gathers at once: a layer. The ends (embedding, output) are gathered with the root.
#pragma once

#include "workloads/memory/parts.h"
#include "workloads/parameters.h"
#include "workloads/plan.h"

namespace foretrain {

/// Weight gradients that Transformer Engine keeps as throw-away buffers, one a distinct weight shape of the model's
/// layers, when it accumulates into fp32 gradients inside the product (TransformerEngine pull 1651). They live from the
/// first backward on, so for the step.
[[nodiscard]] Bytes throw_away_gradients(const Model& model, const Plan& plan, const Training& training);

/// Whether products add their weight gradients to fp32 ones themselves, as Transformer Engine's do.
[[nodiscard]] bool accumulates_in_product(const Training& training);

/// ZeRO 3: the gathered parameters of one layer, in the precision of its products.
[[nodiscard]] Bytes gathered_unit_bytes(const Model& model, const Plan& plan, const Training& training, LayerKind kind);
/// The same of embedding and output on global stage `stage`; they stay gathered for the step.
[[nodiscard]] Bytes gathered_ends_bytes(const Model& model, const Plan& plan, const Training& training,
                                        std::int64_t stage);
/// ZeRO 2 and 3: gradients of one layer in its backward, whole: as the products make them, and as the reduce-scatter
/// takes them.
[[nodiscard]] Bytes unit_gradient_bytes(const Model& model, const Plan& plan, const Training& training, LayerKind kind);

/// ZeRO 3 inside a pipeline: parameters of a stage stay gathered and its gradients accumulate unsharded over the
/// microbatches (PyTorch's schedules unshard once a step). Nothing without pipeline or below ZeRO 3.
[[nodiscard]] Bytes pipelined_shard_bytes(const Model& model, const Plan& plan, const Training& training,
                                          std::int64_t stage);

}  // namespace foretrain
