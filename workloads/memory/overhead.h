// Overhead: what a GPU holds beside a program's tensors: the caching allocator's slack, CUDA context and kernels, and
// NCCL's channels.
#pragma once

#include "workloads/memory/parts.h"
#include "workloads/plan.h"

namespace foretrain {

/// What the allocator reserves beyond `allocated` bytes of tensors.
[[nodiscard]] Bytes allocator_slack(Bytes allocated, const Training& training);
/// CUDA context, kernels and NCCL: a constant, and a share for each kind of communicator that the plan has.
[[nodiscard]] Bytes device_bytes(const Model& model, const Plan& plan);
/// Both.
[[nodiscard]] Bytes overhead_bytes(Bytes allocated, const Model& model, const Plan& plan, const Training& training);

}  // namespace foretrain
