// LayerWriter: one layer's forward and backward on a track, with the collectives that tensor, sequence, context and
// expert parallelism put between its kernels (docs/parallelism.md). Internal to `generate`.
#pragma once

#include "workloads/program/experts.h"

namespace foretrain {

class LayerWriter {
 public:
  LayerWriter(const Stage& stage, Track& track);
  LayerWriter(const LayerWriter&) = delete;  // its parts refer to each other
  LayerWriter& operator=(const LayerWriter&) = delete;

  /// `work` and `label` say whether this is the forward or its repetition in backward.
  void forward(Work work, std::string_view label, Place where);
  /// The whole backward, recompute first.
  void backward(Place where);
  /// Its two halves, for schedules that split it: recompute and the gradient of the layer's input; the gradients of its
  /// matrices. They compute as long as the whole, but less is left to run beside their collectives.
  void backward_input(Place where);
  void backward_weight(Place where);
  /// A layer's forward and another one's whole backward, of two microbatches, as one block in which dispatch and
  /// combine of either run beside compute of the other (DeepSeek-V3, arXiv 2412.19437, figure 4; Megatron-Core's
  /// combined 1F1B).
  void forward_and_backward(Place forward, Place backward);
  /// A tensor-parallel collective of the whole activation that the next compute waits for.
  void exchange(Collective op, Place where);

 private:
  [[nodiscard]] bool has_experts(Place where) const;
  [[nodiscard]] const LayerCost& cost_of(Place where) const;
  /// Whether recompute ends before the MLP's second product.
  [[nodiscard]] bool prunes(Place where) const;
  [[nodiscard]] ProductPair attention(const LayerCost& c) const;
  [[nodiscard]] static ProductPair mlp(const LayerCost& c);
  void backward(Gradients gradients, Place where);
  void mlp_backward(const LayerCost& c, Gradients gradients, Place where);

  const Stage& stage_;
  TensorParallel tensor_;
  ContextParallel context_;
  ProductPairWriter pairs_;
  ExpertWriter experts_;
  Track& track_;
};

}  // namespace foretrain
