// generate: from (Model, Plan, Training, Gpu) to the Job that every rank runs in one step.
#pragma once

#include <array>
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

/// Durations that the generator asks for; tests put closed forms in their place.
struct StageCost {
  std::array<LayerCost, layer_kind_count> layers;  ///< by LayerKind::index()
  EndCost end;
  double slowdown = 1;  ///< that is in the above, and that the optimizer has too
  [[nodiscard]] const LayerCost& of(LayerKind kind) const { return layers[kind.index()]; }
};

struct Workload {
  Job job;
  std::vector<std::int64_t> layers;     ///< by global stage
  std::vector<std::uint32_t> stage_of;  ///< by rank: its pipeline rank
};

/// The cost model's durations, each `slowdown` (>= 1) times as long.
[[nodiscard]] StageCost stage_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training,
                                   double slowdown);

/// What synchronised ranks lose to the slowest of them: 1 + jitter * log2(nodes), the mean of a maximum over more and
/// more machines. `jitter` is a cluster's; fits to 26 published training stacks give 0.003 to 0.008.
[[nodiscard]] double straggler_slowdown(double jitter, std::size_t nodes);

/// Requires `check(...)` to be empty. Rank r sits on GPU r. `optimizer` = false leaves out optimizer, norm and gradient
/// exchange.
[[nodiscard]] Workload generate(const Model& model, const Plan& plan, const Training& training, const Gpu& gpu,
                                const StageCost& cost, bool optimizer);

}  // namespace foretrain
