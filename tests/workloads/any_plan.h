// Random legal plans over everything that a plan can say, small enough to be played in milliseconds.
#pragma once

#include <fmt/format.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "workloads/schedules/schedule.h"

namespace foretrain::test {

struct Drawn {
  Model model;
  Plan plan;
  Training training;
};

inline bool coin() { return *rc::gen::arbitrary<bool>(); }

inline Model any_model() {
  Model m{.name = "drawn",
          .hidden = 128,
          .ffn_hidden = 256,
          .heads = 8,
          .kv_heads = *rc::gen::element<std::int64_t>(4, 8),
          .head_dim = 16,
          .vocabulary = *rc::gen::element<std::int64_t>(1000, 1024),
          .max_positions = 64,
          .norm = *rc::gen::element(Norm::layernorm, Norm::rmsnorm),
          .activation = *rc::gen::element(Activation::gelu, Activation::swiglu),
          .positions = *rc::gen::element(Positions::learned, Positions::rotary),
          .tied_embeddings = coin()};
  if (coin())
    m.experts = Experts{.count = 8,
                        .topk = 2,
                        .ffn_hidden = 64,
                        .shared_ffn_hidden = *rc::gen::element<std::int64_t>(0, 64),
                        .first_dense = *rc::gen::element<std::int64_t>(0, 1),
                        .every = *rc::gen::element<std::int64_t>(1, 2)};
  if (coin()) {
    m.latent = LatentAttention{.query_rank = *rc::gen::element<std::int64_t>(0, 32),
                               .kv_rank = 16,
                               .nope_dim = 16,
                               .rope_dim = 8,
                               .value_dim = 16};
    m.kv_heads = m.heads;
  }
  if (coin()) m.window = SlidingWindow{.tokens = 16, .full_every = *rc::gen::element<std::int64_t>(0, 2)};
  m.mtp_layers = *rc::gen::element<std::int64_t>(0, 0, 1);
  return m;
}

/// Any kind but `file`, with ranks, chunks and a number of microbatches that it can run; the batch goes into
/// `training`.
inline void draw_pipeline(Drawn& d) {
  const auto kind = *rc::gen::elementOf(std::vector(std::begin(all_schedule_kinds), std::end(all_schedule_kinds) - 1));
  const ChunkRange chunks = chunks_allowed(kind);
  d.plan.schedule = {kind, chunks.most == chunks.least ? chunks.least : *rc::gen::element<std::int64_t>(2, 3)};
  d.plan.pp = *rc::gen::element<std::int64_t>(1, 2, 3, 4);
  d.plan.overlap = {.dp = coin(), .tp = coin(), .pp = coin(), .ep = coin()};
  std::int64_t m = d.plan.pp * *rc::gen::element<std::int64_t>(1, 2);
  if (kind == ScheduleKind::interleaved_1f1b || kind == ScheduleKind::dualpipe) d.plan.pp += d.plan.pp % 2;
  if (kind == ScheduleKind::interleaved_1f1b && d.plan.pp == 2) d.plan.overlap.pp = true;
  if (kind == ScheduleKind::dualpipe || kind == ScheduleKind::dualpipev)
    m = 2 * d.plan.pp + *rc::gen::element<std::int64_t>(0, 2);
  else if (runs_in_groups(kind))
    m = d.plan.pp * *rc::gen::element<std::int64_t>(1, 2);
  else if (coin())
    m = *rc::gen::inRange<std::int64_t>(1, 6);
  d.training.microbatch = *rc::gen::element<std::int64_t>(1, 2);
  d.training.global_batch = m * d.training.microbatch;  // of one replica
  d.model.layers = d.plan.stages() + *rc::gen::inRange<std::int64_t>(0, 4);
  if (d.model.experts)  // one layer with experts at least
    d.model.layers = std::max(d.model.layers, d.model.experts->first_dense + d.model.experts->every);
}

inline void draw_grids(Drawn& d) {
  Plan& p = d.plan;
  p.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
  p.cp = *rc::gen::element<std::int64_t>(1, 1, 2);
  p.dp = *rc::gen::element<std::int64_t>(1, 2, 3);
  RC_PRE(p.ranks() <= 32);
  p.sequence_parallel = d.model.experts ? true : coin();
  p.context = *rc::gen::element(ContextExchange::ring, ContextExchange::all_gather, ContextExchange::all_to_all);
  p.order = *rc::gen::element(std::array{Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp},
                              std::array{Axis::pp, Axis::tp, Axis::cp, Axis::ep, Axis::dp},
                              std::array{Axis::dp, Axis::cp, Axis::ep, Axis::tp, Axis::pp});
  if (!d.model.experts) return;
  p.etp = *rc::gen::element<std::int64_t>(1, 2);
  p.ep = *rc::gen::element<std::int64_t>(1, 2, 4, 8);
  const std::int64_t ranks = p.tp * p.cp * p.dp;
  while (ranks % (p.ep * p.etp) != 0) (p.ep > 1 ? p.ep : p.etp) /= 2;
  p.experts = *rc::gen::element(ExpertExchange::all_to_all, ExpertExchange::all_gather, ExpertExchange::two_hop);
}

inline void draw_sharding(Drawn& d) {
  Plan& p = d.plan;
  const bool held_twice = placement_of(p.schedule) == Placement::bidirectional;  // only ZeRO 0 and 1, once a step
  p.zero = held_twice ? *rc::gen::element(0, 1) : *rc::gen::element(0, 1, 2, 3);
  p.sharding = {.prefetch = *rc::gen::inRange<std::int64_t>(0, 3), .reshard_after_forward = coin()};
  p.gradient_sync = held_twice || coin() ? GradientSync::last : GradientSync::each;
  p.bucket_parameters = *rc::gen::element<std::int64_t>(50'000, 40'000'000);
  if (p.zero > 0 && coin()) {
    p.hsdp_shard = *rc::gen::inRange<std::int64_t>(1, p.replicas() + 1);
    while (p.replicas() % p.hsdp_shard != 0) --p.hsdp_shard;
  }
  d.training.stack.framework = *rc::gen::elementOf(std::vector(std::begin(all_frameworks), std::end(all_frameworks)));
}

inline void draw_training(Drawn& d) {
  Training& t = d.training;
  t.sequence_length = 64;
  t.global_batch *= d.plan.dp;
  t.precision = *rc::gen::element(Precision::bf16, Precision::fp16, Precision::fp32);
  t.gradients = coin() || t.precision == Precision::fp32 ? Precision::fp32 : t.precision;
  t.recompute = *rc::gen::element(Recompute::none, Recompute::selective, Recompute::full);
  t.recompute_method = *rc::gen::element(RecomputeMethod::uniform, RecomputeMethod::block);
  t.recompute_layers = *rc::gen::inRange<std::int64_t>(1, 4);
  t.stack.late_output_gradient = coin();
  t.stack.tp_time = *rc::gen::element(1.0, 0.5, 1.5);
  t.stack.ep_time = *rc::gen::element(1.0, 0.5, 1.5);
  t.stack.data_channels = *rc::gen::element<std::int64_t>(0, 1);
  t.recompute_modules = {RecomputeModule::norm};
  for (const RecomputeModule module : {RecomputeModule::attention, RecomputeModule::activation, RecomputeModule::latent,
                                       RecomputeModule::mlp, RecomputeModule::experts})
    if (coin()) t.recompute_modules.push_back(module);
  if (d.plan.schedule.kind == ScheduleKind::interleaved_1f1b_ep_overlap && t.recompute == Recompute::full)
    t.recompute = Recompute::none;
}

/// What a failing case prints: the enumerations have no text in RapidCheck.
inline std::string described(const Drawn& d) {
  const Plan& p = d.plan;
  const Training& t = d.training;
  std::string modules;
  for (const RecomputeModule m : t.recompute_modules) modules += fmt::format(" {}", to_text(m));
  return fmt::format(
             "layers {} mtp {} experts {} latent {} window {} | tp {} sp {} cp {} {} pp {} dp {} ep {} etp {} {}",
             d.model.layers, d.model.mtp_layers, d.model.experts.has_value(), d.model.latent.has_value(),
             d.model.window.has_value(), p.tp, p.sequence_parallel, p.cp, to_text(p.context), p.pp, p.dp, p.ep, p.etp,
             to_text(p.experts)) +
         fmt::format(" | {} v {} zero {} hsdp {} sync {} {} | microbatch {} batch {} {} recompute {} {} {}:{}",
                     to_text(p.schedule.kind), p.schedule.virtual_stages, p.zero, p.hsdp_shard,
                     to_text(p.gradient_sync), to_text(t.stack.framework), t.microbatch, t.global_batch,
                     to_text(t.precision), to_text(t.recompute), to_text(t.recompute_method), t.recompute_layers,
                     modules);
}

inline Drawn any_drawn() {
  Drawn d;
  d.model = any_model();
  draw_pipeline(d);
  draw_grids(d);
  draw_sharding(d);
  draw_training(d);
  RC_PRE(check(d.model, d.plan, d.training, d.plan.ranks()).empty());
  RC_LOG(described(d));
  return d;
}

}  // namespace foretrain::test
