#include "workloads/traffic.h"

#include "workloads/shard.h"

namespace foretrain {

std::int64_t activation_bytes(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

std::int64_t gradient_bytes(const Training& training) { return training.gradients == Precision::fp32 ? 4 : 2; }

Bytes activation_message(const Model& model, const Plan& plan, const Training& training) {
  return bytes(activation_bytes(training.precision) * training.microbatch * training.sequence_length / plan.cp *
               model.hidden);
}

std::optional<Bytes> latent_message(const Model& model, const Plan& plan, const Training& training) {
  if (!model.latent) return std::nullopt;
  const LatentAttention& m = *model.latent;
  const std::int64_t query = m.query_rank > 0 ? m.query_rank : model.hidden;
  return bytes(activation_bytes(training.precision) * shard_of(model, plan, training).tokens *
               (query + m.kv_rank + m.rope_dim));
}

Bytes expert_message(const Model& model, const Plan& plan, const Training& training) {
  const std::int64_t tokens = shard_of(model, plan, training).sequence_tokens;
  const Bytes once = bytes(activation_bytes(training.precision) * tokens * model.hidden);
  if (plan.experts == ExpertExchange::all_gather) return once;
  const Bytes copies = once * model.experts->topk;
  return plan.expert_capacity > 0 ? bytes_rounded(static_cast<double>(copies.count()) * plan.expert_capacity) : copies;
}

Bytes pipeline_message(const Model& model, const Plan& plan, const Training& training) {
  return bytes(activation_message(model, plan, training).count() / plan.tp);
}

}  // namespace foretrain
