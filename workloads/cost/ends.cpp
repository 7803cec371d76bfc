// The embedding before the first layer and the output layer with its loss after the last.
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
/// Bytes a logit: 14 in all is fitted; the split (cast, maximum and sum of exponentials; gradient in place) is assumed.
constexpr double loss_forward_bytes = 10;
constexpr double loss_backward_bytes = 4;

/// The output layer runs in bf16 in fp8 runs too.
Precision logits_precision(Precision precision) { return precision == Precision::fp8 ? Precision::bf16 : precision; }

}  // namespace

EndCost end_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const Precision precision = logits_precision(training.precision);
  const std::int64_t after = s.sequence_tokens * model.hidden;  // behind the reduce of the vocabulary shards
  const auto whole = [&](std::int64_t elements, double forward, double backward) {
    return PartCost{.forward = elementwise(gpu, elements, forward, precision),
                    .backward_input = elementwise(gpu, elements, backward, precision)};
  };
  EndCost cost;
  cost.embedding = {.forward = elementwise(gpu, s.tokens * model.hidden, lookup_bytes, precision),
                    .backward_input = elementwise(gpu, s.tokens / plan.tp * model.hidden, scatter_bytes, precision)};
  if (model.positions == Positions::learned)
    cost.embedding = cost.embedding + whole(after, position_bytes, position_bytes);
  if (model.dropout) cost.embedding = cost.embedding + whole(after, dropout_bytes, dropout_bytes);
  const Linear head{.tokens = s.tokens, .in = model.hidden, .out = s.vocabulary};
  const auto logits = static_cast<double>(s.tokens * s.vocabulary);
  cost.output.forward = norm_forward(gpu, model, s, precision) + linear_forward(gpu, head, precision) +
                        memory_bound_time(gpu, loss_forward_bytes * logits);
  cost.output.backward_input = memory_bound_time(gpu, loss_backward_bytes * logits) +
                               linear_backward_input(gpu, head, precision) + norm_backward(gpu, model, s, precision);
  cost.output.backward_weight = linear_backward_weight(gpu, head, precision, training.gradients);
  return cost;
}

}  // namespace foretrain
