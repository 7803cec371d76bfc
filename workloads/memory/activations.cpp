#include "workloads/memory/activations.h"

#include <numeric>

#include "workloads/memory/layer_table.h"
#include "workloads/memory/loss.h"
#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

std::int64_t sequence_bytes(const Model& model, const Plan& plan, const Training& training) {
  return activation_bytes(training.precision) * model.hidden * shard_of(model, plan, training).sequence_tokens;
}

}  // namespace

Bytes layer_activations(const Model& model, const Plan& plan, const Training& training, LayerKind kind) {
  if (training.recompute == Recompute::full) return bytes(sequence_bytes(model, plan, training));
  return bytes(kept_table(model, plan, training, kind).total());
}

Bytes embedding_activations(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  return bytes(model.dropout ? model.hidden * s.sequence_tokens : 0);  // the mask, 1 byte an element
}

Bytes output_activations(const Model& model, const Plan& plan, const Training& training) {
  const Shard s = shard_of(model, plan, training);
  return bytes(2 * sequence_bytes(model, plan, training) + logit_bytes(training.loss).kept * s.tokens * s.vocabulary);
}

Bytes mtp_activations(const Model& model, const Plan& plan, const Training& training) {
  if (model.mtp_layers == 0) return {};
  // Two norms, of the last hidden state and of the next token's embedding; their outputs side by side are the input of
  // the projection (DeepSeek-V3, arXiv 2412.19437, section 2.2).
  const Bytes inputs = bytes(4 * sequence_bytes(model, plan, training));
  const LayerKind kind = model.kind_of(model.layers - 1);
  const bool whole = training.recompute == Recompute::full && !recomputes_mtp(training);
  const Bytes layer =
      whole ? bytes(whole_table(model, plan, training, kind).total()) : layer_activations(model, plan, training, kind);
  return model.mtp_layers * (inputs + layer + output_activations(model, plan, training));
}

ChunkSpan chunk_span(const std::vector<std::int64_t>& layers_by_stage, std::int64_t stage) {
  const auto here = layers_by_stage.begin() + static_cast<std::ptrdiff_t>(stage);
  return {.first_layer = std::accumulate(layers_by_stage.begin(), here, std::int64_t{0}),
          .layers = *here,
          .is_first = stage == 0,
          .is_last = here + 1 == layers_by_stage.end()};
}

bool recomputes_layer(const Training& training, std::int64_t layer) {
  if (training.recompute != Recompute::full) return false;
  return training.recompute_method == RecomputeMethod::uniform || layer < training.recompute_layers;
}

bool recomputes_mtp(const Training& training) {
  return training.recompute == Recompute::full && training.recompute_method == RecomputeMethod::uniform;
}

Bytes chunk_activations(const Model& model, const Plan& plan, const Training& training, const ChunkSpan& chunk) {
  const bool groups = training.recompute == Recompute::full && training.recompute_method == RecomputeMethod::uniform;
  Bytes sum;
  for (std::int64_t l = 0; l < chunk.layers; ++l) {
    const LayerKind kind = model.kind_of(chunk.first_layer + l);
    if (groups && l % training.recompute_layers != 0) continue;  // inside a group
    const bool whole = training.recompute == Recompute::full && !recomputes_layer(training, l);
    sum += whole ? bytes(whole_table(model, plan, training, kind).total())
                 : layer_activations(model, plan, training, kind);
  }
  if (chunk.is_first) sum += embedding_activations(model, plan, training);
  if (chunk.is_last) sum += output_activations(model, plan, training) + mtp_activations(model, plan, training);
  return sum;
}

}  // namespace foretrain
