// Operator costs: how long a GEMM, an attention or a memory-bound kernel takes on a GPU.
//
// A kernel is the larger of its arithmetic at the achieved rate for its shape and its traffic at the achieved memory
// rate, plus a launch gap. Formulas and constants: ../docs/cost-model.md; each constant carries unit and source.
#pragma once

#include "workloads/gpu.h"
#include "workloads/plan.h"

namespace foretrain {

/// C[m,n] = A[m,k] B[k,n], `count` of them in one batched kernel. Accumulating adds reading and writing C in fp32.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
  bool accumulate_fp32 = false;
  bool over_rows = false;  ///< a weight gradient, which sums over the rows (tokens) of both inputs
  [[nodiscard]] double flops() const;
};
[[nodiscard]] Duration gemm_time(const Gpu& gpu, const Gemm& gemm, Precision precision);

/// One kernel of the self-attention core of a microbatch on one rank: `heads` query heads.
struct Attention {
  std::int64_t batch = 0, query_length = 0, key_length = 0;
  double keys_met = 0;  ///< of the keys, that a query needs on average: half of them in a causal square
  std::int64_t heads = 0, kv_heads = 0, qk_dim = 0, value_dim = 0;
  AttentionKernel kernel = AttentionKernel::flash;
  bool dropout = false;
  double rate = 1;  ///< of flash, over the GPU's
  /// What a forward executes: of the square, flash only what is met.
  [[nodiscard]] double flops() const;
};
[[nodiscard]] Duration attention_forward_time(const Gpu& gpu, const Attention& attention);
[[nodiscard]] Duration attention_backward_time(const Gpu& gpu, const Attention& attention);

/// A kernel that only moves `traffic` bytes through HBM.
[[nodiscard]] Duration memory_bound_time(const Gpu& gpu, double traffic_bytes);

}  // namespace foretrain
