// Stage: what the writers of a pipeline rank's program know about it, and which of the model's pieces its chunks hold.
// Internal to `generate`.
#pragma once

#include <vector>

#include "workloads/generate.h"
#include "workloads/parameters.h"
#include "workloads/schedules/schedule.h"
#include "workloads/traffic.h"

namespace foretrain {

struct StageInput {
  const Model& model;
  const Plan& plan;
  const Training& training;
  const Gpu& gpu;
  const StageCost& cost;
  const std::vector<std::int64_t>& layers;  ///< by global stage
  bool optimizer = true;                    ///< also gradient exchange, norm, update
};

struct Stage {
  const StageInput& in;
  PipelineShape shape;
  std::int64_t rank = 0;

  [[nodiscard]] std::int32_t chunks() const { return static_cast<std::int32_t>(shape.chunks); }
  [[nodiscard]] std::int64_t stage_of(std::int32_t chunk) const { return foretrain::stage_of(shape, rank, chunk); }
  [[nodiscard]] std::int64_t layers_of(std::int32_t chunk) const {
    return in.layers[static_cast<std::size_t>(stage_of(chunk))];
  }
  /// Of the whole model's layers, the first that the chunk holds.
  [[nodiscard]] std::int64_t first_layer(std::int32_t chunk) const;
  [[nodiscard]] bool is_first(std::int32_t chunk) const { return stage_of(chunk) == 0; }
  [[nodiscard]] bool is_last(std::int32_t chunk) const { return stage_of(chunk) == stage_count(shape) - 1; }
  /// Of a layer of the whole model; those after the last are the MTP modules' (which are of the last one's kind).
  [[nodiscard]] LayerKind kind_of(std::int64_t layer) const { return in.model.kind_of(layer); }

  [[nodiscard]] bool tensor_parallel() const { return in.plan.tp > 1; }
  [[nodiscard]] bool sequence_parallel() const { return tensor_parallel() && in.plan.sequence_parallel; }

  /// A chunk's pieces in forward order: the embedding if it is the first, its layers, the output (with MTP modules) if
  /// it is the last. Gradients become complete and, fully sharded, parameters are gathered unit by unit.
  [[nodiscard]] std::vector<RankParameters> units(std::int32_t chunk) const;
  [[nodiscard]] std::size_t unit_of_layer(std::int32_t chunk, std::int64_t layer_in_chunk) const;
  [[nodiscard]] std::size_t unit_of_output(std::int32_t chunk) const;
  static constexpr std::size_t unit_of_embedding = 0;

  [[nodiscard]] static Place place(const Action& a, std::int64_t layer) {
    return {static_cast<std::int16_t>(a.microbatch), static_cast<std::int16_t>(a.chunk),
            static_cast<std::int16_t>(layer)};
  }
  [[nodiscard]] static Place place(const Action& a) {
    return {static_cast<std::int16_t>(a.microbatch), static_cast<std::int16_t>(a.chunk), Place::unset};
  }
  /// Of what belongs to a chunk as a whole.
  [[nodiscard]] static Place place(std::int32_t chunk) {
    return {Place::unset, static_cast<std::int16_t>(chunk), Place::unset};
  }
};

}  // namespace foretrain
