// What one transformer layer, the embedding and the output layer cost on one rank, cut where tensor-parallel
// collectives cut them. Times are of one microbatch on one rank of the TP group.
#pragma once

#include "workloads/cost/operators.h"

namespace foretrain {

/// The compute segments of one layer. Forward: attention part, then MLP part. With TP, a collective stands before and
/// after each (sequence parallel) or after each (without).
struct LayerCost {
  struct Block {
    Duration forward_before;       ///< norm (on the sequence shard with SP): before the gather
    Duration forward;              ///< GEMMs, attention or activation: between the collectives
    Duration forward_after;        ///< bias, dropout, residual: after the scatter or reduce
    Duration backward_before;      ///< gradient of residual and dropout
    Duration backward_input;       ///< input gradients, attention or activation backward
    Duration backward_weight_out;  ///< weight gradient of the second GEMM of the block (projection, FC2)
    Duration backward_weight_in;   ///< of the first GEMM (QKV, FC1): beside the input-gradient collective
    Duration backward_after;       ///< norm backward
    Duration recompute;            ///< selective: what is played again before backward_input
  };
  Block attention, mlp;
  [[nodiscard]] Duration forward() const;   ///< all compute of a forward
  [[nodiscard]] Duration backward() const;  ///< all compute of a backward, without recompute
};
[[nodiscard]] LayerCost layer_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training);

struct EndCost {
  Duration embedding_forward, embedding_backward;
  Duration output_forward, output_backward;  ///< final norm, logits, loss
};
[[nodiscard]] EndCost end_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training);

/// One optimizer update of `owned` parameters (after ZeRO sharding) beside `held` gradients (unscale, norm, clip).
[[nodiscard]] Duration optimizer_time(const Gpu& gpu, std::int64_t owned, std::int64_t held);

}  // namespace foretrain
