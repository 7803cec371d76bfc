// The embedding before the first layer, the output layer with its loss after the last, and what an MTP module has
// besides its layer.
#include "workloads/cost/layer.h"
#include "workloads/cost/pieces.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

// Counted from the kernels, bytes an element in half precision.
constexpr double lookup_bytes = 4;       ///< row read, written; other ranks' tokens are written as zeros
constexpr double position_bytes = 6;     ///< learned positions added: two reads, a write
constexpr double dropout_bytes = 5;      ///< read, written, mask
constexpr double scatter_bytes = 2 + 8;  ///< gradient read; its row read and written in fp32
constexpr double join_bytes = 4;         ///< two inputs written side by side: each read and written

struct LossBytes {
  double forward, backward;
};

/// Bytes a logit. Without fusion 14 in all is fitted; the split (cast, maximum and sum of exponentials; gradient in
/// place) is assumed, and that the kernels of all stacks without fusion move as much. Fused, in one kernel in place:
/// read for maximum and sum together, read again and the gradient written over it, and scaled in backward (Transformer
/// Engine's and Liger's cross entropy).
LossBytes loss_bytes(LossKernel loss) {
  if (loss == LossKernel::fused) return {.forward = 6, .backward = 4};
  return {.forward = 10, .backward = 4};
}

PartCost embedding_part(const Pieces& p, const Plan& plan, const Shard& s) {
  const Model& model = p.model;
  const std::int64_t after = s.sequence_tokens * model.hidden;  // behind the reduce of the vocabulary shards
  const auto both_ways = [&](double bytes) {
    return PartCost{.forward = p.elementwise(after, bytes), .backward_input = p.elementwise(after, bytes)};
  };
  PartCost cost{.forward = p.elementwise(s.tokens * model.hidden, lookup_bytes),
                .backward_input = p.elementwise(s.tokens / plan.tp * model.hidden, scatter_bytes)};
  if (model.positions == Positions::learned) cost = cost + both_ways(position_bytes);
  if (model.embedding_norm) cost = cost + p.norm(after);
  if (model.dropout) cost = cost + both_ways(dropout_bytes);
  return cost;
}

PartCost output_part(const Pieces& p, const Shard& s) {
  const auto logits = static_cast<double>(s.tokens * s.vocabulary);
  const LossBytes loss = loss_bytes(p.training.loss);
  const PartCost loss_part{.forward = p.moved(loss.forward * logits),
                           .backward_input = p.moved(loss.backward * logits)};
  return p.norm(s.sequence_tokens * p.model.hidden) + p.unquantised_linear(output_shape(p.model, s)) + loss_part;
}

/// DeepSeek-V3, section 2.2: norms of the last hidden state and of the next token's embedding, side by side, projected.
PartCost mtp_part(const Pieces& p, const Plan& plan, const Shard& s) {
  const std::int64_t elements = s.sequence_tokens * p.model.hidden;
  return p.norm(elements) + p.norm(elements) + p.pass(2 * elements, join_bytes) +
         p.linear(mtp_projection_shape(p.model, plan, s));
}

}  // namespace

EndCost end_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training) {
  const Pieces pieces{gpu, model, training};
  const Shard s = shard_of(model, plan, training);
  EndCost cost{.embedding = embedding_part(pieces, plan, s), .output = output_part(pieces, s)};
  if (model.mtp_layers > 0) cost.mtp = mtp_part(pieces, plan, s);
  return cost;
}

}  // namespace foretrain
