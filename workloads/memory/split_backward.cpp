#include "workloads/memory/split_backward.h"

#include "workloads/memory/layer_table.h"
#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {

Bytes waiting_for_weight_gradients(const Model& model, const Plan& plan, const Training& training,
                                   const ChunkSpan& chunk) {
  Bytes sum;
  for (std::int64_t l = 0; l < chunk.layers; ++l)
    sum += bytes(weight_operands(model, plan, training, model.kind_of(chunk.first_layer + l)));
  return sum;
}

bool has_late_output_gradient(const Plan& plan, const Training& training) {
  return training.stack.late_output_gradient && plan.pp > 1 && plan.zero < 2;
}

Bytes waiting_for_output_gradient(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  return bytes(activation_bytes(training.precision) * (model.hidden * s.sequence_tokens + s.vocabulary * s.tokens));
}

}  // namespace foretrain
