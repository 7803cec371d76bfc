#include "workloads/memory/split_backward.h"

#include "workloads/memory/layer_table.h"

namespace foretrain {

Bytes waiting_for_weight_gradients(const Model& model, const Plan& plan, const Training& training,
                                   const ChunkSpan& chunk) {
  Bytes sum;
  for (std::int64_t l = 0; l < chunk.layers; ++l)
    sum += bytes(weight_operands(model, plan, training, model.kind_of(chunk.first_layer + l)));
  return sum;
}

}  // namespace foretrain
