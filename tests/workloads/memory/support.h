// What the tests of the memory model share.
#pragma once

#include "tests/workloads/gpus.h"
#include "workloads/memory.h"

namespace foretrain {

/// Megatron-LM of 2022: half-precision gradients, unfused attention.
inline Training megatron_2022(std::int64_t microbatch) {
  return {.sequence_length = 2048,
          .global_batch = microbatch,
          .microbatch = microbatch,
          .precision = Precision::fp16,
          .attention = AttentionKernel::unfused};
}

struct Symbols {
  double s, b, h, a, t;
};
inline Symbols symbols(const Model& m, const Plan& p, const Training& t) {
  return {static_cast<double>(t.sequence_length), static_cast<double>(t.microbatch), static_cast<double>(m.hidden),
          static_cast<double>(m.heads), static_cast<double>(p.tp)};
}

inline double counted(Bytes b) { return static_cast<double>(b.count()); }

}  // namespace foretrain
