// Bytes a parameter, by recipe and ZeRO stage.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/workloads/gpus.h"
#include "tests/workloads/memory/support.h"

namespace foretrain {
namespace {

Bytes states(std::int64_t n, int zero, std::int64_t dp, Precision gradients) {
  return state_bytes({.dense = n}, {.dp = dp, .zero = zero}, {.gradients = gradients}).total();
}

// Rajbhandari 2020, section 5, with half-precision gradients (16 N; 4 N + 12 N/d; 2 N + 14 N/d; 16 N/d), and the table
// of Megatron-Core's distributed optimizer with fp32 ones (18; 6 + 12/d).
RC_GTEST_PROP(StateProperties, FollowZero, ()) {
  const std::int64_t d = *rc::gen::inRange<std::int64_t>(1, 1025);
  const std::int64_t n = d * *rc::gen::inRange<std::int64_t>(1, 1'000'000);
  RC_ASSERT(states(n, 0, d, Precision::bf16) == bytes(16 * n));
  RC_ASSERT(states(n, 1, d, Precision::bf16) == bytes(4 * n + 12 * n / d));
  RC_ASSERT(states(n, 2, d, Precision::bf16) == bytes(2 * n + 14 * n / d));
  RC_ASSERT(states(n, 3, d, Precision::bf16) == bytes(16 * n / d));
  RC_ASSERT(states(n, 0, d, Precision::fp32) == bytes(18 * n));
  RC_ASSERT(states(n, 1, d, Precision::fp32) == bytes(6 * n + 12 * n / d));
}

// The figures that the ZeRO paper and its retellings print, in 1e9 bytes.
TEST(States, PublishedZeroFigures) {
  const auto in_gb = [](double billions, int zero, std::int64_t d) {
    return counted(states(static_cast<std::int64_t>(billions * 1e9), zero, d, Precision::fp16)) / 1e9;
  };
  EXPECT_NEAR(in_gb(7.5, 0, 64), 120, 0.05);
  EXPECT_NEAR(in_gb(7.5, 1, 64), 31.4, 0.05);
  EXPECT_NEAR(in_gb(7.5, 2, 64), 16.6, 0.05);
  EXPECT_NEAR(in_gb(7.5, 3, 64), 1.9, 0.05);
  EXPECT_NEAR(in_gb(30, 0, 16), 480, 0.005);
  EXPECT_NEAR(in_gb(30, 1, 16), 142.5, 0.005);
  EXPECT_NEAR(in_gb(30, 2, 16), 86.25, 0.005);
  EXPECT_NEAR(in_gb(30, 3, 16), 30, 0.005);
  EXPECT_NEAR(in_gb(7, 0, 8), 112, 0.005);
  EXPECT_NEAR(in_gb(7, 3, 8), 14, 0.005);
}

// Ten parameters on three ranks: one holds four, 12 bytes each.
TEST(States, UnevenSharesRoundUp) {
  EXPECT_EQ(state_bytes({.dense = 10}, {.dp = 3, .zero = 1}, {}).optimizer, bytes(48));
}

TEST(States, FullPrecisionNeedsNoMasterCopy) {
  EXPECT_EQ(state_bytes({.dense = 100}, {}, {.precision = Precision::fp32}).total(), bytes(1600));
}

// Context parallelism is folded into the group that ZeRO shares over.
TEST(States, ContextParallelRanksShareToo) {
  EXPECT_EQ(state_bytes({.dense = 1200}, {.cp = 2, .dp = 3, .zero = 3}, {.gradients = Precision::bf16}).total(),
            bytes(16 * 200));
}

// HSDP shards inside a group and replicates across groups: 16/4 bytes a parameter, not 16/32.
TEST(States, HybridShardingSharesInsideAGroup) {
  const Plan plan{.dp = 32, .zero = 3, .hsdp_shard = 4};
  EXPECT_EQ(state_bytes({.dense = 4000}, plan, {.gradients = Precision::bf16}).total(), bytes(16 * 1000));
}

// 16 ranks, EP 8: experts have two replicas, dense parameters sixteen.
TEST(States, ExpertsAreSharedByThoseThatHoldTheSame) {
  const Plan plan{.dp = 16, .ep = 8, .zero = 1};
  EXPECT_EQ(plan.expert_shard_ranks(), 2);
  EXPECT_EQ(state_bytes({.dense = 1600, .expert = 800}, plan, {}).optimizer, bytes(12 * (1600 / 16 + 800 / 2)));
  // ETP 2 and TP 4: 4 x 4 / (2 x 2) replicas.
  EXPECT_EQ((Plan{.tp = 4, .dp = 4, .ep = 2, .etp = 2}.expert_shard_ranks()), 4);
  // Two HSDP groups of eight: the two replicas lie in different groups, so nobody shares.
  EXPECT_EQ((Plan{.dp = 16, .ep = 8, .hsdp_shard = 8}.expert_shard_ranks()), 1);
  // Of two groups of six, three replicas of experts cannot lie evenly in both: all share.
  EXPECT_EQ((Plan{.dp = 12, .ep = 4, .hsdp_shard = 6}.expert_shard_ranks()), 3);
}

// Bytes a parameter of each stack (docs/memory.md), on d = 8 ranks.
TEST(States, EachStackHasItsRecipe) {
  const auto of = [](const Training& training, int zero, std::int64_t d = 8) {
    return state_bytes({.dense = 800}, {.dp = d, .zero = zero}, training).total().count();
  };
  EXPECT_EQ(of({.gradients = Precision::bf16, .stack = {.framework = Framework::deepspeed}}, 1),
            800 * (2 + 2) + 100 * 16);
  EXPECT_EQ(of({.gradients = Precision::fp32, .stack = {.framework = Framework::deepspeed}}, 1),
            800 * (2 + 2 + 4) + 100 * 16);
  EXPECT_EQ(of({.gradients = Precision::fp32, .stack = {.framework = Framework::nanotron}}, 1),
            800 * (2 + 4 + 2) + 100 * 12);
  EXPECT_EQ(of({.gradients = Precision::fp32, .stack = {.framework = Framework::nanotron}}, 0, 1),
            800 * (2 + 4 + 12));  // no DDP buckets
  EXPECT_EQ(of({.stack = {.framework = Framework::fsdp}}, 3), 100 * (4 + 4 + 8));
  EXPECT_EQ(of({.precision = Precision::fp8, .gradients = Precision::bf16}, 1), 800 * (1 + 1 + 2) + 100 * 12);
  EXPECT_EQ(of({.precision = Precision::fp4, .gradients = Precision::bf16}, 1), 800 * (2 + 1 + 2) + 100 * 12);
  EXPECT_EQ(of({.gradients = Precision::bf16, .moments = Precision::bf16}, 1), 800 * (2 + 2) + 100 * 8);
}

TEST(States, UpdateCopiesHalfPrecisionGradients) {
  const Plan plan{.dp = 8, .zero = 1};
  EXPECT_EQ(step_temporaries({.dense = 800}, plan, {.gradients = Precision::fp32}), Bytes());
  EXPECT_EQ(step_temporaries({.dense = 800}, plan, {.gradients = Precision::bf16}), bytes(4 * 100));
  EXPECT_EQ(step_temporaries({.dense = 800}, {}, {.gradients = Precision::bf16}), bytes(4 * 800));
  EXPECT_EQ(step_temporaries({.dense = 800}, plan,
                             {.gradients = Precision::bf16, .stack = {.framework = Framework::deepspeed}}),
            Bytes());
}

}  // namespace
}  // namespace foretrain
