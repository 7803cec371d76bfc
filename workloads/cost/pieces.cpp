#include "workloads/cost/pieces.h"

namespace foretrain {
namespace {

constexpr double norm_bytes = 4;            ///< an element, forward: read and written in half precision
constexpr double backward_traffic = 2;      ///< backward reads the gradient and the saved value (fitted: twice)
constexpr double quantise_bytes = 0.6 * 4;  ///< an input element a product in fp8: scale, cast, transpose (fitted)

/// Casting the first operand of an fp8 product, [rows, columns]; the weights are cast once a step, which is not
/// counted.
Duration quantise(const Gpu& gpu, std::int64_t rows, std::int64_t columns, Precision precision) {
  if (precision != Precision::fp8) return {};
  const double traffic = quantise_bytes * static_cast<double>(rows) * static_cast<double>(columns);
  return seconds(traffic / static_cast<double>(gpu.memory_achieved.bytes_per_s()));
}

}  // namespace

Duration linear_forward(const Gpu& gpu, const Linear& l, Precision precision) {
  return gemm_time(gpu, {.m = l.tokens, .n = l.out, .k = l.in}, precision) + quantise(gpu, l.tokens, l.in, precision);
}

Duration linear_backward_input(const Gpu& gpu, const Linear& l, Precision precision) {
  return gemm_time(gpu, {.m = l.tokens, .n = l.in, .k = l.out}, precision) + quantise(gpu, l.tokens, l.out, precision);
}

Duration linear_backward_weight(const Gpu& gpu, const Linear& l, Precision precision, Precision gradients) {
  const Gemm product{.m = l.out, .n = l.in, .k = l.tokens, .accumulate_fp32 = gradients == Precision::fp32};
  return gemm_time(gpu, product, precision) + quantise(gpu, l.tokens, l.in, precision);
}

Duration elementwise(const Gpu& gpu, std::int64_t elements, double bytes, Precision precision) {
  const double width = precision == Precision::fp32 ? 2 : 1;
  return memory_bound_time(gpu, width * bytes * static_cast<double>(elements));
}

Duration norm_forward(const Gpu& gpu, const Model& model, const Shard& shard, Precision precision) {
  return elementwise(gpu, shard.sequence_tokens * model.hidden, norm_bytes, precision);
}

Duration norm_backward(const Gpu& gpu, const Model& model, const Shard& shard, Precision precision) {
  return elementwise(gpu, shard.sequence_tokens * model.hidden, backward_traffic * norm_bytes, precision);
}

}  // namespace foretrain
