// A mixture of experts: rows of its grouped products, traffic of its routing.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/workloads/expert_models.h"
#include "workloads/cost/flops.h"
#include "workloads/cost/layer.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

constexpr double launch_s = 4.6e-6;
constexpr double tick = 1e-12;
constexpr LayerKind experts{.experts = true};

Training short_training() { return {.sequence_length = 4096, .global_batch = 64}; }

double pass_s(const Gpu& gpu, double traffic_bytes) {
  return traffic_bytes / static_cast<double>(gpu.memory_achieved.bytes_per_s()) + launch_s;
}

// Eight products of 1030 rows each: 9 x 16 tiles of 128 x 256 an expert, in 9 waves of 132; one of as many rows
// takes 8.
TEST(GroupedProduct, PaysForTheTilesOfEveryExpert) {
  const Gpu gpu = h100_80gb();
  const Gemm g{.m = 1030, .n = 4096, .k = 4096, .count = 8};
  const double filled = 8 * 1030.0 * 4096 / (9 * 132.0 * 128 * 256);
  EXPECT_NEAR(
      gemm_time(gpu, g, Precision::bf16).seconds(),
      2.0 * 8240 * 4096 * 4096 * (1 + 240.0 / 4096) / std::pow(filled, 0.74) / gpu.matmul.per_second() + launch_s,
      tick);
  EXPECT_GT(gemm_time(gpu, g, Precision::bf16), gemm_time(gpu, {.m = 8240, .n = 4096, .k = 4096}, Precision::bf16));
}

// The grouped product reads every expert's matrix, whatever the rows: one row each is the time of reading them.
TEST(GroupedProduct, FewRowsReadAllMatrices) {
  const Gpu gpu = h100_80gb();
  const double elements = 16.0 * (4096.0 * 4096 + 2 * 4096);
  EXPECT_NEAR(gemm_time(gpu, {.m = 1, .n = 4096, .k = 4096, .count = 16}, Precision::bf16).seconds(),
              pass_s(gpu, 2 * elements), tick);
}

RC_GTEST_PROP(GroupedProductProperties, MoreExpertsAreNeverFasterForTheSameRows, ()) {
  const Gpu gpu = h100_80gb();
  const std::int64_t rows = 256 * *rc::gen::inRange<std::int64_t>(1, 100);
  const std::int64_t n = 64 * *rc::gen::inRange<std::int64_t>(1, 200);
  const std::int64_t k = 64 * *rc::gen::inRange<std::int64_t>(1, 200);
  Duration fewer;
  for (std::int64_t count = 1; count <= 256; count *= 2) {
    const Duration time = gemm_time(gpu, {.m = rows / count, .n = n, .k = k, .count = count}, Precision::bf16);
    RC_ASSERT(time >= fewer);
    fewer = time;
  }
}

// The number of a row's tokens is the length of nothing in memory: an odd number of them costs a weight gradient
// nothing.
TEST(GroupedProduct, OddRowsDoNotMisalignTheWeightGradient) {
  const Gpu gpu = h100_80gb();
  const auto gradient = [&](std::int64_t rows) {
    return gemm_time(gpu, {.m = 4096, .n = 4096, .k = rows, .count = 8, .over_rows = true}, Precision::bf16);
  };
  EXPECT_GT(gradient(1025), gradient(1024));
  EXPECT_LT(gradient(1025).seconds(), 1.01 * gradient(1024).seconds());
}

// T topk / tp copies leave a rank, and as many arrive at its experts, etp times over with the ranks that share them.
TEST(ExpertRows, AreTheCopiesThatArrive) {
  const Training training = short_training();
  const auto rows = [&](const Plan& plan) { return shard_of(mixtral(), plan, training).expert_rows; };
  EXPECT_EQ(rows({}), 4096 * 2 / 8);
  EXPECT_EQ(rows({.dp = 8, .ep = 8}), 4096 * 2);
  EXPECT_EQ(rows({.tp = 4, .dp = 2, .ep = 8, .sequence_parallel = true}), 4096 * 2 / 4);
  EXPECT_EQ(rows({.tp = 4, .dp = 2, .ep = 2, .etp = 4, .sequence_parallel = true}), 4096 * 2 / 4);
  EXPECT_EQ(rows({.cp = 2, .dp = 4, .ep = 8}), 4096);
  EXPECT_EQ(rows({.dp = 8, .ep = 8, .expert_imbalance = 1.5}), 4096 * 3);
  EXPECT_EQ(rows({.dp = 8, .ep = 8, .expert_imbalance = 1.5, .expert_capacity = 1.25}), 4096 * 5 / 2);
  EXPECT_EQ(rows({.dp = 8, .ep = 8, .expert_imbalance = 1.0001}), 8193);  // rounded up: 8192.8192
}

TEST(ExpertCost, StandsInThePlaceOfTheMlp) {
  const Gpu gpu = h100_80gb();
  const LayerCost with = layer_cost(gpu, mixtral(), {}, short_training(), experts);
  const LayerCost dense = layer_cost(gpu, mixtral(), {}, short_training(), {});
  EXPECT_EQ(with.mlp_in, PartCost());
  EXPECT_EQ(with.mlp_out, PartCost());
  EXPECT_EQ(dense.experts.in, PartCost());
  EXPECT_EQ(dense.experts.router, PartCost());
  EXPECT_EQ(with.core, dense.core);
  EXPECT_EQ(with.mlp_norm, dense.mlp_norm);
  EXPECT_EQ(with.experts.shared, PartCost());
}

// Eight experts of 8192 rows: gate and up side by side, their product, down.
TEST(ExpertCost, IsGroupedProductsAndTheActivation) {
  const Gpu gpu = h100_80gb();
  const Plan plan{.dp = 2, .ep = 2, .expert_imbalance = 2};
  const ExpertCost cost = layer_cost(gpu, mixtral(), plan, short_training(), experts).experts;
  const double copies = 2 * 4096.0 * 2;
  const Duration in = gemm_time(gpu, {.m = 4096, .n = 28672, .k = 4096, .count = 4}, Precision::bf16);
  const Duration out = gemm_time(gpu, {.m = 4096, .n = 4096, .k = 14336, .count = 4}, Precision::bf16);
  const double sort_s = pass_s(gpu, 2.0 * 4096 * copies);
  EXPECT_NEAR((cost.in.forward - in).seconds(), pass_s(gpu, 6.0 * 14336 * copies) + sort_s, 3 * tick);
  EXPECT_NEAR((cost.out.forward - out).seconds(), sort_s, 2 * tick);
  const Gemm gradient{.m = 4096, .n = 14336, .k = 4096, .count = 4, .accumulate_fp32 = true, .over_rows = true};
  EXPECT_EQ(cost.out.backward_weight, gemm_time(gpu, gradient, Precision::bf16));
}

// Reordering moves 8 bytes an element of a copy there and back, on one side or on both.
TEST(ExpertCost, ReorderingMovesEightBytesAnElementOfACopy) {
  const Gpu gpu = h100_80gb();
  const Model model = mixtral();
  const double copies = 4096.0 * 2;
  const ExpertCost alone = layer_cost(gpu, model, {}, short_training(), experts).experts;
  EXPECT_NEAR((alone.permute + alone.unpermute).forward.seconds(), pass_s(gpu, 8 * 4096 * copies) + launch_s, 2 * tick);
  const ExpertCost one_each = layer_cost(gpu, model, {.dp = 8, .ep = 8}, short_training(), experts).experts;
  EXPECT_EQ(one_each.permute, alone.permute);
  const ExpertCost several = layer_cost(gpu, model, {.dp = 2, .ep = 2}, short_training(), experts).experts;
  EXPECT_NEAR((several.permute + several.unpermute).forward.seconds(), pass_s(gpu, 4 * 4096 * copies) + launch_s,
              2 * tick);
  EXPECT_NEAR(
      (several.out.forward - gemm_time(gpu, {.m = 2048, .n = 4096, .k = 14336, .count = 4}, Precision::bf16)).seconds(),
      pass_s(gpu, 2 * 4096 * copies), 2 * tick);
}

TEST(ExpertCost, RouterIsAProductOnTheSequenceShardNeverInFp8) {
  const Gpu gpu = h100_80gb();
  const Plan plan{.tp = 4, .sequence_parallel = true};
  Training training = short_training();
  const PartCost router = layer_cost(gpu, mixtral(), plan, training, experts).experts.router;
  EXPECT_NEAR(router.forward.seconds(),
              gemm_time(gpu, {.m = 1024, .n = 8, .k = 4096}, Precision::bf16).seconds() + pass_s(gpu, 17.0 * 1024 * 8),
              2 * tick);
  training.precision = Precision::fp8;
  EXPECT_EQ(layer_cost(gpu, mixtral(), plan, training, experts).experts.router, router);
}

// Shared experts are a dense MLP of their width, whose output is added to the routed experts'.
TEST(ExpertCost, SharedExpertsAreADenseMlpAndASum) {
  const Gpu gpu = h100_80gb();
  Model model = mixtral();
  model.experts->shared_ffn_hidden = model.ffn_hidden;
  const Plan plan{.tp = 4, .sequence_parallel = true};
  const LayerCost dense = layer_cost(gpu, model, plan, short_training(), {});
  const PartCost shared = layer_cost(gpu, model, plan, short_training(), experts).experts.shared;
  EXPECT_NEAR((shared.forward - dense.mlp_in.forward - dense.mlp_out.forward).seconds(), pass_s(gpu, 6.0 * 1024 * 4096),
              3 * tick);
  EXPECT_EQ(shared.backward_weight, (dense.mlp_in + dense.mlp_out).backward_weight);
  model.experts->shared_gate = true;
  const PartCost gated = layer_cost(gpu, model, plan, short_training(), experts).experts.shared;
  EXPECT_NEAR(
      (gated.forward - shared.forward).seconds(),
      gemm_time(gpu, {.m = 1024, .n = 1, .k = 4096}, Precision::bf16).seconds() + pass_s(gpu, 4.0 * 1024 * 4096),
      3 * tick);
}

RC_GTEST_PROP(ExpertCostProperties, MoreExpertsARankAreNeverFasterForTheSameTokens, ()) {
  const Gpu gpu = h100_80gb();
  Model model = mixtral();
  model.experts = Experts{.count = 128, .topk = *rc::gen::inRange<std::int64_t>(1, 9), .ffn_hidden = 1536};
  Training training = short_training();
  training.sequence_length = 512 * *rc::gen::inRange<std::int64_t>(1, 17);
  training.precision = *rc::gen::element(Precision::bf16, Precision::fp8);
  Duration fewer;
  for (std::int64_t ep = 64; ep >= 2; ep /= 2) {
    const ExpertCost cost = layer_cost(gpu, model, {.dp = 64, .ep = ep}, training, experts).experts;
    const Duration products = cost.in.forward + cost.out.forward;
    RC_ASSERT(products >= fewer);
    fewer = products;
  }
}

// The attention half and each rank's share of the routed tokens.
RC_GTEST_PROP(ExpertCostProperties, SplittingByTpNeverLessensTheWork, ()) {
  const Gpu gpu = h100_80gb();
  const Model model = *rc::gen::arbitrary<bool>() ? mixtral() : deepseek_v3();
  const std::int64_t tp = *rc::gen::element<std::int64_t>(2, 4, 8);
  const LayerCost whole = layer_cost(gpu, model, {}, short_training(), experts);
  const LayerCost share = layer_cost(gpu, model, {.tp = tp, .sequence_parallel = true}, short_training(), experts);
  RC_ASSERT(share.forward() * tp >= whole.forward());
  RC_ASSERT(share.backward() * tp >= whole.backward());
  RC_ASSERT(share.forward() < whole.forward());
}

// Products and attention at their achieved rates are a floor; twice that is far from any stack whose experts have
// thousands of rows.
TEST(ExpertCost, LayerLiesBetweenItsArithmeticAndTwiceThat) {
  const Gpu gpu = h100_80gb();
  for (const Model& model : {mixtral(), deepseek_v3()}) {
    const Plan plan{.dp = 64, .ep = model.experts->count / 4};
    const RankFlops flops = layer_flops(model, plan, short_training(), experts);
    const double floor = flops.linear / gpu.matmul.per_second() + flops.attention / gpu.flash_attention.per_second();
    const LayerCost cost = layer_cost(gpu, model, plan, short_training(), experts);
    EXPECT_GT(cost.forward().seconds(), floor);
    EXPECT_LT(cost.forward().seconds(), 2 * floor);
    EXPECT_GT(cost.backward().seconds(), 2 * floor);
    EXPECT_LT(cost.backward().seconds(), 4 * floor);
  }
}

TEST(ExpertRecompute, ActivationOfRoutedAndSharedExperts) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  training.recompute = Recompute::selective;
  training.recompute_modules = {RecomputeModule::activation};
  const Plan plan{.tp = 8, .dp = 8, .ep = 64, .sequence_parallel = true};
  const LayerCost cost = layer_cost(gpu, deepseek_v3(), plan, training, experts);
  const double copies = 4096.0 * 8 / 8;  // topk 8 of the rank's eighth of the sequence
  EXPECT_NEAR(cost.mlp_recompute.seconds(), pass_s(gpu, 6 * 2048 * copies) + pass_s(gpu, 6.0 * 2048 / 8 * 4096),
              2 * tick);
}

}  // namespace
}  // namespace foretrain
