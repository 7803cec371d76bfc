// A training step of many ranks, for the player and for folding: GPipe over 8 stages, 8 tensor-parallel ranks.
#pragma once

#include <cstdint>

#include "sim/program.h"

namespace foretrain::bench {

/// How the step is cut; rank = t + tp (d + dp p).
struct StepShape {
  std::uint32_t tp = 8;
  std::uint32_t pp = 8;
  std::uint32_t dp = 16;
  std::uint32_t layers = 32;  ///< a multiple of pp
  std::uint32_t microbatches = 8;

  [[nodiscard]] std::uint32_t ranks() const { return tp * pp * dp; }
  [[nodiscard]] std::uint32_t layers_per_stage() const { return layers / pp; }
};

/// The shape on so many ranks: `dp` grows. A power of two from 16 on; below 64, with fewer stages.
[[nodiscard]] StepShape step_on(std::uint32_t ranks);

/// A layer has two halves, attention and MLP, each a computation and an all-reduce of the tensor-parallel group. Sizes
/// are those of a hidden width of 8,192 and microbatches of 2,048 tokens in 2 bytes on tp 8: 12 * 8192^2 weights a
/// layer, and 206 GFLOP a rank for half a layer forward, twice that backward, here at 400 TFLOP/s.
struct StepSizes {
  Duration half_forward = microseconds(515);
  Duration half_backward = microseconds(1030);
  Duration optimizer = milliseconds(1);
  Bytes activations = mebibytes(32);  ///< all-reduced over tp
  Bytes boundary = mebibytes(4);      ///< sent to the next stage: a tp-th of them
  Bytes gradients = mebibytes(192);   ///< of a layer on one rank, all-reduced over dp
};

/// All forward passes, then all backward passes. The gradients of a layer are all-reduced beside the rest of the last
/// backward pass; the optimizer waits for all of them.
[[nodiscard]] Job gpipe_step(const StepShape& shape, const StepSizes& sizes = {});

}  // namespace foretrain::bench
