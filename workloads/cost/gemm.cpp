// Matrix products. Shape effects of GPUs after NVIDIA's "Matrix Multiplication Background User's Guide": the output is
// cut into tiles, tiles run in waves of one a multiprocessor, and each tile has a prologue and epilogue that a short K
// shows. A TPU holds a block of one matrix in a systolic array and streams the rows of the other past it.
#include <algorithm>
#include <cmath>

#include "workloads/cost/operators.h"

namespace foretrain {
namespace {

/// An output tile and the rate that it reaches, relative to the larger tile (cuBLAS's usual pair; 0.93 is assumed).
struct Tile {
  std::int64_t rows, columns;
  double rate;
};
constexpr Tile tiles[] = {{128, 256, 1.0}, {128, 128, 0.93}};

constexpr double wave_exponent = 0.74;        ///< below 1: a half-empty GPU clocks higher and shares less (fitted)
constexpr double short_k = 240;               ///< elements of K that prologue and epilogue cost (fitted)
constexpr std::int64_t aligned = 64;          ///< elements: 128 bytes, one cache line, in half precision
constexpr double misaligned_rate = 1 - 0.26;  ///< where a row in memory is not a multiple of `aligned` (fitted)
constexpr double accumulate_shown = 0.65;     ///< part of the fp32 accumulation's traffic not hidden (fitted)
constexpr double tf32_rate = 0.5;             ///< of bf16's: the data sheets of A100, H100 and B200 agree

FlopRate large_rate(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::fp4:
      return gpu.matmul_fp4.per_second() > 0 ? gpu.matmul_fp4 : large_rate(gpu, Precision::fp8);
    case Precision::fp8:
      return gpu.matmul_fp8.per_second() > 0 ? gpu.matmul_fp8 : gpu.matmul;
    case Precision::fp32:
      return flops_per_second(tf32_rate * gpu.matmul.per_second());
    case Precision::bf16:
    case Precision::fp16:
      return gpu.matmul;
  }
  return gpu.matmul;
}

double input_bytes(Precision precision) {
  switch (precision) {
    case Precision::fp4:
      return 0.5 + 1.0 / 16;  // a scale of a byte for 16 elements
    case Precision::fp8:
      return 1;
    case Precision::fp32:
      return 4;
    case Precision::bf16:
    case Precision::fp16:
      return 2;
  }
  return 2;
}

/// The same time at twice the rate, and at four times (assumed).
double short_k_of(Precision precision) {
  switch (precision) {
    case Precision::fp4:
      return 4 * short_k;
    case Precision::fp8:
      return 2 * short_k;
    case Precision::fp32:
    case Precision::bf16:
    case Precision::fp16:
      return short_k;
  }
  return short_k;
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Useful part of the tile slots that the waves offer: a last wave half empty and tiles over the edge both lower it.
double wave_fill(const Gpu& gpu, const Gemm& g, const Tile& tile) {
  const std::int64_t covered = divided_up(g.m, tile.rows) * divided_up(g.n, tile.columns) * g.count;
  const auto slots = static_cast<double>(divided_up(covered, gpu.multiprocessors) * gpu.multiprocessors);
  const double useful = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.count) /
                        static_cast<double>(tile.rows * tile.columns);
  return useful / slots;
}

/// Useful part of the blocks of the matrix that stays in a systolic array.
double array_fill(const Gpu& gpu, const Gemm& g) {
  const auto padded = [&](std::int64_t width) {
    return static_cast<double>(divided_up(width, gpu.matrix_unit) * gpu.matrix_unit);
  };
  return static_cast<double>(g.n) / padded(g.n) * (static_cast<double>(g.k) / padded(g.k));
}

/// Rate for this shape over the rate of a large, aligned product.
double shape_efficiency(const Gpu& gpu, const Gemm& g, Precision precision) {
  if (gpu.matrix_unit > 0) return array_fill(gpu, g);
  double best = 0;
  for (const Tile& tile : tiles) best = std::max(best, tile.rate * std::pow(wave_fill(gpu, g, tile), wave_exponent));
  const std::int64_t input_row = g.over_rows ? g.m : g.k;  // the number of tokens is the length of no row
  const bool misaligned = g.n % aligned != 0 || input_row % aligned != 0;
  return best / (1 + short_k_of(precision) / static_cast<double>(g.k)) * (misaligned ? misaligned_rate : 1);
}

}  // namespace

double Gemm::flops() const {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(count);
}

Duration gemm_time(const Gpu& gpu, const Gemm& g, Precision precision) {
  const auto m = static_cast<double>(g.m);
  const auto n = static_cast<double>(g.n);
  const auto k = static_cast<double>(g.k);
  const auto count = static_cast<double>(g.count);
  const auto memory = static_cast<double>(gpu.memory_achieved.bytes_per_s());
  // The product itself comes out in bf16 (fp32 for fp32); accumulation reads and writes 4 bytes an element instead.
  const double product = g.accumulate_fp32 ? 8 : std::max(input_bytes(precision), 2.0);
  const double inputs_s = count * input_bytes(precision) * (m * k + k * n) / memory;
  const double output_s = count * product * m * n / memory;
  const double arithmetic_s =
      g.flops() / (large_rate(gpu, precision).per_second() * shape_efficiency(gpu, g, precision)) +
      (g.accumulate_fp32 ? accumulate_shown * output_s : 0);
  return seconds(std::max(arithmetic_s, inputs_s + output_s)) + gpu.launch_gap;
}

}  // namespace foretrain
