// What data parallelism sends and holds where it is not one plain group: HSDP's sets of shards, of experts too;
// gradients between the microbatches of a step that exchanges once; what tensor-parallel ranks hold whole; tied ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/workloads/gpus.h"
#include "tests/workloads/messages.h"
#include "workloads/generate.h"
#include "workloads/memory.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

std::vector<std::vector<std::size_t>> numbers(const RankGroups& groups) {
  std::vector<std::vector<std::size_t>> all;
  for (const auto& group : groups) {
    auto& members = all.emplace_back();
    for (const RankId rank : group) members.push_back(rank.index());
  }
  return all;
}

Program program_of(const Model& model, const Plan& plan, const Training& training) {
  StageCost cost;
  for (LayerCost& layer : cost.layers) layer.qkv = {microseconds(1), microseconds(1), microseconds(1)};
  return generate(model, plan, training, h100_80gb(), cost, true).job.programs.front();
}

/// The most that operations of `label` hold at once.
std::int64_t most_held(const Program& program, std::string_view label) {
  std::int64_t now = 0, most = 0;
  for (const Operation& o : program.streams.front().operations) {
    if (o.kind != OperationKind::memory || program.labels[o.label] != label) continue;
    now += o.amount;
    most = std::max(most, now);
  }
  return most;
}

Model mixture() {
  Model m = llama({4, 256, 512, 8, 8, 1024});
  m.experts = Experts{.count = 4, .topk = 2, .ffn_hidden = 128};
  return m;
}

// Eight ranks in two sets of four; EP 2 leaves experts four replicas, two in each set.
TEST(Hsdp, ExpertsAreShardedInsideASetAndSummedAcross) {
  const Model m = mixture();
  const Plan plan{.dp = 8, .ep = 2, .zero = 1, .hsdp_shard = 4};
  EXPECT_THAT(numbers(expert_shard_groups(plan)),
              ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6), ElementsAre(1, 3), ElementsAre(5, 7)));
  EXPECT_THAT(numbers(expert_shard_replica_groups(plan)),
              ElementsAre(ElementsAre(0, 4), ElementsAre(2, 6), ElementsAre(1, 5), ElementsAre(3, 7)));
  const Program program = program_of(m, plan, {.sequence_length = 128, .global_batch = 8});
  const std::int64_t experts = std::int64_t{4} * 2 * 3 * 256 * 128;
  EXPECT_EQ(message_bytes(program, Collective::reduce_scatter, Slot::edp), 4 * experts);
  EXPECT_EQ(message_bytes(program, Collective::all_reduce, Slot::edp_replica), 4 * experts / 2);
  EXPECT_EQ(message_bytes(program, Collective::all_gather, Slot::edp), 2 * experts);
}

// FSDP2 without communication but for the last microbatch: fp32 sums of all, and one unit's half-precision gradients.
TEST(GradientSync, OnceAStepHoldsSumsOfWholeGradients) {
  const Model m = llama({4, 256, 512, 8, 8, 1024});
  Plan plan{.dp = 2, .zero = 3, .gradient_sync = GradientSync::last};
  const Training training{.sequence_length = 128, .global_batch = 6, .stack = {.framework = Framework::fsdp}};
  const std::int64_t unit = std::max(m.layer_parameters({}), m.output_parameters());
  EXPECT_EQ(most_held(program_of(m, plan, training), "gradients") - m.parameters() * 4 / 2,
            4 * m.parameters() + 2 * unit);
  plan.gradient_sync = GradientSync::each;
  EXPECT_EQ(most_held(program_of(m, plan, training), "gradients") - m.parameters() * 4 / 2, (4 + 2) * unit);
}

// Sequence parallelism: all that is not split sees other tokens on each rank.
TEST(SequenceParallel, SumsTheGradientsOfWhatIsWhole) {
  const Training training{.sequence_length = 128, .global_batch = 1};
  const Plan plan{.tp = 2, .sequence_parallel = true};
  const auto summed = [&](const Model& model) {
    const Training none{.sequence_length = 128, .global_batch = 1};
    const std::int64_t losses = 3 * 4 * 128;  // maximum, own logit, sum: a number a token
    return message_bytes(program_of(model, plan, none), Collective::all_reduce, Slot::tp) - losses;
  };
  Model m = llama({4, 256, 512, 8, 8, 1024});
  EXPECT_EQ(summed(m), 4 * (4 * 2 + 1) * 256);
  m.single_norm = true;
  EXPECT_EQ(summed(m), 4 * (4 * 1 + 1) * 256);
  m.single_norm = false;
  m.post_norms = m.qk_norm = true;  // heads of 32
  EXPECT_EQ(summed(m), 4 * (4 * (4 * 256 + 2 * 32) + 256));
  m = gpt(4, 256, 8, 1024);  // weight and bias of norms; biases behind projection and FC2
  EXPECT_EQ(summed(m), 4 * (4 * (2 * 2 + 2) + 2) * 256);
  m = mixture();
  EXPECT_EQ(summed(m), 4 * (4 * (2 * 256 + 4 * 256) + 256));  // routers
}

// A rank with both ends has one table: nothing to sum, nothing held twice.
TEST(TiedEmbedding, IsThereOnceWhereBothEndsMeet) {
  const Model m = gpt(6, 256, 8, 1024);
  const Training training{.sequence_length = 128, .global_batch = 8};
  const std::int64_t table = 1024 * 256;
  const auto held = [&](const Plan& plan) {
    std::int64_t sum = 0;
    for (std::int64_t stage = 0; stage < plan.stages(); ++stage) sum += stage_parameters(m, plan, stage);
    return sum;
  };
  const Plan loop{.pp = 2};
  EXPECT_EQ(held(loop), m.parameters() + table);
  EXPECT_EQ(message_bytes(program_of(m, loop, training), Collective::all_reduce, Slot::embedding), 4 * table);
  for (const ScheduleKind kind : {ScheduleKind::zbv, ScheduleKind::dualpipev, ScheduleKind::dualpipe}) {
    const Plan meets{.pp = 2, .schedule = {kind, 2}};
    EXPECT_EQ(held(meets), m.parameters()) << to_text(kind);
    EXPECT_EQ(message_bytes(program_of(m, meets, training), Collective::all_reduce, Slot::embedding), 0)
        << to_text(kind);
  }
}

}  // namespace
}  // namespace foretrain
