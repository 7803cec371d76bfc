// Pieces that layers and ends are made of: the three products of a linear layer, and a norm.
#pragma once

#include "workloads/cost/operators.h"
#include "workloads/shard.h"

namespace foretrain {

/// y[tokens, out] = x[tokens, in] W[in, out] on one rank.
struct Linear {
  std::int64_t tokens = 0, in = 0, out = 0;
};
[[nodiscard]] Duration linear_forward(const Gpu& gpu, const Linear& l, Precision precision);
/// dx = dy W^T
[[nodiscard]] Duration linear_backward_input(const Gpu& gpu, const Linear& l, Precision precision);
/// dW += x^T dy, into fp32 or half-precision gradients
[[nodiscard]] Duration linear_backward_weight(const Gpu& gpu, const Linear& l, Precision precision,
                                              Precision gradients);

/// A memory-bound pass over `elements`, `bytes` each for half precision; fp32 moves twice as much.
[[nodiscard]] Duration elementwise(const Gpu& gpu, std::int64_t elements, double bytes, Precision precision);

/// Norm over the sequence tokens of a rank: read and write in forward, twice that in backward.
[[nodiscard]] Duration norm_forward(const Gpu& gpu, const Model& model, const Shard& shard, Precision precision);
[[nodiscard]] Duration norm_backward(const Gpu& gpu, const Model& model, const Shard& shard, Precision precision);

}  // namespace foretrain
