#include "workloads/cost/pieces.h"

namespace foretrain {
namespace {

constexpr double norm_bytes = 4;            ///< an element, forward: read and written in half precision
constexpr double gated_bytes = 6;           ///< gate and up read, product written
constexpr double gelu_bytes = 4;            ///< read and written
constexpr double backward_traffic = 2;      ///< backward reads the gradient and the saved value (fitted: twice)
constexpr double quantise_bytes = 0.6 * 4;  ///< an input element a product: scale, cast, transpose (fitted, fp8)
/// Scaled in blocks along the sum, the transposed copy is quantised apart (fitted with MXFP8; the others assumed).
constexpr double quantise_blocks = 1.3;

/// Casting the first operand of a product in fp8 or fp4, `columns` for each token; the weights are cast once a step,
/// which is not counted.
Duration quantise(const Pieces& p, const Linear& l, std::int64_t columns, Precision precision) {
  if (!quantised(precision)) return {};
  const bool whole = precision == Precision::fp8 && p.training.fp8_recipe == Fp8Recipe::tensor;
  const double bytes = quantise_bytes * (whole ? 1 : quantise_blocks);
  const double traffic = bytes * static_cast<double>(l.count * l.tokens) * static_cast<double>(columns);
  return seconds(traffic / static_cast<double>(p.gpu.memory_achieved.bytes_per_s()));
}

/// FSDP's products write half precision; its shards are added up after they are reduced.
bool accumulates(const Training& training) {
  return training.gradients == Precision::fp32 && training.stack.framework != Framework::fsdp;
}

Duration linear_forward(const Pieces& p, const Linear& l, Precision precision) {
  return gemm_time(p.gpu, {.m = l.tokens, .n = l.out, .k = l.in, .count = l.count}, precision) +
         quantise(p, l, l.in, precision);
}

/// dx = dy W^T
Duration linear_backward_input(const Pieces& p, const Linear& l, Precision precision) {
  return gemm_time(p.gpu, {.m = l.tokens, .n = l.in, .k = l.out, .count = l.count}, precision) +
         quantise(p, l, l.out, precision);
}

/// dW += x^T dy, into fp32 or half-precision gradients
Duration linear_backward_weight(const Pieces& p, const Linear& l, Precision precision) {
  const Gemm product{.m = l.out,
                     .n = l.in,
                     .k = l.tokens,
                     .count = l.count,
                     .accumulate_fp32 = accumulates(p.training),
                     .over_rows = true};
  return gemm_time(p.gpu, product, precision) + quantise(p, l, l.in, precision);
}

}  // namespace

Precision unquantised(Precision precision) { return quantised(precision) ? Precision::bf16 : precision; }

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
  return {.forward = forward_pieces * linear_forward(*this, one_of(forward_pieces), p),
          .backward_input = input_pieces * linear_backward_input(*this, one_of(input_pieces), p),
          .backward_weight = linear_backward_weight(*this, l, p)};
}

PartCost Pieces::unquantised_linear(const Linear& l) const {
  const Precision p = unquantised(training.precision);
  return {.forward = linear_forward(*this, l, p),
          .backward_input = linear_backward_input(*this, l, p),
          .backward_weight = linear_backward_weight(*this, l, p)};
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
