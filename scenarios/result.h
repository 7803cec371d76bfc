// Result: what a rehearsal answers. A plain value; printing is elsewhere (tools/output).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/simulate.h"
#include "workloads/generate.h"
#include "workloads/memory.h"

namespace foretrain {

/// The step of one rank, or the mean over ranks; seconds, adds up to the step.
struct Breakdown {
  double compute = 0, recompute = 0, tp = 0, cp = 0, ep = 0, dp = 0, pp = 0, bubble = 0, optimizer = 0, other = 0;
  [[nodiscard]] double total() const;
};

/// Bytes by MemoryPart.
using PartBytes = std::array<std::int64_t, std::size(all_memory_parts)>;

struct StageResult {
  std::int64_t stage = 0;   ///< pipeline rank
  std::int64_t layers = 0;  ///< transformer layers on it
  double compute_s = 0;     ///< compute and recompute, mean over its ranks
  double bubble_s = 0;
  std::int64_t peak_memory_bytes = 0;
  double peak_at_s = 0;     ///< when its fullest rank holds most
  PartBytes parts_bytes{};  ///< of that rank then
};

struct MemoryResult {
  bool fits = true;  ///< the verdict is another than "does not fit"
  Verdict verdict = Verdict::fits;
  double pressure = 0;  ///< peak over capacity
  std::int64_t peak_bytes = 0;
  std::int64_t capacity_bytes = 0;
  std::int64_t peak_stage = 0;
  double peak_at_s = 0;
  PartBytes parts_bytes{};
};

/// What the GPUs of one kind did.
struct GpuKindResult {
  std::string gpu;
  std::int64_t gpus = 0;
  double compute_s = 0;  ///< compute and recompute, mean over its ranks
  std::int64_t peak_memory_bytes = 0;
  std::int64_t capacity_bytes = 0;
};

struct CommunicationResult {
  std::string dimension, op;
  double calls = 0;      ///< per rank that makes them
  double bytes = 0;      ///< message per call and rank
  double time_s = 0;     ///< per rank, in flight
  double exposed_s = 0;  ///< per rank, main stream waiting for bytes in flight
  double busbw_Bps = 0;
  double slowdown = 1;  ///< time over time on an idle network
};

struct TierResult {
  std::string tier;
  std::int64_t links = 0;
  double bytes = 0;
  double mean_utilization = 0;  ///< over all its links and the whole step
  double max_utilization = 0;   ///< of its busiest link, over the whole step
};

struct HotLink {
  std::string from, to, tier;
  double utilization = 0;
  double saturated_s = 0;
};

struct EngineResult {
  std::uint64_t ranks = 0;
  std::uint64_t rank_classes = 0;        ///< that were played, one rank each
  std::vector<std::string> asymmetries;  ///< why there are more of them than programs
  std::uint64_t events = 0, operations = 0;
  double wall_s = 0;  ///< the only two values that differ from run to run
  std::uint64_t peak_rss_bytes = 0;
};

struct Result {
  Scenario scenario;
  double step_time_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  /// MFU and HFU: of the sum of all GPUs' peaks.
  double model_tflops_per_gpu = 0, mfu = 0, hfu = 0, hardware_tflops_per_gpu = 0, bubble_fraction = 0;
  Breakdown breakdown;  ///< mean over ranks
  double slowed_s = 0;  ///< of compute, recompute and optimizer: what communication beside them cost, mean over ranks
  std::vector<StageResult> stages;
  std::vector<GpuKindResult> gpu_kinds;  ///< by group of the cluster; one where it is not mixed
  MemoryResult memory;                   ///< of the rank with the least room left, or most lacking
  std::vector<CommunicationResult> communication;
  std::vector<TierResult> tiers;
  std::vector<HotLink> hottest;  ///< the busiest links, busiest first
  EngineResult engine;

  /// What the trace needs; null unless the rehearsal was asked to trace.
  struct Timeline {
    Workload workload;
    std::vector<RankId> ranks;                             ///< traced: one a pipeline stage
    std::vector<std::vector<TracedOperation>> operations;  ///< in the order of `ranks`
    std::vector<TierTimeline> tiers;
    std::vector<std::string> tier_names;
    Duration step;
    std::int64_t overhead_bytes = 0;  ///< constant part on top of the tensors
  };
  std::shared_ptr<const Timeline> timeline;
};

struct RehearseOptions {
  bool trace = false;
  bool fold = true;                      ///< play ranks that do the same once; same answers
  std::function<void(double)> progress;  ///< part of the simulation done, 0 to 1
};

/// Builds the fabric and the job and simulates: by rank and by link what `rehearse` sums up. Throws Deadlock.
[[nodiscard]] Measured measure(const Scenario& scenario, const RehearseOptions& options = {});

/// Measures and sums up. Throws Deadlock.
[[nodiscard]] Result rehearse(const Scenario& scenario, const RehearseOptions& options = {});

}  // namespace foretrain
