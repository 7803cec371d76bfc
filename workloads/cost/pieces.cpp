#include "workloads/cost/pieces.h"

namespace foretrain {
namespace {

constexpr double norm_bytes = 4;            ///< an element, forward: read and written in half precision
constexpr double gated_bytes = 6;           ///< gate and up read, product written
constexpr double gelu_bytes = 4;            ///< read and written
constexpr double backward_traffic = 2;      ///< backward reads the gradient and the saved value (fitted: twice)
constexpr double quantise_bytes = 0.6 * 4;  ///< an input element a product in fp8: scale, cast, transpose (fitted)

/// Casting the first operand of an fp8 product, `columns` for each token; the weights are cast once a step, which is
/// not counted.
Duration quantise(const Gpu& gpu, const Linear& l, std::int64_t columns, Precision precision) {
  if (precision != Precision::fp8) return {};
  const double traffic = quantise_bytes * static_cast<double>(l.count * l.tokens) * static_cast<double>(columns);
  return seconds(traffic / static_cast<double>(gpu.memory_achieved.bytes_per_s()));
}

Duration linear_forward(const Gpu& gpu, const Linear& l, Precision precision) {
  return gemm_time(gpu, {.m = l.tokens, .n = l.out, .k = l.in, .count = l.count}, precision) +
         quantise(gpu, l, l.in, precision);
}

/// dx = dy W^T
Duration linear_backward_input(const Gpu& gpu, const Linear& l, Precision precision) {
  return gemm_time(gpu, {.m = l.tokens, .n = l.in, .k = l.out, .count = l.count}, precision) +
         quantise(gpu, l, l.out, precision);
}

/// dW += x^T dy, into fp32 or half-precision gradients
Duration linear_backward_weight(const Gpu& gpu, const Linear& l, Precision precision, Precision gradients) {
  const Gemm product{.m = l.out,
                     .n = l.in,
                     .k = l.tokens,
                     .count = l.count,
                     .accumulate_fp32 = gradients == Precision::fp32,
                     .over_rows = true};
  return gemm_time(gpu, product, precision) + quantise(gpu, l, l.in, precision);
}

}  // namespace

Precision unquantised(Precision precision) { return precision == Precision::fp8 ? Precision::bf16 : precision; }

Pieces Pieces::for_experts() const {
  Pieces pieces = *this;
  pieces.traffic = training.stack.expert_traffic;
  return pieces;
}

PartCost Pieces::linear(const Linear& l) const { return linear(l, 1, 1); }

PartCost Pieces::linear(const Linear& l, std::int64_t forward_pieces, std::int64_t input_pieces) const {
  const Precision p = training.precision;
  const auto one_of = [&](std::int64_t n) {
    Linear piece = l;
    piece.tokens = (l.tokens + n - 1) / n;
    return piece;
  };
  return {.forward = forward_pieces * linear_forward(gpu, one_of(forward_pieces), p),
          .backward_input = input_pieces * linear_backward_input(gpu, one_of(input_pieces), p),
          .backward_weight = linear_backward_weight(gpu, l, p, training.gradients)};
}

PartCost Pieces::unquantised_linear(const Linear& l) const {
  const Precision p = unquantised(training.precision);
  return {.forward = linear_forward(gpu, l, p),
          .backward_input = linear_backward_input(gpu, l, p),
          .backward_weight = linear_backward_weight(gpu, l, p, training.gradients)};
}

Duration Pieces::moved(double bytes) const { return memory_bound_time(gpu, traffic * bytes); }

Duration Pieces::elementwise(std::int64_t elements, double bytes) const {
  const double width = training.precision == Precision::fp32 ? 2 : 1;
  return moved(width * bytes * static_cast<double>(elements));
}

PartCost Pieces::pass(std::int64_t elements, double bytes) const {
  return {.forward = elementwise(elements, bytes), .backward_input = elementwise(elements, backward_traffic * bytes)};
}

PartCost Pieces::norm(std::int64_t elements) const { return pass(elements, norm_bytes); }

PartCost Pieces::activation(std::int64_t elements) const {
  return pass(elements, model.gated() ? gated_bytes : gelu_bytes);
}

}  // namespace foretrain
