#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "scenarios/asymmetry.h"
#include "scenarios/sum_up.h"
#include "workloads/expert_routing.h"
#include "workloads/gpu_kinds.h"

namespace foretrain {

double Breakdown::total() const { return compute + recompute + tp + cp + ep + dp + pp + bubble + optimizer + other; }

namespace {
/// One rank a pipeline stage: the first.
std::vector<RankId> stage_representatives(const Workload& w, std::int64_t stages) {
  std::vector<RankId> ranks;
  for (std::uint32_t s = 0; s < static_cast<std::uint32_t>(stages); ++s) {
    const auto at = std::find(w.stage_of.begin(), w.stage_of.end(), s);
    ranks.push_back(id_at<RankId>(static_cast<std::size_t>(at - w.stage_of.begin())));
  }
  return ranks;
}

std::shared_ptr<const Result::Timeline> timeline_of(Measured&& m, Workload&& w, std::vector<RankId> ranks,
                                                    const Fabric& fabric, const Scenario& scenario) {
  auto t = std::make_shared<Result::Timeline>();
  t->workload = std::move(w);
  t->ranks = std::move(ranks);
  t->operations = std::move(m.traces);
  t->tiers = std::move(m.tiers);
  for (const Tier& tier : fabric.tiers()) t->tier_names.push_back(tier.name);
  t->step = m.step;
  const auto worst =
      std::max_element(m.memory.begin(), m.memory.end(), [](const auto& a, const auto& b) { return a.peak < b.peak; });
  t->overhead_bytes = overhead_of(scenario, *worst).count();
  return t;
}

std::vector<Pace> rank_paces(const Faults& faults, const Fabric& fabric, const Job& job) {
  const std::vector<Pace> by_gpu = gpu_paces(faults, fabric);
  std::vector<Pace> by_rank;
  if (by_gpu.empty()) return by_rank;
  for (const GpuId gpu : job.placement) by_rank.push_back(by_gpu[gpu.index()]);
  return by_rank;
}

std::vector<std::uint32_t> rank_nodes(const Fabric& fabric, const Job& job) {
  std::vector<std::uint32_t> by_rank;
  by_rank.reserve(job.placement.size());
  for (const GpuId gpu : job.placement) by_rank.push_back(fabric.node_of(gpu).value);
  return by_rank;
}

/// Programs for every kind of GPU, and each rank with its own's.
Workload workload_of(const Scenario& s, double slowdown) {
  const auto on = [&](const Gpu& gpu) {
    const StageCost cost = stage_cost(gpu, s.model, s.plan, s.training, slowdown);
    return generate(s.model, s.plan, s.training, gpu, cost, true);
  };
  const std::vector<NodeGroup> groups = groups_of(s.cluster, s.gpus);
  Workload w = on(groups.front().gpu);
  const std::vector<std::size_t> group_of = group_of_ranks(groups, w.job);
  std::vector<bool> done(groups.size());  // groups of a GPU that has its programs
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (done[g]) continue;
    for (std::size_t other = g; other < groups.size(); ++other)
      done[other] = done[other] || groups[other].gpu == groups[g].gpu;
    if (groups[g].gpu == groups.front().gpu) continue;
    std::vector<bool> theirs;
    theirs.reserve(group_of.size());
    for (const std::size_t group : group_of) theirs.push_back(groups[group].gpu == groups[g].gpu);
    take_programs(w, on(groups[g].gpu), theirs);
  }
  return w;
}

/// What a plan asks of collectives that they cannot do (a forced algorithm, sends that are too many) is the user's
/// mistake.
Measured play(const Scenario& scenario, const Fabric& fabric, const Job& job, const SimulateOptions& how) {
  try {
    return simulate(fabric, scenario.cluster.transport, job, how);
  } catch (const std::invalid_argument& e) {
    throw InputError(scenario.name + ": " + e.what());
  }
}

/// What a scenario becomes, and what came of it.
struct Played {
  Fabric fabric;
  Workload workload;
  std::vector<RankId> traced;
  Measured measured;
};

Played play(const Scenario& scenario, const RehearseOptions& options) {
  Fabric fabric = build_fabric(scenario);
  const double slowdown =
      straggler_slowdown(scenario.cluster.jitter, fabric.node_count()) * scenario.training.stack.overhead;
  Workload w = workload_of(scenario, slowdown);
  set_expert_exchanges(scenario.model, scenario.plan, rank_nodes(fabric, w.job), w.job);
  w.job.pace = rank_paces(scenario.faults, fabric, w.job);
  SimulateOptions how{.fidelity = scenario.network.fidelity,
                      .routing = scenario.network.routing,
                      .seed = scenario.network.seed,
                      .flows_per_pair = scenario.network.flows_per_pair,
                      .fold = options.fold,
                      .progress = options.progress};
  if (options.trace) how.traced = stage_representatives(w, scenario.plan.pp);
  Measured m = play(scenario, fabric, w.job, how);
  return {std::move(fabric), std::move(w), std::move(how.traced), std::move(m)};
}

}  // namespace

Measured measure(const Scenario& scenario, const RehearseOptions& options) { return play(scenario, options).measured; }

Result rehearse(const Scenario& scenario, const RehearseOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  auto [fabric, w, traced, m] = play(scenario, options);
  Result r;
  r.scenario = scenario;
  sum_up(r, m, w, fabric);
  r.engine = {.ranks = w.job.ranks.size(),
              .rank_classes = m.engine.rank_classes,
              .asymmetries = asymmetries(scenario, fabric, w.job, m.engine),
              .events = m.engine.events,
              .operations = m.engine.operations};
  if (options.trace) r.timeline = timeline_of(std::move(m), std::move(w), std::move(traced), fabric, scenario);
  r.engine.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  r.engine.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return r;
}

}  // namespace foretrain
