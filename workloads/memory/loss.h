// Bytes a logit takes, by how the loss works on it. Internal to workloads/memory.
#pragma once

#include "workloads/plan.h"

namespace foretrain {

struct LogitBytes {
  std::int64_t kept = 0;      ///< from the loss to its backward
  std::int64_t forward = 0;   ///< at the loss, in all
  std::int64_t backward = 0;  ///< in its backward, in all
};
/// - fused: in place on half-precision logits;
/// - unfused (Megatron, nanotron): logits 2, their fp32 copy 4, softmax 4, which is kept;
/// - eager (PyTorch): as before and the gradient, 12 live; the allocator cannot serve it from the freed blocks, which
///   comes to 14 (torchtitan's rows with no other large item);
/// - parallel (DTensor, over TP): one more fp32 copy.
[[nodiscard]] LogitBytes logit_bytes(LossKernel loss);

}  // namespace foretrain
