// Pieces that layers and ends are made of: the three products of a linear layer, and passes over memory.
#pragma once

#include "workloads/cost/layer.h"
#include "workloads/cost/shapes.h"

namespace foretrain {

[[nodiscard]] Duration linear_forward(const Gpu& gpu, const Linear& l, Precision precision);
/// dx = dy W^T
[[nodiscard]] Duration linear_backward_input(const Gpu& gpu, const Linear& l, Precision precision);
/// dW += x^T dy, into fp32 or half-precision gradients
[[nodiscard]] Duration linear_backward_weight(const Gpu& gpu, const Linear& l, Precision precision,
                                              Precision gradients);

/// What runs in bf16 in fp8 runs too: the output layer and the router.
[[nodiscard]] Precision unquantised(Precision precision);

/// A memory-bound pass over `elements`, `bytes` each for half precision; fp32 moves twice as much.
[[nodiscard]] Duration elementwise(const Gpu& gpu, std::int64_t elements, double bytes, Precision precision);

/// The same for a training, both ways. Passes move twice as much in backward.
struct Pieces {
  const Gpu& gpu;
  const Model& model;
  const Training& training;

  [[nodiscard]] PartCost linear(const Linear& l) const;
  /// The tokens cut into equal pieces, one kernel each, in the forward and for the input's gradient.
  [[nodiscard]] PartCost linear(const Linear& l, std::int64_t forward_pieces, std::int64_t input_pieces) const;
  [[nodiscard]] PartCost unquantised_linear(const Linear& l) const;
  /// `bytes` an element in half precision, forward.
  [[nodiscard]] PartCost pass(std::int64_t elements, double bytes) const;
  [[nodiscard]] PartCost norm(std::int64_t elements) const;
  [[nodiscard]] PartCost activation(std::int64_t elements) const;  ///< `elements` of its output
};

/// The mixture of experts of a layer.
[[nodiscard]] ExpertCost expert_cost(const Pieces& pieces, const Plan& plan, const Shard& shard,
                                     const ExpertShape& shape);

}  // namespace foretrain
