// Executed FLOPs: matrix products that a rank really computes, with its padding, its copies and what it plays again; 2
// FLOPs a multiply-add. The products of a forward have two gradients each in backward, so a backward has twice as many.
#pragma once

#include "workloads/plan.h"

namespace foretrain {

struct RankFlops {
  double linear = 0;     ///< products with weights
  double attention = 0;  ///< scores and values
  [[nodiscard]] double total() const { return linear + attention; }
};

/// Of one microbatch's forward through a layer, on one rank (the busiest, for experts).
[[nodiscard]] RankFlops layer_flops(const Model& model, const Plan& plan, const Training& training, LayerKind kind);
/// Of its output layer.
[[nodiscard]] double output_flops(const Model& model, const Plan& plan, const Training& training);
/// Of an MTP module without its layer and its logits.
[[nodiscard]] double mtp_flops(const Model& model, const Plan& plan, const Training& training);
/// What a layer's backward plays again, if the layer is among those that `full` recomputes.
[[nodiscard]] RankFlops recomputed_layer_flops(const Model& model, const Plan& plan, const Training& training,
                                               LayerKind kind);

/// Played again in a step, over all ranks. Attention is counted by `training.attention_flops`, so that the sum with
/// `step_flops` is what hardware FLOP utilisation counts.
[[nodiscard]] double recomputed_flops(const Model& model, const Plan& plan, const Training& training);

}  // namespace foretrain
