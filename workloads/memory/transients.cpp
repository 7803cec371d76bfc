#include "workloads/memory/transients.h"

#include <algorithm>

#include "workloads/memory/buffers.h"
#include "workloads/memory/layer_table.h"
#include "workloads/memory/loss.h"
#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// The input of a product with sequence parallelism, gathered; a group of one has nothing to gather.
std::int64_t gathered_input(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const bool gathered = s.sequence_tokens < s.tokens;
  return gathered ? activation_bytes(training.precision) * model.hidden * s.tokens : 0;
}

/// Gradients of the activation's inputs and of its output, and in a layer of experts of their tokens.
std::int64_t activation_gradients(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const Shard s = shard_of(model, plan, training);
  const std::int64_t e = activation_bytes(training.precision);
  if (!kind.experts) return e * (s.ffn_in + s.ffn) * s.tokens;
  const std::int64_t widths = (model.gated() ? 3 : 2) * model.experts->ffn_hidden / plan.etp + model.hidden;
  return e * widths * expert_tokens(model, plan, training);
}

}  // namespace

Bytes backward_transient(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  const Shard s = shard_of(model, plan, training);
  const std::int64_t input = activation_bytes(training.precision) * model.hidden * s.sequence_tokens;
  return bytes(activation_gradients(model, plan, training, kind) + input + gathered_input(model, plan, training));
}

Bytes recompute_transient(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  if (training.recompute == Recompute::none) return {};
  const std::int64_t whole = whole_table(model, plan, training, kind).total();
  if (training.recompute == Recompute::full) return bytes(whole);
  // A policy may keep what the whole table has no row for.
  return bytes(std::max<std::int64_t>(0, whole - kept_table(model, plan, training, kind).total()));
}

Bytes chunk_transient(const Model& model, const Plan& plan, const Training& training, const ChunkSpan& chunk) {
  const bool groups = training.recompute == Recompute::full && training.recompute_method == RecomputeMethod::uniform;
  const std::int64_t group = groups ? training.recompute_layers : 1;
  Bytes most;
  for (std::int64_t first = 0; first < chunk.layers; first += group) {
    Bytes again;
    Bytes backward;
    for (std::int64_t l = first; l < std::min(first + group, chunk.layers); ++l) {
      const LayerKind kind = model.kind_of(chunk.first_layer + l);
      backward = std::max(backward, backward_transient(model, plan, training, kind));
      if (training.recompute != Recompute::full || recomputes_layer(training, l))
        again += recompute_transient(model, plan, training, kind);
    }
    most = std::max(most, again + backward);
  }
  return most;
}

Bytes loss_transient(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const LogitBytes logit = logit_bytes(training.loss);
  return bytes((logit.forward - logit.kept) * s.tokens * s.vocabulary + gathered_input(model, plan, training));
}

Bytes output_backward_transient(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  const LogitBytes logit = logit_bytes(training.loss);
  const std::int64_t head = accumulates_in_product(training) ? 2 * s.vocabulary * model.hidden : 0;
  return bytes((logit.backward - logit.kept) * s.tokens * s.vocabulary + gathered_input(model, plan, training) + head);
}

}  // namespace foretrain
