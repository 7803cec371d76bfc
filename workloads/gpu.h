// Gpu: the constants of one accelerator that the cost and memory models need. Peaks are data-sheet values; "achieved"
// rates are what long, large kernels reach (sources in scenarios/gpus/*.yaml).
#pragma once

#include <cstdint>
#include <string>

#include "topology/units.h"

namespace foretrain {

/// Gpu::contention where a GPU's file says nothing. Fitted in 2026 to published FSDP and data-parallel steps on A100,
/// H100 and TPUs, whose overlapped stretches last max + 0.57 min of what they overlap.
inline constexpr double usual_contention = 0.57;

struct Gpu {
  std::string name;
  FlopRate peak;           ///< bf16/fp16 dense, the MFU denominator
  FlopRate peak_fp8;       ///< 0 where there is none
  FlopRate peak_fp4 = {};  ///< the same
  FlopRate matmul;         ///< achieved by large bf16/fp16 GEMMs before shape effects
  FlopRate matmul_fp8;
  FlopRate matmul_fp4 = {};
  FlopRate flash_attention;  ///< achieved by long-sequence causal forward, counting the causal half
  Bandwidth memory;          ///< HBM, data sheet
  Bandwidth memory_achieved;
  Bytes memory_size;
  Bytes memory_usable;               ///< what the framework can allocate of it
  std::int64_t multiprocessors = 0;  ///< that share a product's tiles in waves; none where there is a matrix unit
  std::int64_t matrix_unit = 0;      ///< TPU: side of the systolic arrays, whole blocks of which a product takes
  /// Between two kernels of a stream: launch, ramp up and drain of the grid (fitted in 2026 to some 550 published
  /// training runs of CUDA GPUs).
  Duration launch_gap = microseconds(4.6);
  double host_time = 1;  ///< what launching takes on this GPU's host, over a usual x86 server
  /// Of its rate, what computation loses while a collective is in flight beside it: to the communication library's
  /// kernels on some multiprocessors and to their traffic in HBM.
  double contention = 0;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

}  // namespace foretrain
