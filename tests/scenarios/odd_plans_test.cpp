// Impossible plans are refused with every broken rule at once and the nearest legal values; legal but odd ones run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/result.h"
#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using namespace foretrain::testing;
using ::testing::ElementsAre;

/// The lines that say what is wrong, without the places and the source below them.
std::vector<std::string> rules(const std::string& text, const std::vector<std::string>& sets = {}) {
  std::vector<std::string> found;
  const std::string all = mistakes(text, sets);
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string line = all.substr(at, end - at);
    if (line.starts_with("s.yaml") || line.starts_with("--set")) found.push_back(line.substr(line.find(": ") + 2));
    at = end + 1;
  }
  return found;
}

/// Mixtral 8x7B on four DGX H100.
const char* const experts =
    "model: mixtral-8x7b\n"
    "cluster: {use: dgx-h100-ndr, gpus: 32}\n"
    "training:\n"
    "  sequence_length: 4096\n"
    "  global_batch: 64\n"
    "parallelism:\n"
    "  tp: 2\n"
    "  pp: 2\n"
    "  ep: 8\n";

TEST(ImpossiblePlan, NoneInTheTextsThatTheOthersChange) { EXPECT_THAT(rules(experts), ElementsAre()); }

TEST(ImpossiblePlan, EveryBrokenRuleAtOnce) {
  const std::string text =
      "model: mixtral-8x7b\n"
      "cluster: {use: dgx-h100-ndr, gpus: 256}\n"
      "training: {sequence_length: 4098, global_batch: 100}\n"
      "parallelism:\n"
      "  tp: 5\n"
      "  cp: 4\n"
      "  pp: 4\n"
      "  ep: 3\n"
      "  etp: 7\n"
      "  hsdp: {shard: 5}\n"
      "  schedule: {kind: interleaved_1f1b, virtual_stages: 20}\n";
  EXPECT_THAT(
      rules(text),
      ElementsAre(
          "cluster.gpus: tp 5 x cp 4 x pp 4 x dp 3 = 240 ranks, but there are 256 GPUs; gpus allowed: multiples of 80; "
          "nearest: 240",
          "training.sequence_length: sequence_length 4098 does not split into two equal parts a rank for cp 4; "
          "allowed: "
          "multiples of 8; nearest: 4096",
          "training.global_batch: global_batch 100 is not a multiple of microbatch 1 x dp 3 = 3; allowed: multiples of "
          "3; nearest: 99",
          "parallelism.tp: tp 5 does not divide 32 heads; allowed: 1, 2, 4, 8, 16, 32; nearest: 4",
          "parallelism.tp: tp 5 neither divides 8 KV heads nor is a multiple of 8; allowed: 1, 2, 4, 8, 16, 32; "
          "nearest: 4",
          "parallelism.tp: tp 5 does not divide ffn_hidden 14336; allowed: 1, 2, 4, 8, 16, 32; nearest: 4",
          "parallelism.ep: ep 3 does not divide 8 experts; allowed: 1; nearest: 1",
          "parallelism.ep: etp 7 x ep 3 does not divide tp 5 x cp 4 x dp 3 = 60 ranks of a stage; ep allowed: 1; "
          "nearest: 1",
          "parallelism.hsdp: hsdp shard 5 does not divide the 12 ranks that hold the same parameters; allowed: 1, 2, "
          "3, 4, 6, 12; nearest: 4 or 6",
          "parallelism.schedule.virtual_stages: pp 4 x virtual_stages 20 = 80 stages for 32 layers; allowed: 1 to 32 "
          "stages, or 34 with the embedding and the loss on stages of their own; nearest: virtual_stages 8"));
}

TEST(ImpossiblePlan, HeadsAndKeyValueHeads) {
  EXPECT_THAT(rules(good, {"parallelism.tp=3", "parallelism.dp=5", "cluster.gpus=15"}),
              ::testing::Contains("tp 3 does not divide 32 heads; allowed: 1, 2, 4, 8, 16, 32; nearest: 2 or 4"));
}

TEST(ImpossiblePlan, Experts) {
  EXPECT_THAT(rules(experts, {"parallelism.ep=6"}),
              ElementsAre("ep 6 does not divide 8 experts; allowed: 1, 2, 4, 8; nearest: 4 or 8",
                          "etp 1 x ep 6 does not divide tp 2 x cp 1 x dp 8 = 16 ranks of a stage; ep allowed: 1, 2, 4, "
                          "8; nearest: 4 or 8"));
  EXPECT_THAT(rules(experts, {"parallelism.etp=4"}),
              ElementsAre("etp 4 x ep 8 does not divide tp 2 x cp 1 x dp 8 = 16 ranks of a stage; ep allowed: 1, 2, 4; "
                          "nearest: 4"));
  EXPECT_THAT(rules(good, {"parallelism.ep=2"}), ElementsAre("ep 2 for a model without experts; allowed: 1"));
  EXPECT_THAT(rules(experts, {"parallelism.sequence_parallel=false"}),
              ElementsAre("experts with tp 2 and without sequence_parallel; allowed: sequence_parallel true, or tp 1"));
}

TEST(ImpossiblePlan, Context) {
  EXPECT_THAT(
      rules(good, {"parallelism.cp=4", "parallelism.dp=2", "training.sequence_length=8196"}),
      ElementsAre("tp 2 does not divide sequence_length 8196 / cp 4, which sequence_parallel splits; allowed: "
                  "1; nearest: 1",
                  "sequence_length 8196 does not split into two equal parts a rank for cp 4; allowed: multiples "
                  "of 8; nearest: 8192 or 8200"));
  EXPECT_THAT(rules(good, {"parallelism.cp=8", "parallelism.dp=1", "parallelism.context=all_to_all"}),
              ElementsAre());  // 32 heads over 16 ranks, 8 KV heads twice each
  EXPECT_THAT(
      rules(good,
            {"cluster.gpus=48", "parallelism.cp=3", "parallelism.context=all_to_all", "training.sequence_length=6144"}),
      ElementsAre("cp 3 with context all_to_all does not divide 32 heads and 8 KV heads on tp 2; allowed: 1, 2, "
                  "4, 8, 16; nearest: 2 or 4"));
}

/// More data-parallel replicas than sequences leave some with nothing: the batch bounds DP.
TEST(ImpossiblePlan, MoreReplicasThanTheBatchHasSequences) {
  EXPECT_THAT(
      rules(good, {"training.global_batch=4"}),
      ElementsAre("global_batch 4 is not a multiple of microbatch 1 x dp 8 = 8; allowed: multiples of 8; nearest: "
                  "8"));
}

TEST(ImpossiblePlan, Sharding) {
  EXPECT_THAT(
      rules(good, {"parallelism.hsdp.shard=3"}),
      ElementsAre("hsdp shard 3 does not divide the 8 ranks that hold the same parameters; allowed: 1, 2, 4, 8; "
                  "nearest: 2 or 4"));
  EXPECT_THAT(rules(good, {"parallelism.hsdp.shard=4", "parallelism.zero=0"}),
              ElementsAre("hsdp with zero 0, which shards nothing; allowed: zero 1, 2 or 3"));
  EXPECT_THAT(rules(good, {"parallelism.offload=cpu"}),
              ElementsAre("state on the host (offload) is not modelled; allowed: none"));
}

TEST(ImpossiblePlan, StageLayers) {
  EXPECT_THAT(rules(good, {"parallelism.pp=4", "parallelism.dp=2", "parallelism.stage_layers=[8, 0, 12, 13]"}),
              ElementsAre("stage_layers adds up to 33 layers, but the model has 32; allowed: 32 in all",
                          "stage_layers gives stage 1 0 layers; allowed: 1 or more, and 0 at either end"));
  EXPECT_THAT(rules(good, {"parallelism.pp=4", "parallelism.dp=2", "parallelism.stage_layers=[16, 16]"}),
              ElementsAre("stage_layers names 2 stages, but the plan has 4; allowed: one number a stage"));
}

// ---- odd, but legal ----

/// A small Llama and a small mixture, so that any plan plays in a moment.
const char* const tiny =
    "{layers: 8, hidden: 768, ffn_hidden: 3072, heads: 12, kv_heads: 6, vocabulary: 1000, positions: rotary}";

Result played(std::int64_t gpus, std::int64_t batch, const std::vector<std::string>& sets = {},
              const std::string& model = tiny) {
  return rehearse(parse(fmt::format("model: {}\ncluster: {{use: dgx-h100-ndr, gpus: {}}}\n"
                                    "training: {{sequence_length: 1536, global_batch: {}}}\n",
                                    model, gpus, batch),
                        sets));
}

void expect_sound(const Result& r) {
  EXPECT_GT(r.step_time_s, 0);
  EXPECT_NEAR(r.breakdown.total(), r.step_time_s, 1e-9 * r.step_time_s);
}

TEST(OddPlan, OneGpu) {
  const Result r = played(1, 4);
  expect_sound(r);
  EXPECT_TRUE(r.communication.empty());
}

TEST(OddPlan, ThreeRanks) {
  for (const char* axis : {"dp", "pp", "cp"}) expect_sound(played(3, 6, {fmt::format("parallelism.{}=3", axis)}));
}

TEST(OddPlan, TensorParallelSix) {
  expect_sound(played(6, 2, {"parallelism.tp=6"}));
  // Twelve ranks hold six KV heads twice each.
  expect_sound(played(24, 2, {"parallelism.tp=12"}));
}

/// The bubble of p stages and m < p microbatches is still (p-1)/(m+p-1) of what computes; here most of the step.
TEST(OddPlan, FewerMicrobatchesThanStages) {
  const Result r = played(8, 2, {"parallelism.pp=8"});
  expect_sound(r);
  EXPECT_NEAR(r.bubble_fraction, 7.0 / 9, 0.1);  // stages with embedding and loss take longer
}

TEST(OddPlan, ExpertsWithoutTensorParallelism) {
  const std::string mixture =
      "{layers: 4, hidden: 768, ffn_hidden: 1024, heads: 12, vocabulary: 1000, positions: rotary, activation: swiglu, "
      "experts: {count: 6, topk: 2, ffn_hidden: 1024}}";
  for (const std::int64_t ep : {1, 2, 3, 6})
    expect_sound(played(6, 6, {fmt::format("parallelism.ep={}", ep)}, mixture));
}

}  // namespace
}  // namespace foretrain
