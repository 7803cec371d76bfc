#include <fmt/format.h>

#include <algorithm>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

constexpr IntegerRange tokens_range{1, std::int64_t{1} << 24};

bool plays_blocks(ScheduleKind kind) {
  return kind == ScheduleKind::interleaved_1f1b_ep_overlap || kind == ScheduleKind::dualpipe ||
         kind == ScheduleKind::dualpipev;
}

Overlap read_overlap(const YamlNode* map, ScheduleKind kind, Framework framework, Problems& problems) {
  // Megatron-Core waits for pipeline sends in 1F1B only, where both neighbours exchange in one call; DeepSpeed's
  // `overlap_comm` is off. A forward and a backward in one block are there to hide each other's experts' traffic.
  Overlap overlap{.dp = framework != Framework::deepspeed,
                  .tp = false,
                  .pp = kind != ScheduleKind::one_f_one_b && kind != ScheduleKind::gpipe,
                  .ep = plays_blocks(kind)};
  if (map == nullptr) return overlap;
  MapReader reader(*map, "parallelism.overlap", problems);
  overlap.dp = reader.boolean("dp", overlap.dp);
  overlap.tp = reader.boolean("tp", overlap.tp);
  overlap.pp = reader.boolean("pp", overlap.pp);
  overlap.ep = reader.boolean("ep", overlap.ep);
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

/// Parameters whose gradients go in one call: Megatron-Core max(40 million, a million a replica); DeepSpeed
/// `reduce_bucket_size` 5e8; PyTorch DDP 25 MiB, here of fp32.
std::int64_t usual_bucket(Framework framework, std::int64_t replicas) {
  switch (framework) {
    case Framework::megatron:
    case Framework::nanotron:
      return std::max<std::int64_t>(40'000'000, 1'000'000 * replicas);
    case Framework::deepspeed:
      return 500'000'000;
    case Framework::fsdp:
      return std::int64_t{25} * 1024 * 1024 / 4;
  }
  return 40'000'000;
}

/// What gradients are accumulated and reduced in. DeepSpeed's fp16 and bf16 engines keep them in half precision.
Precision usual_gradients(const Training& training) {
  const bool half = training.stack.framework == Framework::deepspeed && training.precision != Precision::fp32;
  return half ? (training.precision == Precision::fp16 ? Precision::fp16 : Precision::bf16) : Precision::fp32;
}

/// How the training software works on its logits if nothing is said (docs/memory.md).
LossKernel usual_loss(Framework framework) {
  return framework == Framework::fsdp ? LossKernel::eager : LossKernel::unfused;
}

void read_sharding(MapReader& reader, Plan& plan, Problems& problems) {
  if (const YamlNode* map = reader.child("hsdp")) {
    MapReader hsdp(*map, "parallelism.hsdp", problems);
    plan.hsdp_shard = hsdp.integer("shard", {1, gpus_most});
    hsdp.finish();
  }
  if (const YamlNode* map = reader.child("sharding")) {
    MapReader sharding(*map, "parallelism.sharding", problems);
    plan.sharding.prefetch = sharding.integer("prefetch", {0, 1024}, plan.sharding.prefetch);
    plan.sharding.reshard_after_forward =
        sharding.boolean("reshard_after_forward", plan.sharding.reshard_after_forward);
    sharding.finish();
  }
  // ZeRO 2 and 3 hold shards of gradients only, so every microbatch's go out (DeepSpeed; FSDP unless `no_sync`).
  plan.gradient_sync =
      reader.choice<GradientSync>("gradient_sync", words_of<GradientSync>(all_gradient_syncs),
                                  plan.zero >= 2 && plan.pp == 1 ? GradientSync::each : GradientSync::last);
}

void read_experts(const YamlNode* map, Plan& plan, Problems& problems) {
  if (map == nullptr) return;
  MapReader reader(*map, "parallelism.experts", problems);
  plan.experts = reader.choice<ExpertExchange>("exchange", words_of<ExpertExchange>(all_expert_exchanges),
                                               ExpertExchange::all_to_all);
  plan.expert_imbalance = reader.number("imbalance", {1, 1024}, 1.0);
  plan.expert_capacity = reader.number("capacity", {0, 1024}, 0.0);
  reader.finish();
}

/// Moving state to the host is a key that people know; it is refused by name, not as an unknown one.
void refuse_offload(MapReader& reader) {
  const std::string where = reader.text("offload", "none");
  if (where != "none" && where != "false")
    reader.refuse("offload", "state on the host (offload) is not modelled; allowed: none");
}

}  // namespace

Training read_training(const YamlNode& map, Stack stack, Problems& problems) {
  MapReader reader(map, "training", problems);
  Training training;
  training.stack = std::move(stack);
  training.sequence_length = reader.integer("sequence_length", tokens_range);
  training.global_batch = reader.integer("global_batch", tokens_range);
  training.microbatch = reader.integer("microbatch", {1, 65536}, 1);
  training.precision = reader.choice<Precision>("precision", words_of<Precision>(all_precisions), Precision::bf16);
  training.fp8_recipe = reader.choice<Fp8Recipe>("fp8_recipe", words_of<Fp8Recipe>(all_fp8_recipes), Fp8Recipe::tensor);
  if (reader.given("fp8_recipe") && training.precision != Precision::fp8 && !reader.any_bad("precision"))
    reader.refuse("fp8_recipe",
                  fmt::format("beside precision {}; allowed: with precision fp8 only", to_text(training.precision)));
  reader.child("stack");  // read already
  const Words<Precision> gradient_words = {
      {"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}};
  training.gradients = reader.choice<Precision>("gradients", gradient_words, usual_gradients(training));
  training.recompute = reader.choice<Recompute>("recompute", words_of<Recompute>(all_recomputes), Recompute::none);
  training.recompute_modules = reader.choices<RecomputeModule>(
      "recompute_modules", words_of<RecomputeModule>(all_recompute_modules), training.recompute_modules);
  training.attention = reader.choice<AttentionKernel>("attention", words_of<AttentionKernel>(all_attention_kernels),
                                                      AttentionKernel::flash);
  training.recompute_method = reader.choice<RecomputeMethod>(
      "recompute_method", words_of<RecomputeMethod>(all_recompute_methods), RecomputeMethod::uniform);
  training.recompute_layers = reader.integer("recompute_layers", {1, 16384}, 1);
  training.loss =
      reader.choice<LossKernel>("loss", words_of<LossKernel>(all_loss_kernels), usual_loss(training.stack.framework));
  training.moments =
      reader.choice<Precision>("moments", {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}}, Precision::fp32);
  training.compiled = reader.boolean("compiled", false);
  training.attention_flops =
      reader.choice<AttentionFlops>("attention_flops", attention_flops_words(), AttentionFlops::full);
  reader.finish();
  return training;
}

Plan read_plan(const YamlNode& map, std::int64_t gpus, const Training& training, const Model& model,
               Problems& problems) {
  MapReader reader(map, "parallelism", problems);
  Plan plan;
  plan.tp = reader.integer("tp", group_range, 1);
  plan.cp = reader.integer("cp", group_range, 1);
  plan.pp = reader.integer("pp", group_range, 1);
  // What remains; `check` says so when nothing whole does.
  plan.dp = reader.integer("dp", {1, gpus_most}, std::max<std::int64_t>(1, gpus / (plan.tp * plan.cp * plan.pp)));
  plan.ep = reader.integer("ep", group_range, 1);
  // Megatron-Core splits experts over TP unless told otherwise; recipes that spread them over EP tell it so.
  plan.etp = reader.integer("etp", group_range, model.experts && plan.ep == 1 ? plan.tp : 1);
  plan.sequence_parallel = reader.boolean("sequence_parallel", plan.tp > 1);
  plan.zero = static_cast<int>(reader.integer("zero", {0, 3}, training.stack.framework == Framework::fsdp ? 3 : 1));
  plan.schedule = read_schedule(reader.child("schedule"), plan.pp, problems);
  read_sharding(reader, plan, problems);
  plan.context = reader.choice<ContextExchange>("context", words_of<ContextExchange>(all_context_exchanges),
                                                ContextExchange::ring);
  read_experts(reader.child("experts"), plan, problems);
  plan.stage_layers = reader.integers("stage_layers", {0, 16384}, plan.stage_layers);
  read_order(reader, plan, problems);
  plan.overlap = read_overlap(reader.child("overlap"), plan.schedule.kind, training.stack.framework, problems);
  plan.bucket_parameters = reader.integer("bucket_parameters", {1, std::int64_t{1} << 40},
                                          usual_bucket(training.stack.framework, plan.replicas()));
  refuse_offload(reader);
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
