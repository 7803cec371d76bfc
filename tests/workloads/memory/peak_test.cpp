// Is the peak of the closed form that of the played step, to the byte, and are its instants where the study puts them?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <optional>

#include "tests/workloads/memory/support.h"
#include "workloads/generate.h"

namespace foretrain {
namespace {

/// A day for nothing: durations do not matter to a stage's own order of events.
StageCost any_cost() {
  StageCost cost;
  for (LayerCost& layer : cost.layers)
    for_each_part(layer, [](PartCost& part) { part = {microseconds(1), microseconds(1), microseconds(1)}; });
  for (PartCost* part : {&cost.end.embedding, &cost.end.output, &cost.end.mtp})
    *part = {microseconds(1), microseconds(1), microseconds(1)};
  return cost;
}

/// The largest sum that the memory operations of a stage reach, in the order of its main stream, by part.
MemoryParts peak_of_program(const Program& program) {
  MemoryParts now;
  MemoryParts peak;
  for (const Operation& o : program.streams.front().operations) {
    if (o.kind != OperationKind::memory) continue;
    now[static_cast<MemoryPart>(o.part)] += bytes(o.amount);
    if (now.total() > peak.total()) peak = now;
  }
  return peak;
}

/// The first stage whose closed form differs from what its program does; none: all agree.
std::optional<std::int64_t> first_difference(const Model& model, const Plan& plan, const Training& training) {
  const Workload w = generate(model, plan, training, h100_80gb(), any_cost(), true);
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    const PeakMemory closed = peak_memory(model, plan, training, stage);
    const MemoryParts played = peak_of_program(w.job.programs[static_cast<std::size_t>(stage)]);
    const Bytes overhead = overhead_bytes(played.total(), model, plan, training);
    if (closed.allocated() != played.total() || closed.total() != played.total() + overhead) return stage;
  }
  return std::nullopt;
}

TEST(Peak, IsThatOfThePlayedStep) {
  const Training training{.sequence_length = 8192, .global_batch = 16};
  const Plan interleaved{
      .tp = 8, .pp = 16, .sequence_parallel = true, .zero = 1, .schedule = {ScheduleKind::interleaved_1f1b, 8}};
  EXPECT_EQ(first_difference(llama3_405b(), interleaved, training), std::nullopt);
  EXPECT_EQ(first_difference(llama3_405b(), {.tp = 8, .pp = 4}, training), std::nullopt);
  EXPECT_EQ(first_difference(llama3_8b(), {}, training), std::nullopt);
  EXPECT_EQ(first_difference(gpt(24, 1024, 16), {.pp = 4, .schedule = {ScheduleKind::gpipe}}, megatron_2022(1)),
            std::nullopt);
}

RC_GTEST_PROP(PeakProperties, EqualsThePlayedStepForEveryRecipe, ()) {
  const Model model = *rc::gen::element(llama3_8b(), gpt(16, 1024, 16));
  Plan plan{.tp = *rc::gen::element<std::int64_t>(1, 2, 4),
            .pp = *rc::gen::element<std::int64_t>(1, 2, 4),
            .dp = *rc::gen::element<std::int64_t>(1, 2),
            .zero = *rc::gen::element(0, 1)};
  plan.sequence_parallel = plan.tp > 1 && *rc::gen::arbitrary<bool>();
  if (plan.pp > 1) {
    plan.schedule.kind =
        *rc::gen::element(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved_1f1b);
    if (plan.schedule.kind == ScheduleKind::interleaved_1f1b) plan.schedule.virtual_stages = 2;
  }
  Training training{.sequence_length = 2048, .global_batch = plan.dp * plan.pp * *rc::gen::inRange<std::int64_t>(1, 4)};
  training.gradients = *rc::gen::element(Precision::fp32, Precision::bf16);
  training.recompute = *rc::gen::element(Recompute::none, Recompute::selective, Recompute::full);
  training.recompute_method = *rc::gen::element(RecomputeMethod::uniform, RecomputeMethod::block);
  training.recompute_layers = *rc::gen::inRange<std::int64_t>(1, 4);
  training.stack.framework = *rc::gen::element(Framework::megatron, Framework::deepspeed, Framework::nanotron);
  training.loss = *rc::gen::element(LossKernel::fused, LossKernel::unfused, LossKernel::eager);
  training.stack.late_output_gradient = *rc::gen::arbitrary<bool>();
  RC_PRE(check(model, plan, training, plan.ranks()).empty());
  RC_ASSERT(first_difference(model, plan, training) == std::nullopt);
}

// With sharded gradients or parameters the closed form takes every unit for a layer: near, where no end is larger.
RC_GTEST_PROP(PeakProperties, IsNearThePlayedStepOfShards, ()) {
  const Model model = llama({16, 4096, 14336, 32, *rc::gen::element<std::int64_t>(8, 32), 32000});
  Plan plan{.pp = *rc::gen::element<std::int64_t>(1, 2),
            .dp = *rc::gen::element<std::int64_t>(2, 4),
            .zero = *rc::gen::element(2, 3),
            .gradient_sync = *rc::gen::element(GradientSync::last, GradientSync::each)};
  plan.sharding.prefetch = *rc::gen::inRange<std::int64_t>(0, 3);
  plan.sharding.reshard_after_forward = *rc::gen::arbitrary<bool>();
  Training training{.sequence_length = 2048, .global_batch = plan.dp * plan.pp * *rc::gen::inRange<std::int64_t>(1, 4)};
  training.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  training.stack.framework = *rc::gen::element(Framework::fsdp, Framework::deepspeed);
  const Workload w = generate(model, plan, training, h100_80gb(), any_cost(), true);
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    const double closed = counted(peak_memory(model, plan, training, stage).allocated());
    const double played = counted(peak_of_program(w.job.programs[static_cast<std::size_t>(stage)]).total());
    RC_LOG() << "closed " << closed / 1e9 << " played " << played / 1e9 << " stage " << stage << '\n';
    RC_ASSERT(std::abs(closed / played - 1) < 0.1);
  }
}

// ---- where the peak is ----

// 1F1B of eight equal stages: stage i keeps 8 - i microbatches, so the first is fullest, at the start of a backward.
TEST(Peak, OfOneForwardOneBackwardIsOnTheFirstStage) {
  const Model m = gpt(22, 2304, 24);  // two ends, each a layer lighter
  const Training training{.sequence_length = 1024, .global_batch = 64, .microbatch = 1};
  const Plan plan{.pp = 8};
  const Bytes layer = layer_activations(m, plan, training);
  for (std::int64_t stage = 0; stage < 7; ++stage) {
    const PeakMemory peak = peak_memory(m, plan, training, stage);
    EXPECT_EQ(peak.instant, PeakInstant::backward) << stage;
    const Bytes embedding = stage == 0 ? embedding_activations(m, plan, training) : Bytes();
    EXPECT_EQ(peak.parts[MemoryPart::activations], (8 - stage) * ((stage == 0 ? 2 : 3) * layer + embedding));
  }
}

// 14 bytes a logit of 32k tokens and 128k words are 59 GB: the loss is the peak, whatever the layers recompute.
TEST(Peak, OfLongContextIsTheLoss) {
  const Plan plan{.dp = 8, .zero = 3};
  const Training training{.sequence_length = 32768,
                          .global_batch = 8,
                          .recompute = Recompute::full,
                          .stack = {.framework = Framework::fsdp},
                          .loss = LossKernel::eager};
  const PeakMemory peak = peak_memory(llama3_8b(), plan, training, 0);
  EXPECT_EQ(peak.instant, PeakInstant::loss);
  EXPECT_GT(peak.allocated(), bytes(std::int64_t{14} * 32768 * 128256));
}

// A short sequence on one rank without sharding: the fp32 copy of half-precision gradients is larger than what the
// layers keep, so recompute cannot lower the peak.
TEST(Peak, OfShortSequencesIsTheUpdate) {
  Training training{.sequence_length = 128, .global_batch = 1, .gradients = Precision::bf16};
  const PeakMemory kept = peak_memory(llama3_8b(), {}, training, 0);
  EXPECT_EQ(kept.instant, PeakInstant::update);
  training.recompute = Recompute::full;
  EXPECT_EQ(peak_memory(llama3_8b(), {}, training, 0).total(), kept.total());
  EXPECT_EQ(kept.parts[MemoryPart::activations], Bytes());
}

TEST(Peak, InstantsHaveNames) {
  for (const PeakInstant instant : {PeakInstant::forward, PeakInstant::loss, PeakInstant::output_backward,
                                    PeakInstant::backward, PeakInstant::update})
    EXPECT_FALSE(to_text(instant).empty());
}

}  // namespace
}  // namespace foretrain
