// What one rank holds of a model's parameters, exactly, after the splits of tensor and expert parallelism and before
// ZeRO's.
//
//   stage_rank_parameters(model, plan, 0).dense;       // ZeRO spreads these over dp x cp
//   stage_rank_parameters(model, plan, 0).expert;      // and these over the ranks that hold the same experts
//
// Split as Megatron-Core does it. Over TP: QKV with its bias (where TP exceeds the KV heads, ranks hold copies of one),
// the projection, dense MLP and shared experts, MLA's up-projections, the padded vocabulary, attention sinks, the
// projection of an MTP module. Over EP x ETP: the routed experts. Whole on every TP rank: norms, biases behind a
// row-split matrix, router, the shared experts' gate, MLA's down-projections, learned positions.
#pragma once

#include <cstdint>

#include "workloads/plan.h"

namespace foretrain {

struct RankParameters {
  std::int64_t dense = 0;
  std::int64_t expert = 0;  ///< of the routed experts

  [[nodiscard]] std::int64_t total() const { return dense + expert; }
  RankParameters& operator+=(const RankParameters& other) {
    dense += other.dense;
    expert += other.expert;
    return *this;
  }
  friend RankParameters operator*(std::int64_t count, const RankParameters& one) {
    return {.dense = count * one.dense, .expert = count * one.expert};
  }
  friend bool operator==(const RankParameters&, const RankParameters&) = default;
};

/// Whether a pipeline rank holds both ends of the model, so that what they share is there once: without a pipeline, and
/// where schedules go there and back or from both ends.
[[nodiscard]] bool ends_on_one_rank(const Plan& plan);

[[nodiscard]] RankParameters layer_rank_parameters(const Model& model, const Plan& plan, LayerKind kind);
/// Of a layer, what is whole on every TP rank. With sequence parallelism each has the gradients of its own tokens.
[[nodiscard]] std::int64_t whole_layer_parameters(const Model& model, LayerKind kind);
/// Of the first stage: tokens, learned positions, the embedding's norm.
[[nodiscard]] RankParameters embedding_rank_parameters(const Model& model, const Plan& plan);
/// Of the last stage: final norm and head. A tied head is the embedding itself if both ends are on one rank, else
/// a copy.
[[nodiscard]] RankParameters output_rank_parameters(const Model& model, const Plan& plan);
/// Of the last stage: the MTP modules. They share embedding and head (DeepSeek-V3, section 2.2): if the
/// ends are on different ranks and no tied head is beside them, a copy of the token embedding is among these
/// parameters.
[[nodiscard]] RankParameters mtp_rank_parameters(const Model& model, const Plan& plan);

/// Everything on one rank of global stage `stage` (one model chunk).
[[nodiscard]] RankParameters stage_rank_parameters(const Model& model, const Plan& plan, std::int64_t stage);
/// Dense and expert together.
[[nodiscard]] std::int64_t stage_parameters(const Model& model, const Plan& plan, std::int64_t stage);

}  // namespace foretrain
