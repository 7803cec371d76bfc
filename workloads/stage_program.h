// The program of one pipeline rank: its schedule's actions, each turned into compute on the main stream, collectives on
// the "tp" and "dp" streams, pipeline messages on a stream a direction, and memory changes. Internal to `generate`.
#pragma once

#include "sim/program.h"
#include "workloads/generate.h"
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

[[nodiscard]] Program stage_program(const StageInput& in, std::int64_t pipeline_rank);

}  // namespace foretrain
