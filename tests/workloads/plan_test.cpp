#include "workloads/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "tests/workloads/gpus.h"

namespace foretrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Plan llama3_plan() {
  return {.tp = 8,
          .pp = 16,
          .dp = 128,
          .sequence_parallel = true,
          .zero = 1,
          .schedule = {.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 8}};
}
Training llama3_training() { return {.sequence_length = 8192, .global_batch = 2048}; }

std::vector<std::string> messages(const Model& model, const Plan& plan, const Training& training, std::int64_t gpus) {
  std::vector<std::string> found;
  for (const PlanError& e : check(model, plan, training, gpus)) {
    EXPECT_FALSE(e.keys.empty()) << e.message;
    found.push_back(e.message);
  }
  return found;
}

Plan any_plan() {
  Plan plan{.tp = *rc::gen::inRange<std::int64_t>(1, 5),
            .cp = *rc::gen::inRange<std::int64_t>(1, 4),
            .pp = *rc::gen::inRange<std::int64_t>(1, 5),
            .dp = *rc::gen::inRange<std::int64_t>(1, 5)};
  const int permutation = *rc::gen::inRange(0, 120);
  for (int i = 0; i < permutation; ++i) std::next_permutation(plan.order.begin(), plan.order.end());
  return plan;
}

TEST(Plan, TensorParallelRanksAreNeighboursByDefault) {
  const Plan plan = llama3_plan();
  EXPECT_EQ(plan.ranks(), 16384);
  EXPECT_EQ(plan.stages(), 128);
  EXPECT_THAT(groups(plan, Axis::tp)[1], ElementsAre(RankId{8}, RankId{9}, RankId{10}, RankId{11}, RankId{12},
                                                     RankId{13}, RankId{14}, RankId{15}));
  const Coordinates at = coordinates_of(plan, RankId{8 * 128 * 3 + 8 * 5 + 6});  // pp 3, dp 5, tp 6
  EXPECT_EQ(at.pp, 3);
  EXPECT_EQ(at.dp, 5);
  EXPECT_EQ(at.tp, 6);
  EXPECT_EQ(at.cp, 0);
}

TEST(Plan, FirstAxisOfTheOrderVariesFastest) {
  const Plan plan{.tp = 2, .pp = 3, .order = {Axis::pp, Axis::tp, Axis::cp, Axis::ep, Axis::dp}};
  EXPECT_THAT(groups(plan, Axis::pp),
              ElementsAre(ElementsAre(RankId{0}, RankId{1}, RankId{2}), ElementsAre(RankId{3}, RankId{4}, RankId{5})));
  EXPECT_THAT(groups(plan, Axis::tp), ElementsAre(ElementsAre(RankId{0}, RankId{3}), ElementsAre(RankId{1}, RankId{4}),
                                                  ElementsAre(RankId{2}, RankId{5})));
}

RC_GTEST_PROP(PlanProperties, RankAndCoordinatesAreInverse, ()) {
  const Plan plan = any_plan();
  for (std::int64_t r = 0; r < plan.ranks(); ++r) {
    const RankId rank = id_at<RankId>(static_cast<std::size_t>(r));
    const Coordinates at = coordinates_of(plan, rank);
    RC_ASSERT(at.tp < plan.tp && at.cp < plan.cp && at.dp < plan.dp && at.pp < plan.pp);
    RC_ASSERT(rank_at(plan, at) == rank);
  }
}

/// The coordinate along `axis`, taken out: what is left is the same for all members of a group.
std::int64_t take_coordinate(Coordinates& at, Axis axis) {
  std::int64_t none = 0;
  std::int64_t& along = axis == Axis::tp   ? at.tp
                        : axis == Axis::cp ? at.cp
                        : axis == Axis::dp ? at.dp
                        : axis == Axis::pp ? at.pp
                                           : none;
  return std::exchange(along, 0);
}

RC_GTEST_PROP(PlanProperties, GroupsDifferAlongTheirAxisOnly, ()) {
  const Plan plan = any_plan();
  const Axis axis = *rc::gen::elementOf(std::vector<Axis>(std::begin(all_axes), std::end(all_axes)));
  for (const std::vector<RankId>& group : groups(plan, axis)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      Coordinates at = coordinates_of(plan, group[i]);
      RC_ASSERT(take_coordinate(at, axis) == static_cast<std::int64_t>(i));
      RC_ASSERT(rank_at(plan, at) == group.front());
    }
  }
}

RC_GTEST_PROP(PlanProperties, GroupsOfAnAxisHoldEveryRankOnceInOrderOfTheirFirst, ()) {
  const Plan plan = any_plan();
  const Axis axis = *rc::gen::elementOf(std::vector<Axis>(std::begin(all_axes), std::end(all_axes)));
  std::set<RankId> seen;
  std::vector<RankId> firsts;
  for (const std::vector<RankId>& group : groups(plan, axis)) {
    firsts.push_back(group.front());
    for (const RankId rank : group) RC_ASSERT(seen.insert(rank).second);
  }
  RC_ASSERT(static_cast<std::int64_t>(seen.size()) == plan.ranks());
  RC_ASSERT(std::is_sorted(firsts.begin(), firsts.end()));
}

// Llama 3 paper, 3.3.2: one layer less on the first and the last stage.
TEST(Plan, LayersLeaveSlotsForEmbeddingAndLossWhereThatDivides) {
  const std::vector<std::int64_t> layers = layers_by_stage(llama3_405b(), llama3_plan());
  ASSERT_EQ(layers.size(), 128U);
  EXPECT_EQ(layers.front(), 0);
  EXPECT_EQ(layers.back(), 0);
  EXPECT_TRUE(std::all_of(layers.begin() + 1, layers.end() - 1, [](std::int64_t n) { return n == 1; }));
}

TEST(Plan, LayersRemainderStartsOnTheSecondStage) {
  EXPECT_THAT(layers_by_stage(gpt(11, 64, 1), Plan{.pp = 4}), ElementsAre(2, 3, 3, 3));
  EXPECT_THAT(layers_by_stage(gpt(12, 64, 1), Plan{.pp = 4}), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(layers_by_stage(gpt(10, 64, 1), Plan{.pp = 4}), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(layers_by_stage(gpt(7, 64, 1), Plan{}), ElementsAre(7));
}

RC_GTEST_PROP(PlanProperties, LayersAddUpAndDifferByOneAtMost, ()) {
  const std::int64_t l = *rc::gen::inRange<std::int64_t>(1, 200);
  const std::int64_t stages = *rc::gen::inRange<std::int64_t>(1, l + 1);
  const std::vector<std::int64_t> layers = layers_by_stage(gpt(l, 64, 1), Plan{.pp = stages});
  RC_ASSERT(static_cast<std::int64_t>(layers.size()) == stages);
  RC_ASSERT(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == l);
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  RC_ASSERT(*least >= 1 && *most - *least <= 1);
}

TEST(Plan, VocabularyIsPaddedAsMegatronDoes) {
  // GPT-2's 50257 becomes the 50304 and, with TP 8, the 51200 of NVIDIA's papers.
  EXPECT_EQ(padded_vocabulary(gpt(1, 64, 1, 50257), Plan{}), 50304);
  EXPECT_EQ(padded_vocabulary(gpt(1, 64, 1, 50257), Plan{.tp = 8}), 51200);
}

TEST(Plan, MicrobatchesOfOneReplica) { EXPECT_EQ(microbatches(llama3_plan(), llama3_training()), 16); }

TEST(PlanCheck, PublishedPlansAreLegal) {
  EXPECT_THAT(messages(llama3_405b(), llama3_plan(), llama3_training(), 16384), IsEmpty());
  // Narayanan 2021, table 1: 145B and 1008B.
  const Plan plan{.tp = 8, .pp = 64, .dp = 6};
  EXPECT_THAT(messages(gpt(128, 25600, 160), plan, {.sequence_length = 2048, .global_batch = 3072}, 3072), IsEmpty());
  EXPECT_THAT(messages(llama3_8b(), Plan{}, {.sequence_length = 8192, .global_batch = 1}, 1), IsEmpty());
}

TEST(PlanCheck, NamesTheNearestLegalTensorParallelism) {
  Plan plan = llama3_plan();
  plan.tp = 7;
  plan.sequence_parallel = false;
  EXPECT_THAT(messages(llama3_405b(), plan, llama3_training(), plan.ranks()),
              ElementsAre("tp 7 does not divide 128 heads; allowed: 1, 2, 4, 8, 16, 32, 64, 128; nearest: 8",
                          "tp 7 neither divides 8 KV heads nor is a multiple of 8; allowed: 1, 2, 4, 8, 16, 32, 64, "
                          "128; nearest: 8",
                          "tp 7 does not divide ffn_hidden 53248; allowed: 1, 2, 4, 8, 16, 32, 64, 128; nearest: 8"));
  EXPECT_EQ(check(llama3_405b(), plan, llama3_training(), plan.ranks())[0].keys.front(), "parallelism.tp");
}

TEST(PlanCheck, TensorParallelismMayExceedKvHeadsByAMultiple) {
  Plan plan = llama3_plan();
  plan.tp = 16;
  plan.dp = 64;
  EXPECT_THAT(messages(llama3_405b(), plan, llama3_training(), 16384), IsEmpty());
}

TEST(PlanCheck, SequenceParallelismSplitsTheSequence) {
  const Plan plan{.tp = 8, .sequence_parallel = true};
  EXPECT_THAT(messages(llama3_8b(), plan, {.sequence_length = 1020, .global_batch = 1}, 8),
              ElementsAre("tp 8 does not divide sequence_length 1020, which sequence_parallel splits; "
                          "allowed: 1, 2, 4; nearest: 4"));
}

TEST(PlanCheck, RanksMustBeTheGpus) {
  EXPECT_THAT(messages(llama3_405b(), llama3_plan(), llama3_training(), 8192),
              ElementsAre("tp 8 x cp 1 x pp 16 x dp 128 = 16384 ranks, but there are 8192 GPUs; allowed: dp 64"));
  EXPECT_THAT(messages(llama3_405b(), llama3_plan(), llama3_training(), 8200),
              ElementsAre("tp 8 x cp 1 x pp 16 x dp 128 = 16384 ranks, but there are 8200 GPUs; gpus allowed: "
                          "multiples of 128; nearest: 8192"));
}

TEST(PlanCheck, BatchMustSplitIntoMicrobatches) {
  const Training training{.sequence_length = 2048, .global_batch = 40, .microbatch = 2};
  EXPECT_THAT(messages(gpt(8, 512, 8), Plan{.dp = 8}, training, 8),
              ElementsAre("global_batch 40 is not a multiple of microbatch 2 x dp 8 = 16; "
                          "allowed: multiples of 16; nearest: 32 or 48"));
}

TEST(PlanCheck, InterleavedRules) {
  Plan plan{.pp = 4, .schedule = {.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 2}};
  const Model model = gpt(8, 512, 8);
  EXPECT_THAT(messages(model, plan, {.sequence_length = 2048, .global_batch = 8}, 4), IsEmpty());
  EXPECT_THAT(
      messages(model, plan, {.sequence_length = 2048, .global_batch = 9}, 4),
      ElementsAre("9 microbatches do not make 2 equal groups, as interleaved_1f1b on pp 4 needs; allowed: "
                  "multiples of 4, or another microbatch_group; nearest: 8 microbatches, or microbatch_group 5"));
  plan.schedule.virtual_stages = 1;
  EXPECT_THAT(messages(model, plan, {.sequence_length = 2048, .global_batch = 8}, 4),
              ElementsAre("virtual_stages 1 with schedule interleaved_1f1b; allowed: 2 or more, or schedule 1f1b"));
  plan.schedule = {.kind = ScheduleKind::one_f_one_b, .virtual_stages = 2};
  EXPECT_THAT(messages(model, plan, {.sequence_length = 2048, .global_batch = 8}, 4),
              ElementsAre("virtual_stages 2 with schedule 1f1b; allowed: 1, or more with interleaved_1f1b"));
  plan = {.schedule = {.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 2}};
  EXPECT_THAT(messages(model, plan, {.sequence_length = 2048, .global_batch = 8}, 1),
              ElementsAre("schedule interleaved_1f1b with pp 1; allowed: pp 2 or more, or schedule 1f1b"));
}

TEST(PlanCheck, StagesHoldALayerEach) {
  EXPECT_THAT(messages(gpt(8, 512, 8), Plan{.pp = 12}, {.sequence_length = 2048, .global_batch = 12}, 12),
              ElementsAre("pp 12 x virtual_stages 1 = 12 stages for 8 layers; allowed: 1 to 8 stages, or 10 with the "
                          "embedding and the loss on stages of their own; nearest: pp 10"));
  Plan plan = llama3_plan();
  plan.schedule.virtual_stages = 9;
  EXPECT_THAT(messages(llama3_405b(), plan, llama3_training(), 16384),
              ElementsAre("pp 16 x virtual_stages 9 = 144 stages for 126 layers; allowed: 1 to 126 stages, or 128 with "
                          "the embedding and the loss on stages of their own; nearest: virtual_stages 8"));
  plan = {.pp = 6, .schedule = {.kind = ScheduleKind::zbv, .virtual_stages = 2}};  // chunks are not a choice
  EXPECT_THAT(messages(gpt(8, 512, 8), plan, {.sequence_length = 2048, .global_batch = 12}, 6),
              ElementsAre("pp 6 x virtual_stages 2 = 12 stages for 8 layers; allowed: 1 to 8 stages, or 10 with the "
                          "embedding and the loss on stages of their own; nearest: pp 5"));
  plan.schedule.kind = ScheduleKind::dualpipe;  // both chunks of a rank are copies of stages
  EXPECT_THAT(messages(gpt(8, 512, 8), plan, {.sequence_length = 2048, .global_batch = 12}, 6), IsEmpty());
}

TEST(PlanCheck, RemainingRules) {
  Plan plan{.cp = 2, .zero = 4, .order = {Axis::tp, Axis::tp, Axis::ep, Axis::dp, Axis::pp}};
  Training training{.sequence_length = 4096, .global_batch = 1, .gradients = Precision::fp8};
  training.recompute = Recompute::selective;
  training.recompute_modules.clear();
  Model model = gpt(8, 512, 8);
  model.kv_heads = 3;
  EXPECT_THAT(messages(model, plan, training, 2),
              ElementsAre("kv_heads 3 does not divide 8 heads; allowed: 1, 2, 4, 8; nearest: 2 or 4",
                          "sequence_length 4096 is longer than the model's 2048 learned positions; allowed: 1 to 2048; "
                          "nearest: 2048",
                          "zero 4; allowed: 0, 1, 2, 3",
                          "order does not name every axis once; allowed: tp, cp, ep, dp, pp in any order",
                          "gradients fp8; allowed: fp32, bf16, fp16",
                          "recompute selective without modules; allowed: attention, norm, activation, latent, mlp, "
                          "experts, matmul, projection"));
}

// A rule that nothing can meet because another is broken stays silent.
TEST(PlanCheck, NamesOnlyRulesThatSomethingMeets) {
  const Model model = llama({8, 768, 2304, 12, 8, 32000});
  Plan plan{.tp = 2, .cp = 3, .sequence_parallel = true};
  EXPECT_THAT(messages(model, plan, {.sequence_length = 4096, .global_batch = 1}, 6),
              ElementsAre(StartsWith("kv_heads 8 does not divide 12 heads"),
                          "sequence_length 4096 does not split into two equal parts a rank for cp 3; allowed: "
                          "multiples of 6; nearest: 4098"));
  plan = {.tp = 3, .cp = 2, .context = ContextExchange::all_to_all};
  EXPECT_THAT(messages(model, plan, {.sequence_length = 4096, .global_batch = 1}, 6),
              ElementsAre(StartsWith("kv_heads 8 does not divide 12 heads"),
                          StartsWith("tp 3 neither divides 8 KV heads nor is a multiple of 8; allowed: 1, 2, 4")));
}

// What overlaps are the gathers and scatters of sequence parallelism (Megatron-Core asserts the same).
TEST(PlanCheck, TensorOverlapNeedsSequenceParallelism) {
  Plan plan{.tp = 2, .overlap = {.tp = true}};
  const Training training{.sequence_length = 2048, .global_batch = 1};
  EXPECT_THAT(
      messages(gpt(8, 512, 8), plan, training, 2),
      ElementsAre("overlap.tp without sequence_parallel, whose gathers and scatters it hides; allowed: false, or "
                  "sequence_parallel true"));
  plan.sequence_parallel = true;
  EXPECT_THAT(messages(gpt(8, 512, 8), plan, training, 2), IsEmpty());
}

TEST(PlanCheck, EveryNumberMustBePositive) {
  Plan plan{.tp = 0, .dp = -2};
  EXPECT_THAT(messages(gpt(8, 512, 8), plan, {.sequence_length = 2048, .global_batch = 0}, 8),
              ElementsAre("tp is 0; allowed: 1 or more", "dp is -2; allowed: 1 or more",
                          "global_batch is 0; allowed: 1 or more"));
}

// What the rest of the program may rely on when `check` finds nothing, and only then.
RC_GTEST_PROP(PlanProperties, CheckAcceptsExactlyWhatSplitsEvenly, ()) {
  const Model model =
      llama({*rc::gen::inRange<std::int64_t>(1, 9), 768, 672, 12, *rc::gen::element<std::int64_t>(2, 4), 1000});
  const Plan plan{.tp = *rc::gen::inRange<std::int64_t>(1, 13),
                  .pp = *rc::gen::inRange<std::int64_t>(1, 11),
                  .dp = *rc::gen::inRange<std::int64_t>(1, 4),
                  .sequence_parallel = *rc::gen::arbitrary<bool>()};
  const Training training{.sequence_length = *rc::gen::element<std::int64_t>(96, 128),
                          .global_batch = *rc::gen::inRange<std::int64_t>(1, 13),
                          .microbatch = *rc::gen::inRange<std::int64_t>(1, 3)};
  const bool heads = 12 % plan.tp == 0;
  const bool kv = model.kv_heads % plan.tp == 0 || plan.tp % model.kv_heads == 0;
  const bool ffn = model.ffn_hidden % plan.tp == 0;
  const bool sequence = !plan.sequence_parallel || training.sequence_length % plan.tp == 0;
  const bool batch = training.global_batch == microbatches(plan, training) * training.microbatch * plan.dp;
  const bool stages = plan.pp <= model.layers || plan.pp == model.layers + 2;
  const std::size_t broken = static_cast<std::size_t>(!heads) + !kv + !ffn + !sequence + !batch + !stages;
  RC_ASSERT(check(model, plan, training, plan.ranks()).size() == broken);
}

}  // namespace
}  // namespace foretrain
