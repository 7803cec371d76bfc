#include "scenarios/sum_up.h"

#include <algorithm>
#include <optional>

#include "workloads/cost/flops.h"

namespace foretrain {
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

/// By class of ranks (PerRank::class_of).
std::vector<Breakdown> breakdowns(const Measured& m, const Job& job) {
  std::vector<Breakdown> by_class;
  by_class.reserve(m.ranks.values().size());
  for (const RankAccount& account : m.ranks.values()) by_class.push_back(breakdown_of(account, m.communication, job));
  return by_class;
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

FlopRate peak_in(const Gpu& gpu, Precision precision) {
  if (precision == Precision::fp8) return gpu.peak_fp8;
  return precision == Precision::fp4 ? gpu.peak_fp4 : gpu.peak;
}

/// Mean over all GPUs of what they could do at most.
double mean_peak(const Scenario& s) {
  const auto peak_of = [&](const Gpu& gpu) { return peak_in(gpu, s.training.precision).per_second(); };
  const std::vector<NodeGroup> groups = groups_of(s.cluster, s.gpus);
  const double first = peak_of(groups.front().gpu);
  double mean = first;  // and what the others differ by: exact where they do not
  for (const NodeGroup& group : groups) {
    mean += (peak_of(group.gpu) - first) * static_cast<double>(group.gpus) / static_cast<double>(s.gpus);
  }
  return mean;
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
  TotalTime slowed;
  const std::vector<Breakdown> by_class = breakdowns(m, w.job);
  for (std::size_t rank = 0; rank < m.ranks.size(); ++rank) {
    const Breakdown& b = by_class[m.ranks.class_of()[rank]];
    add(by_stage[w.stage_of[rank]], b);
    ranks_of[w.stage_of[rank]] += 1;
    add(all, b);
    slowed += m.ranks[rank].slowed;
  }
  r.slowed_s = slowed.seconds() / static_cast<double>(m.ranks.size());
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

void sum_up_kinds(Result& r, const Measured& m, const Workload& w) {
  const std::vector<NodeGroup> groups = groups_of(r.scenario.cluster, r.scenario.gpus);
  for (const NodeGroup& group : groups) {
    r.gpu_kinds.push_back(
        {.gpu = group.gpu.name, .gpus = group.gpus, .capacity_bytes = group.gpu.memory_usable.count()});
  }
  const std::vector<std::size_t> group_of = group_of_ranks(groups, w.job);
  const std::vector<Breakdown> by_class = breakdowns(m, w.job);
  for (std::size_t rank = 0; rank < m.ranks.size(); ++rank) {
    GpuKindResult& kind = r.gpu_kinds[group_of[rank]];
    const Breakdown& b = by_class[m.ranks.class_of()[rank]];
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
  ranks.reserve(stages);
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

}  // namespace

std::vector<std::size_t> group_of_ranks(const std::vector<NodeGroup>& groups, const Job& job) {
  std::vector<std::size_t> by_gpu;
  for (std::size_t g = 0; g < groups.size(); ++g)
    by_gpu.insert(by_gpu.end(), static_cast<std::size_t>(groups[g].gpus), g);
  std::vector<std::size_t> by_rank;
  by_rank.reserve(job.placement.size());
  for (const GpuId gpu : job.placement) by_rank.push_back(by_gpu[gpu.index()]);
  return by_rank;
}

Bytes overhead_of(const Scenario& s, const MemoryPeak& peak) {
  return overhead_bytes(peak.peak, s.model, s.plan, s.training);
}

void sum_up(Result& r, const Measured& m, const Workload& w, const Fabric& fabric) {
  r.step_time_s = m.step.seconds();
  sum_up_rates(r);
  sum_up_ranks(r, m, w);
  sum_up_kinds(r, m, w);
  sum_up_memory(r, m, w);
  sum_up_communication(r, m, w);
  sum_up_links(r, m, fabric);
}

}  // namespace foretrain
