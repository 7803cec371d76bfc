#include "workloads/traffic.h"

namespace foretrain {

std::int64_t activation_bytes(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

std::int64_t gradient_bytes(const Training& training) { return training.gradients == Precision::fp32 ? 4 : 2; }

Bytes activation_message(const Model& model, const Plan& plan, const Training& training) {
  return bytes(activation_bytes(training.precision) * training.microbatch * training.sequence_length / plan.cp *
               model.hidden);
}

Bytes pipeline_message(const Model& model, const Plan& plan, const Training& training) {
  return bytes(activation_message(model, plan, training).count() / plan.tp);
}

}  // namespace foretrain
