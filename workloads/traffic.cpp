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
  const Shard s = shard_of(model, plan, training);
  const Bytes token = bytes(activation_bytes(training.precision) * model.hidden);
  if (plan.experts == ExpertExchange::all_gather) return token * s.sequence_tokens;
  const Bytes copies = token * s.sent_copies;
  return plan.expert_capacity > 0 ? bytes_rounded(static_cast<double>(copies.count()) * plan.expert_capacity) : copies;
}

Bytes pipeline_message(const Model& model, const Plan& plan, const Training& training) {
  const bool whole = !plan.sequence_parallel && !training.stack.scattered_messages;
  return bytes(activation_message(model, plan, training).count() / (whole ? 1 : plan.tp));
}

}  // namespace foretrain
