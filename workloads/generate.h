// generate: from (Model, Plan, Training, Gpu) to the Job that every rank runs in one step.
#pragma once

#include <vector>

#include "sim/program.h"
#include "workloads/cost/layer.h"
#include "workloads/memory.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {

/// Activities and dimensions of the generated job, in this order.
enum class Work : std::uint8_t { compute, recompute, optimizer, other };
enum class Traffic : std::uint8_t { tp, cp, ep, dp, pp, other };
[[nodiscard]] std::string_view to_text(Work work);
[[nodiscard]] std::string_view to_text(Traffic traffic);

/// Durations that the generator asks for, so that tests can put closed forms in their place.
struct StageCost {
  LayerCost layer;
  EndCost end;
};

struct Workload {
  Job job;
  std::vector<std::int64_t> layers;      ///< by global stage
  std::vector<std::uint32_t> stage_of;   ///< by rank: its pipeline rank
};

/// Requires `check(...)` to be empty. Rank r sits on GPU r.
[[nodiscard]] Workload generate(const Model& model, const Plan& plan, const Training& training, const Gpu& gpu);
/// The same with given costs: `optimizer` = false leaves out optimizer, norm and gradient exchange.
[[nodiscard]] Workload generate(const Model& model, const Plan& plan, const Training& training, const Gpu& gpu,
                                const StageCost& cost, bool optimizer);

}  // namespace foretrain
