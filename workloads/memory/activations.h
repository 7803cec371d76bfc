// Activations: what a layer, a chunk of the model, its embedding and its output keep of one microbatch on one rank from
// forward to backward. docs/memory.md has the table.
#pragma once

#include "workloads/memory/parts.h"
#include "workloads/plan.h"

namespace foretrain {

/// Kept for backward by one layer (Korthikanti 2022, section 4, plus flash attention, SwiGLU, latent attention and
/// experts): sbh(34 + 5as/h) unfused, sbh(10 + 24/t + 5as/(ht)) with TP, (34 + 5as/h)sbh/t with SP. With full recompute
/// the layer's input.
[[nodiscard]] Bytes layer_activations(const Model& model, const Plan& plan, const Training& training,
                                      LayerKind kind = {});

/// Kept by the embedding: its dropout mask.
[[nodiscard]] Bytes embedding_activations(const Model& model, const Plan& plan, const Training& training);
/// Kept from the loss to its backward: final norm, input of the head, and what the loss saves of the logits.
[[nodiscard]] Bytes output_activations(const Model& model, const Plan& plan, const Training& training);
/// Kept by the MTP modules: a layer each, the norms and the projection of their inputs, and an output.
[[nodiscard]] Bytes mtp_activations(const Model& model, const Plan& plan, const Training& training);

/// Layers of one model chunk, and the ends it has.
struct ChunkSpan {
  std::int64_t first_layer = 0;  ///< of the model's
  std::int64_t layers = 0;
  bool is_first = false;  ///< holds the embedding
  bool is_last = false;   ///< holds the output
};
[[nodiscard]] ChunkSpan chunk_span(const std::vector<std::int64_t>& layers_by_stage, std::int64_t stage);

/// All that a chunk keeps of a microbatch. Full recompute by groups (`uniform`) keeps the input of each group of
/// `recompute_layers`; `block` recomputes the first `recompute_layers` of the chunk and keeps the rest whole.
[[nodiscard]] Bytes chunk_activations(const Model& model, const Plan& plan, const Training& training,
                                      const ChunkSpan& chunk);

/// Whether `layer` (of the chunk, from 0) is played again in backward.
[[nodiscard]] bool recomputes_layer(const Training& training, std::int64_t layer);
/// Whether the layers of MTP modules are: with `uniform`; Megatron-Core leaves them out of `block`.
[[nodiscard]] bool recomputes_mtp(const Training& training);

}  // namespace foretrain
