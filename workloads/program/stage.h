// Stage: what the writers of a pipeline rank's program know about it, and which of the model's pieces its chunks hold.
#pragma once

#include <numeric>
#include <vector>

#include "workloads/generate.h"
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
  std::int64_t rank = 0;

  [[nodiscard]] std::int64_t chunks() const { return in.plan.schedule.virtual_stages; }
  [[nodiscard]] std::int64_t stage_of(std::int32_t chunk) const { return chunk * in.plan.pp + rank; }
  [[nodiscard]] std::int64_t layers_of(std::int32_t chunk) const {
    return in.layers[static_cast<std::size_t>(stage_of(chunk))];
  }
  /// Of the whole model's layers, the first that the chunk holds.
  [[nodiscard]] std::int64_t first_layer(std::int32_t chunk) const {
    return std::accumulate(in.layers.begin(), in.layers.begin() + stage_of(chunk), std::int64_t{0});
  }
  [[nodiscard]] bool is_first(std::int32_t chunk) const { return stage_of(chunk) == 0; }
  [[nodiscard]] bool is_last(std::int32_t chunk) const { return stage_of(chunk) == in.plan.stages() - 1; }

  [[nodiscard]] bool tensor_parallel() const { return in.plan.tp > 1; }
  [[nodiscard]] bool sequence_parallel() const { return tensor_parallel() && in.plan.sequence_parallel; }
  [[nodiscard]] bool data_parallel() const { return in.plan.replicas() > 1; }

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
