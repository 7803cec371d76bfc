#include <fmt/format.h>

#include <algorithm>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

constexpr IntegerRange tokens_range{1, std::int64_t{1} << 24};

ScheduleSpec read_schedule(const YamlNode* map, std::int64_t pp, Problems& problems) {
  ScheduleSpec schedule;
  if (map == nullptr) return schedule;
  MapReader reader(*map, "parallelism.schedule", problems);
  // Chunks without a kind can only mean interleaving; an interleaved schedule has two chunks at least.
  const bool chunks = reader.given("virtual_stages") && pp > 1;
  schedule.kind = reader.choice<ScheduleKind>("kind", words_of<ScheduleKind>(all_schedule_kinds),
                                              chunks ? ScheduleKind::interleaved_1f1b : ScheduleKind::one_f_one_b);
  const bool interleaved = schedule.kind == ScheduleKind::interleaved_1f1b;
  schedule.virtual_stages = reader.integer("virtual_stages", {1, 4096}, interleaved ? 2 : 1);
  reader.finish();
  return schedule;
}

Overlap read_overlap(const YamlNode* map, ScheduleKind kind, Problems& problems) {
  // Megatron-Core overlaps pipeline sends in the interleaved schedule only.
  Overlap overlap{.dp = true, .tp = false, .pp = kind == ScheduleKind::interleaved_1f1b};
  if (map == nullptr) return overlap;
  MapReader reader(*map, "parallelism.overlap", problems);
  overlap.dp = reader.boolean("dp", overlap.dp);
  overlap.tp = reader.boolean("tp", overlap.tp);
  overlap.pp = reader.boolean("pp", overlap.pp);
  reader.finish();
  return overlap;
}

void read_order(MapReader& reader, Plan& plan, Problems& problems) {
  const std::vector<Axis> usual(plan.order.begin(), plan.order.end());
  const std::vector<Axis> order = reader.choices<Axis>("order", words_of<Axis>(all_axes), usual);
  if (order.size() == plan.order.size()) {
    std::copy(order.begin(), order.end(), plan.order.begin());
  } else if (!problems.any_bad(dotted(reader.path(), "order"))) {
    reader.refuse("order",
                  fmt::format("{} axes; allowed: tp, cp, ep, dp, pp, each once, fastest-varying first", order.size()));
  }
}

}  // namespace

Training read_training(const YamlNode& map, Problems& problems) {
  MapReader reader(map, "training", problems);
  Training training;
  training.sequence_length = reader.integer("sequence_length", tokens_range);
  training.global_batch = reader.integer("global_batch", tokens_range);
  training.microbatch = reader.integer("microbatch", {1, 65536}, 1);
  training.precision = reader.choice<Precision>("precision", words_of<Precision>(all_precisions), Precision::bf16);
  const Words<Precision> gradient_words = {
      {"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}};
  training.gradients = reader.choice<Precision>("gradients", gradient_words, Precision::fp32);
  training.recompute = reader.choice<Recompute>("recompute", words_of<Recompute>(all_recomputes), Recompute::none);
  training.recompute_modules = reader.choices<RecomputeModule>(
      "recompute_modules", words_of<RecomputeModule>(all_recompute_modules), training.recompute_modules);
  training.attention = reader.choice<AttentionKernel>("attention", words_of<AttentionKernel>(all_attention_kernels),
                                                      AttentionKernel::flash);
  training.attention_flops =
      reader.choice<AttentionFlops>("attention_flops", attention_flops_words(), AttentionFlops::full);
  reader.finish();
  return training;
}

Plan read_plan(const YamlNode& map, std::int64_t gpus, Problems& problems) {
  MapReader reader(map, "parallelism", problems);
  Plan plan;
  plan.tp = reader.integer("tp", group_range, 1);
  plan.cp = reader.integer("cp", group_range, 1);
  plan.pp = reader.integer("pp", group_range, 1);
  // What remains; `check` says so when nothing whole does.
  plan.dp = reader.integer("dp", {1, gpus_most}, std::max<std::int64_t>(1, gpus / (plan.tp * plan.cp * plan.pp)));
  plan.sequence_parallel = reader.boolean("sequence_parallel", plan.tp > 1);
  plan.zero = static_cast<int>(reader.integer("zero", {0, 3}, 1));  // Megatron's distributed optimizer
  plan.schedule = read_schedule(reader.child("schedule"), plan.pp, problems);
  read_order(reader, plan, problems);
  plan.overlap = read_overlap(reader.child("overlap"), plan.schedule.kind, problems);
  plan.bucket_parameters = reader.integer("bucket_parameters", {1, std::int64_t{1} << 40}, plan.bucket_parameters);
  reader.finish();
  return plan;
}

Network read_network(const YamlNode& map, const Cluster& cluster, Problems& problems) {
  MapReader reader(map, "network", problems);
  Network network;
  // The only way that joins all pairs (rails), and the one that tori use.
  const bool torus = std::holds_alternative<TorusSpec>(cluster.fabric);
  const bool rails = std::holds_alternative<RailOnlySpec>(cluster.fabric);
  const Routing usual = rails ? Routing::rail : Routing::spread;
  network.routing =
      reader.choice<Routing>("routing", words_of<Routing>(all_routings), torus ? Routing::dimension_order : usual);
  network.fidelity = reader.choice<Fidelity>("fidelity", words_of<Fidelity>(all_fidelities), Fidelity::fluid);
  network.seed = static_cast<std::uint64_t>(reader.integer("seed", {0, 999'999'999'999'999'999}, 1));
  network.flows_per_pair =
      static_cast<std::uint32_t>(reader.integer("flows_per_pair", {1, flows_per_pair_most}, network.flows_per_pair));
  reader.finish();
  return network;
}

}  // namespace foretrain
