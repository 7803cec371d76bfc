#include "workloads/memory/overhead.h"

#include <algorithm>

#include "workloads/parameters.h"

namespace foretrain {
namespace {

/// Kinds of communicators that a rank is in. Their size does not matter: NCCL connects a rank to few peers.
std::int64_t communicator_kinds(const Model& model, const Plan& plan) {
  const bool kinds[] = {plan.tp > 1,
                        plan.cp > 1,
                        plan.replicas() > 1,
                        plan.hsdp_shard > 0,
                        plan.pp > 1,
                        !ends_on_one_rank(plan) && model.tied_embeddings,  // first and last stage
                        plan.tp * plan.pp > 1,  // all ranks of a replica, for the gradient norm
                        plan.etp > 1,
                        plan.ep > 1 && plan.expert_replicas() > 1};
  return std::count(std::begin(kinds), std::end(kinds), true);
}

}  // namespace

Bytes allocator_slack(Bytes allocated, const Training& training) {
  // Reserved over allocated: torchtitan 1.061, nanotron 1.074, SimuMax 1.05, Megatron Bridge 1.03 (medians).
  // DeepSpeed's 3D runs come out at 1.115 (66 rows of BigScience).
  const double slack = training.stack.framework == Framework::deepspeed ? 0.115 : 0.065;
  return bytes_rounded(slack * static_cast<double>(allocated.count()));
}

Bytes device_bytes(const Model& model, const Plan& plan) {
  // BigScience: 1573 MiB on A100 for context and kernels. NCCL: 544 to 688 MiB a communicator (nccl issue 964), some
  // 10 MiB a channel and connected peer; an all-to-all connects to everybody (3.3 GB on 8 H100, verl issue 6266).
  constexpr std::int64_t context = 1'650'000'000;
  constexpr std::int64_t communicator = 720'000'000;
  constexpr std::int64_t all_to_all = 3'300'000'000;
  return bytes(context + communicator * communicator_kinds(model, plan) + (plan.ep > 1 ? all_to_all : 0));
}

Bytes overhead_bytes(Bytes allocated, const Model& model, const Plan& plan, const Training& training) {
  return allocator_slack(allocated, training) + device_bytes(model, plan);
}

}  // namespace foretrain
