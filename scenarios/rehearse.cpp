#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "scenarios/asymmetry.h"
#include "scenarios/result.h"
#include "workloads/cost/flops.h"
#include "workloads/expert_routing.h"
#include "workloads/gpu_kinds.h"

namespace foretrain {

double Breakdown::total() const { return compute + recompute + tp + cp + ep + dp + pp + bubble + optimizer + other; }

namespace {

/// Where a row's waiting and exposed time is booked.
double& part_of(Breakdown& b, Traffic traffic) {
  switch (traffic) {
    case Traffic::tp:
      return b.tp;
    case Traffic::cp:
      return b.cp;
    case Traffic::ep:
      return b.ep;
    case Traffic::dp:
      return b.dp;
    case Traffic::pp:
      return b.pp;
    case Traffic::other:
      return b.other;
  }
  return b.other;
}

double& part_of(Breakdown& b, Work work) {
  switch (work) {
    case Work::compute:
      return b.compute;
    case Work::recompute:
      return b.recompute;
    case Work::optimizer:
      return b.optimizer;
    case Work::other:
      return b.other;
  }
  return b.other;
}

Breakdown breakdown_of(const RankAccount& account, const std::vector<CommunicationRow>& rows, const Job& job) {
  Breakdown b;
  for (std::size_t w = 0; w < account.busy.size(); ++w) part_of(b, static_cast<Work>(w)) += account.busy[w].seconds();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto traffic = static_cast<Traffic>(rows[i].dimension);
    part_of(b, traffic) += account.exposed[i].seconds();
    (job.dimensions[rows[i].dimension].waiting_is_bubble ? b.bubble : part_of(b, traffic)) +=
        account.waiting[i].seconds();
  }
  b.bubble += account.tail.seconds();
  return b;
}

void add(Breakdown& sum, const Breakdown& b) {
  sum.compute += b.compute;
  sum.recompute += b.recompute;
  sum.tp += b.tp;
  sum.cp += b.cp;
  sum.ep += b.ep;
  sum.dp += b.dp;
  sum.pp += b.pp;
  sum.bubble += b.bubble;
  sum.optimizer += b.optimizer;
  sum.other += b.other;
}

Breakdown scaled_by(const Breakdown& b, double f) {
  return {b.compute * f, b.recompute * f, b.tp * f,     b.cp * f,        b.ep * f,
          b.dp * f,      b.pp * f,        b.bubble * f, b.optimizer * f, b.other * f};
}

/// Mean over all GPUs of what they could do at most.
double mean_peak(const Scenario& s) {
  const bool fp8 = s.training.precision == Precision::fp8;
  const auto peak_of = [&](const Gpu& gpu) { return (fp8 ? gpu.peak_fp8 : gpu.peak).per_second(); };
  const std::vector<NodeGroup> groups = groups_of(s.cluster, s.gpus);
  const double first = peak_of(groups.front().gpu);
  double mean = first;  // and what the others differ by: exact where they do not
  for (const NodeGroup& group : groups) {
    mean += (peak_of(group.gpu) - first) * static_cast<double>(group.gpus) / static_cast<double>(s.gpus);
  }
  return mean;
}

/// By rank: the group of its GPU.
std::vector<std::size_t> group_of_ranks(const std::vector<NodeGroup>& groups, const Job& job) {
  std::vector<std::size_t> by_gpu;
  for (std::size_t g = 0; g < groups.size(); ++g)
    by_gpu.insert(by_gpu.end(), static_cast<std::size_t>(groups[g].gpus), g);
  std::vector<std::size_t> by_rank;
  by_rank.reserve(job.placement.size());
  for (const GpuId gpu : job.placement) by_rank.push_back(by_gpu[gpu.index()]);
  return by_rank;
}

void sum_up_rates(Result& r) {
  const Scenario& s = r.scenario;
  const double gpus = static_cast<double>(s.gpus);
  const double flops =
      step_flops(s.model, s.training.sequence_length, s.training.global_batch, s.training.attention_flops);
  const double per_gpu_s = 1.0 / (r.step_time_s * gpus);
  const double peak = mean_peak(s);
  const double tokens = static_cast<double>(s.training.global_batch * s.training.sequence_length);
  r.tokens_per_s = tokens / r.step_time_s;
  r.tokens_per_s_per_gpu = r.tokens_per_s / gpus;
  r.model_tflops_per_gpu = flops * per_gpu_s * 1e-12;
  r.hardware_tflops_per_gpu = (flops + recomputed_flops(s.model, s.plan, s.training)) * per_gpu_s * 1e-12;
  r.mfu = r.model_tflops_per_gpu * 1e12 / peak;
  r.hfu = r.hardware_tflops_per_gpu * 1e12 / peak;
}

void sum_up_ranks(Result& r, const Measured& m, const Workload& w) {
  const auto stages = static_cast<std::size_t>(r.scenario.plan.pp);
  std::vector<Breakdown> by_stage(stages);
  std::vector<double> ranks_of(stages);
  Breakdown all;
  for (std::size_t rank = 0; rank < m.ranks.size(); ++rank) {
    const Breakdown b = breakdown_of(m.ranks[rank], m.communication, w.job);
    add(by_stage[w.stage_of[rank]], b);
    ranks_of[w.stage_of[rank]] += 1;
    add(all, b);
  }
  r.breakdown = scaled_by(all, 1.0 / static_cast<double>(m.ranks.size()));
  r.bubble_fraction = r.breakdown.bubble / r.step_time_s;
  for (std::size_t s = 0; s < stages; ++s) {
    StageResult stage{.stage = static_cast<std::int64_t>(s)};
    for (std::size_t g = s; g < w.layers.size(); g += stages) stage.layers += w.layers[g];
    stage.compute_s = (by_stage[s].compute + by_stage[s].recompute) / ranks_of[s];
    stage.bubble_s = by_stage[s].bubble / ranks_of[s];
    r.stages.push_back(stage);
  }
}

Bytes overhead_of(const Scenario& s, const MemoryPeak& peak) {
  return overhead_bytes(peak.peak, s.model, s.plan, s.training);
}

void sum_up_kinds(Result& r, const Measured& m, const Workload& w) {
  const std::vector<NodeGroup> groups = groups_of(r.scenario.cluster, r.scenario.gpus);
  for (const NodeGroup& group : groups) {
    r.gpu_kinds.push_back(
        {.gpu = group.gpu.name, .gpus = group.gpus, .capacity_bytes = group.gpu.memory_usable.count()});
  }
  const std::vector<std::size_t> group_of = group_of_ranks(groups, w.job);
  for (std::size_t rank = 0; rank < m.ranks.size(); ++rank) {
    GpuKindResult& kind = r.gpu_kinds[group_of[rank]];
    const Breakdown b = breakdown_of(m.ranks[rank], m.communication, w.job);
    kind.compute_s += (b.compute + b.recompute) / static_cast<double>(kind.gpus);
    const Bytes peak = m.memory[rank].peak;
    kind.peak_memory_bytes = std::max(kind.peak_memory_bytes, (peak + overhead_of(r.scenario, m.memory[rank])).count());
  }
}

/// The rank of each stage that has least room left, the first of equals.
std::vector<std::size_t> tightest_ranks(const std::vector<Bytes>& room, const Workload& w, std::size_t stages) {
  std::vector<std::optional<std::size_t>> tightest(stages);
  for (std::size_t rank = 0; rank < room.size(); ++rank) {
    auto& best = tightest[w.stage_of[rank]];
    if (!best || room[rank] < room[*best]) best = rank;
  }
  std::vector<std::size_t> ranks;
  for (const auto& rank : tightest) ranks.push_back(rank.value());
  return ranks;
}

void sum_up_memory(Result& r, const Measured& m, const Workload& w) {
  const std::vector<NodeGroup> groups = groups_of(r.scenario.cluster, r.scenario.gpus);
  const std::vector<std::size_t> group_of = group_of_ranks(groups, w.job);
  const auto usable = [&](std::size_t rank) { return groups[group_of[rank]].gpu.memory_usable; };
  std::vector<Bytes> room;
  for (std::size_t rank = 0; rank < m.memory.size(); ++rank)
    room.push_back(usable(rank) - m.memory[rank].peak - overhead_of(r.scenario, m.memory[rank]));
  const std::vector<std::size_t> tightest = tightest_ranks(room, w, r.stages.size());
  for (std::size_t s = 0; s < tightest.size(); ++s) {
    const MemoryPeak& peak = m.memory[tightest[s]];
    StageResult& stage = r.stages[s];
    const Bytes overhead = overhead_of(r.scenario, peak);
    for (std::size_t p = 0; p < peak.parts.size(); ++p) stage.parts_bytes.at(p) = peak.parts[p].count();
    stage.parts_bytes[static_cast<std::size_t>(MemoryPart::overhead)] += overhead.count();
    stage.peak_memory_bytes = (peak.peak + overhead).count();
    stage.peak_at_s = peak.at.seconds();
  }
  const auto worst_rank = *std::min_element(tightest.begin(), tightest.end(),
                                            [&](std::size_t a, std::size_t b) { return room[a] < room[b]; });
  const StageResult& worst = r.stages[w.stage_of[worst_rank]];
  r.memory.parts_bytes = worst.parts_bytes;
  r.memory.peak_bytes = worst.peak_memory_bytes;
  r.memory.capacity_bytes = usable(worst_rank).count();
  r.memory.pressure = memory_pressure(bytes(r.memory.peak_bytes), bytes(r.memory.capacity_bytes));
  r.memory.verdict = verdict_of(r.memory.pressure, r.scenario.model, r.scenario.plan);
  r.memory.fits = r.memory.verdict != Verdict::does_not_fit;
  r.memory.peak_stage = worst.stage;
  r.memory.peak_at_s = worst.peak_at_s;
}

void sum_up_communication(Result& r, const Measured& m, const Workload& w) {
  for (std::size_t i = 0; i < m.communication.size(); ++i) {
    const CommunicationRow& row = m.communication[i];
    if (row.calls == 0) continue;
    const auto ranks = static_cast<double>(row.ranks);
    TotalTime exposed;
    for (const RankAccount& account : m.ranks) exposed += account.exposed[i];
    r.communication.push_back({.dimension = w.job.dimensions[row.dimension].name,
                               .op = std::string(to_text(row.op)),
                               .calls = static_cast<double>(row.calls) / ranks,
                               .bytes = row.bytes / static_cast<double>(row.calls),
                               .time_s = row.time.seconds() / ranks,
                               .exposed_s = exposed.seconds() / ranks,
                               .busbw_Bps = row.time > TotalTime() ? row.bus_bytes / row.time.seconds() : 0,
                               .slowdown = row.idle_time > TotalTime() ? row.time / row.idle_time : 1});
  }
}

/// The busiest links of all, and the busiest of every tier that carried anything; busiest first.
std::vector<std::size_t> hottest_links(const Measured& m, const Fabric& fabric) {
  constexpr std::size_t most = 8;
  const auto busy = [&](std::size_t l) {  // seconds of full rate that its bytes would take
    return m.links[l].bytes / static_cast<double>(fabric.link(id_at<LinkId>(l)).bandwidth.bytes_per_s());
  };
  const auto busier = [&](std::size_t a, std::size_t b) { return busy(a) != busy(b) ? busy(a) > busy(b) : a < b; };
  std::vector<std::size_t> used;
  std::vector<std::optional<std::size_t>> of_tier(fabric.tiers().size());
  for (std::size_t l = 0; l < m.links.size(); ++l) {
    if (m.links[l].bytes <= 0) continue;
    used.push_back(l);
    auto& first = of_tier[fabric.link(id_at<LinkId>(l)).tier.index()];
    if (!first || busier(l, *first)) first = l;
  }
  const auto end = used.begin() + static_cast<std::ptrdiff_t>(std::min(most, used.size()));
  std::partial_sort(used.begin(), end, used.end(), busier);
  std::vector<std::size_t> kept(used.begin(), end);
  for (const auto& first : of_tier)
    if (first && std::find(kept.begin(), kept.end(), *first) == kept.end()) kept.push_back(*first);
  std::sort(kept.begin(), kept.end(), busier);
  return kept;
}

void sum_up_links(Result& r, const Measured& m, const Fabric& fabric) {
  const auto utilization = [&](std::size_t l) {
    const auto bandwidth = static_cast<double>(fabric.link(id_at<LinkId>(l)).bandwidth.bytes_per_s());
    return m.links[l].bytes / (bandwidth * r.step_time_s);
  };
  for (const Tier& t : fabric.tiers()) r.tiers.push_back({.tier = t.name, .links = static_cast<std::int64_t>(t.links)});
  for (std::size_t l = 0; l < m.links.size(); ++l) {
    const std::size_t tier = fabric.link(id_at<LinkId>(l)).tier.index();
    r.tiers[tier].bytes += m.links[l].bytes;
    r.tiers[tier].max_utilization = std::max(r.tiers[tier].max_utilization, utilization(l));
  }
  for (std::size_t t = 0; t < r.tiers.size(); ++t)
    r.tiers[t].mean_utilization =
        r.tiers[t].bytes / (static_cast<double>(fabric.tiers()[t].bandwidth.bytes_per_s()) * r.step_time_s);

  for (std::size_t l : hottest_links(m, fabric)) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    r.hottest.push_back({fabric.name(link.from), fabric.name(link.to), fabric.tiers()[link.tier.index()].name,
                         utilization(l), m.links[l].saturated.seconds()});
  }
}

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
  const double slowdown = straggler_slowdown(scenario.cluster.jitter, fabric.node_count());
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
  r.step_time_s = m.step.seconds();
  sum_up_rates(r);
  sum_up_ranks(r, m, w);
  sum_up_kinds(r, m, w);
  sum_up_memory(r, m, w);
  sum_up_communication(r, m, w);
  sum_up_links(r, m, fabric);
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
