// Pieces that layers and ends are made of: the three products of a linear layer, and passes over memory.
#pragma once

#include "workloads/cost/layer.h"
#include "workloads/cost/shapes.h"

namespace foretrain {

/// What runs in bf16 in fp8 and fp4 runs too: the output layer and the router.
[[nodiscard]] Precision unquantised(Precision precision);

/// Pieces of a training on a GPU, both ways. Passes move twice as much in backward as in forward. Memory-bound traffic
/// is what docs/cost-model.md counts, times `traffic` (a stack's: what it leaves unfused).
struct Pieces {
  Pieces(const Gpu& g, const Model& m, const Training& t)
      : gpu(g), model(m), training(t), traffic(t.stack.memory_traffic) {}

  const Gpu& gpu;
  const Model& model;
  const Training& training;
  double traffic;

  /// The same pieces where tokens are routed, copied and sorted for experts.
  [[nodiscard]] Pieces for_experts() const;

  [[nodiscard]] PartCost linear(const Linear& l) const;
  /// The tokens cut into equal pieces, one kernel each, in the forward and for the input's gradient.
  [[nodiscard]] PartCost linear(const Linear& l, std::int64_t forward_pieces, std::int64_t input_pieces) const;
  [[nodiscard]] PartCost unquantised_linear(const Linear& l) const;

  /// A memory-bound kernel that moves `bytes`.
  [[nodiscard]] Duration moved(double bytes) const;
  /// One over `elements`, `bytes` each in half precision; fp32 moves twice as much.
  [[nodiscard]] Duration elementwise(std::int64_t elements, double bytes) const;
  /// The same as a forward with its backward.
  [[nodiscard]] PartCost pass(std::int64_t elements, double bytes) const;
  [[nodiscard]] PartCost norm(std::int64_t elements) const;
  [[nodiscard]] PartCost activation(std::int64_t elements) const;  ///< `elements` of its output
};

/// The mixture of experts of a layer.
[[nodiscard]] ExpertCost expert_cost(const Pieces& pieces, const Plan& plan, const Shard& shard,
                                     const ExpertShape& shape);

}  // namespace foretrain
