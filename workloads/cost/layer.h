// What one transformer layer, the embedding and the output layer cost on one rank, cut where communication cuts them.
// Times are of one microbatch on one rank.
#pragma once

#include "workloads/cost/operators.h"

namespace foretrain {

/// A run of kernels that no communication interrupts.
struct PartCost {
  Duration forward;
  Duration backward_input;   ///< gradient of its input: all of its backward where it has no matrices
  Duration backward_weight;  ///< gradient of its matrices
  friend bool operator==(const PartCost&, const PartCost&) = default;
  friend PartCost operator+(const PartCost& a, const PartCost& b) {
    return {a.forward + b.forward, a.backward_input + b.backward_input, a.backward_weight + b.backward_weight};
  }
  [[nodiscard]] Duration backward() const { return backward_input + backward_weight; }
};

/// What stands in the place of the MLP's two products in a mixture of experts. Dispatch lies between `permute` and
/// `in`, combine between `out` and `unpermute`.
struct ExpertCost {
  PartCost router;     ///< scores, top-k, token counts
  PartCost permute;    ///< tokens copied into the order of their experts
  PartCost in;         ///< sorting what arrived by expert, grouped product, activation
  PartCost out;        ///< grouped product, sorting back
  PartCost unpermute;  ///< copies weighted and summed
  PartCost shared;     ///< the shared experts, whole: beside dispatch or combine where the stack has a stream for it
};

/// The parts of one layer in the order of its forward. With TP, a collective stands before and after each pair of
/// matrices (sequence parallel) or after it (without). A part is as long as all the pieces that the plan plays it in:
/// `core` is all cp steps of a ring, equally long but for what adds one step's output to the others'; with `overlap.tp`
/// products are cut as `product_pieces` says.
struct LayerCost {
  PartCost attention_norm;      ///< on the sequence shard with SP: before the gather
  PartCost down;                ///< MLA's products into latents and their norms, on the sequence shard with SP: the
                                ///< gather moves latents instead of `hidden`; else nothing
  PartCost qkv;                 ///< product(s) into heads, rotary positions
  PartCost core;                ///< attention proper
  PartCost projection;          ///< the product behind it
  PartCost attention_residual;  ///< bias, dropout, residual: after the scatter or reduce
  PartCost mlp_norm;
  PartCost mlp_in;   ///< FC1 (gate and up) and activation; nothing in a layer of experts
  PartCost mlp_out;  ///< FC2; nothing in a layer of experts
  PartCost mlp_residual;
  ExpertCost experts;  ///< nothing in a dense layer
  /// What selective recompute plays again before the backward of either half, from memory that it kept. Modules that
  /// need communication again (`mlp`, `experts`) are played as forward parts and are not in here; the attention core is
  /// (a plan with CP that plays it again with its exchange takes `core.forward` off).
  Duration attention_recompute, mlp_recompute;
  [[nodiscard]] Duration forward() const;   ///< all compute of a forward
  [[nodiscard]] Duration backward() const;  ///< all compute of a backward, without recompute
};
[[nodiscard]] LayerCost layer_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training,
                                   LayerKind kind = {});

struct EndCost {
  PartCost embedding;
  PartCost output;  ///< final norm, logits, loss
  PartCost mtp;     ///< of one MTP module: both norms and the projection of its inputs; its layer and logits apart
};
[[nodiscard]] EndCost end_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training);

/// One optimizer update of `owned` parameters (after ZeRO sharding) beside `held` gradients (unscale, norm, clip).
[[nodiscard]] Duration optimizer_time(const Gpu& gpu, std::int64_t owned, std::int64_t held);

/// Every duration of a cost, in a fixed order: to scale or to compare.
template <class Cost, class Visit>
void for_each_part(Cost& layer, const Visit& visit) requires requires {
  layer.attention_norm;
}
{
  for (auto* p :
       {&layer.attention_norm, &layer.down, &layer.qkv, &layer.core, &layer.projection, &layer.attention_residual,
        &layer.mlp_norm, &layer.mlp_in, &layer.mlp_out, &layer.mlp_residual, &layer.experts.router,
        &layer.experts.permute, &layer.experts.in, &layer.experts.out, &layer.experts.unpermute, &layer.experts.shared})
    visit(*p);
}

}  // namespace foretrain
