#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/workloads/gpus.h"
#include "tests/workloads/reference.h"
#include "workloads/cost/layer.h"
#include "workloads/cost/operators.h"

namespace foretrain {
namespace {

constexpr double launch_s = 4.6e-6;
constexpr double tick = 1e-12;

double achieved_memory(const Gpu& gpu) { return static_cast<double>(gpu.memory_achieved.bytes_per_s()); }

double gemm_rate(const Gpu& gpu, const Gemm& g, Precision precision) {
  return g.flops() / gemm_time(gpu, g, precision).seconds();
}

std::int64_t any_dimension() { return 64 * *rc::gen::inRange<std::int64_t>(1, 300); }

// --- products ---------------------------------------------------------------------------------------------------

RC_GTEST_PROP(GemmProperties, NeverFasterThanTheAchievedRateOrTheMemory, ()) {
  const Gpu gpu = h100_80gb();
  const Gemm g{.m = *rc::gen::inRange<std::int64_t>(1, 20000), .n = any_dimension(), .k = any_dimension()};
  const auto m = static_cast<double>(g.m);
  const auto n = static_cast<double>(g.n);
  const auto k = static_cast<double>(g.k);
  RC_ASSERT(gemm_rate(gpu, g, Precision::bf16) < gpu.matmul.per_second());
  RC_ASSERT(gemm_rate(gpu, g, Precision::fp8) < gpu.matmul_fp8.per_second());
  RC_ASSERT(gemm_rate(gpu, g, Precision::fp32) < gpu.matmul.per_second() / 2);
  RC_ASSERT(gemm_time(gpu, g, Precision::bf16).seconds() > 2 * (m * k + k * n + m * n) / achieved_memory(gpu));
}

// The shape at which an H100 measured best (gemm_efficiency.csv, mamf-03: 794.5 TFLOP/s, 2048 x 2048 x 13312).
TEST(Gemm, BestShapesReachMostOfTheAchievedRate) {
  const Gpu gpu = h100_80gb();
  double best = 0;
  for (std::int64_t k = 1024; k <= 16384; k += 1024) {
    best = std::max(best, gemm_rate(gpu, {.m = 2048, .n = 2048, .k = k}, Precision::bf16));
  }
  EXPECT_GT(best, 0.9 * gpu.matmul.per_second());
  EXPECT_GT(gemm_rate(gpu, {.m = 2048, .n = 2048, .k = 13312}, Precision::bf16), 0.9 * gpu.matmul.per_second());
}

/// Best rate over a grid of large shapes.
double best_rate(const Gpu& gpu) {
  double best = 0;
  for (std::int64_t m = 1024; m <= 8192; m += 1024) {
    for (std::int64_t n = 1024; n <= 16384; n += 1024) {
      for (std::int64_t k = 1024; k <= 16384; k += 1024) {
        best = std::max(best, gemm_rate(gpu, {.m = m, .n = n, .k = k}, Precision::bf16));
      }
    }
  }
  return best;
}

TEST(Gemm, NoFasterThanTheBestEverMeasured) {
  const std::vector<ReferenceRow> rows = reference_rows("gemm_efficiency.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("gemm_efficiency.csv");
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    const std::string& name = row.at("gpu");
    if (row.at("dtype") != "bf16" || (name != "A100 SXM" && name != "H100 SXM")) continue;
    const Gpu gpu = name == "A100 SXM" ? a100_80gb() : h100_80gb();
    const double measured = std::stod(row.at("max_achieved_tflops")) * 1e12;
    const double best = best_rate(gpu);
    EXPECT_LT(best, measured) << name;
    EXPECT_GT(best, 0.85 * measured) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

RC_GTEST_PROP(GemmProperties, MoreRowsNeverTakeLess, ()) {
  const Gpu gpu = h100_80gb();
  const std::int64_t n = any_dimension();
  const std::int64_t k = any_dimension();
  const std::int64_t m = *rc::gen::inRange<std::int64_t>(1, 20000);
  const std::int64_t more = m + *rc::gen::inRange<std::int64_t>(1, 300);
  for (const Precision precision : all_precisions) {
    RC_ASSERT(gemm_time(gpu, {.m = m, .n = n, .k = k}, precision) <=
              gemm_time(gpu, {.m = more, .n = n, .k = k}, precision) + picoseconds(1));
  }
}

RC_GTEST_PROP(GemmProperties, SplittingNeverLessensTheWork, ()) {
  const Gpu gpu = a100_80gb();
  const std::int64_t ranks = *rc::gen::inRange<std::int64_t>(2, 9);
  const std::int64_t m = any_dimension();
  const std::int64_t n = 64 * *rc::gen::inRange<std::int64_t>(1, 50);
  const std::int64_t k = 64 * *rc::gen::inRange<std::int64_t>(1, 50);
  const Duration share = gemm_time(gpu, {.m = m, .n = n, .k = k}, Precision::bf16);
  RC_ASSERT(share * ranks >= gemm_time(gpu, {.m = m, .n = n * ranks, .k = k}, Precision::bf16));
  RC_ASSERT(share * ranks >= gemm_time(gpu, {.m = m, .n = n, .k = k * ranks}, Precision::bf16));
}

// Few rows: the time is that of reading the matrix, whatever the arithmetic.
TEST(Gemm, FewRowsAreMemoryBound) {
  for (const Gpu& gpu : {a100_80gb(), h100_80gb()}) {
    for (const double m : {1.0, 2.0, 4.0}) {
      const double n = 16384;
      const double k = 16384;
      const Gemm g{.m = static_cast<std::int64_t>(m), .n = 16384, .k = 16384};
      EXPECT_NEAR(gemm_time(gpu, g, Precision::bf16).seconds(),
                  2 * (m * k + k * n + m * n) / achieved_memory(gpu) + launch_s, tick)
          << gpu.name << " m " << m;
    }
  }
}

// 132 x 2 tiles of 128 x 256, a whole number of waves: only K's share and the launch stand between the shape and the
// achieved rate.
TEST(Gemm, WholeWavesLoseOnlyToShortKAndLaunch) {
  const Gpu gpu = h100_80gb();
  const Gemm g{.m = 16896, .n = 512, .k = 8192};
  const double flops = 2.0 * 128 * 132 * 512 * 8192;
  EXPECT_DOUBLE_EQ(g.flops(), flops);
  EXPECT_NEAR(gemm_time(gpu, g, Precision::bf16).seconds(),
              flops * (1 + 240.0 / 8192) / gpu.matmul.per_second() + launch_s, tick);
  EXPECT_NEAR(gemm_time(gpu, g, Precision::fp8).seconds(),
              flops * (1 + 480.0 / 8192) / gpu.matmul_fp8.per_second() + launch_s, tick);
}

// 133 tiles of 128 x 256 take two waves of 132; as 266 tiles of 128 x 128 (0.93 of the rate) they take three: better.
TEST(Gemm, OneTileOverAWaveChoosesTheSmallerTiles) {
  const Gpu gpu = h100_80gb();
  const Gemm g{.m = 17024, .n = 256, .k = 8192};
  const double large = std::pow(133.0 / (2 * 132), 0.74);
  const double small = 0.93 * std::pow(266.0 / (3 * 132), 0.74);
  ASSERT_GT(small, large);
  EXPECT_NEAR(gemm_time(gpu, g, Precision::bf16).seconds(),
              g.flops() * (1 + 240.0 / 8192) / small / gpu.matmul.per_second() + launch_s, tick);
}

TEST(Gemm, MisalignedWidthsAreSlower) {
  const Gpu gpu = h100_80gb();
  for (const std::int64_t n : {8192 - 8, 8192 + 8}) {
    EXPECT_GT(gemm_time(gpu, {.m = 8192, .n = n, .k = 8192}, Precision::bf16),
              gemm_time(gpu, {.m = 8192, .n = 8192 + 64, .k = 8192}, Precision::bf16));
  }
}

TEST(Gemm, AccumulatingCostsAtMostItsWholeTraffic) {
  const Gpu gpu = h100_80gb();
  const Gemm plain{.m = 4096, .n = 4096, .k = 8192};
  Gemm accumulated = plain;
  accumulated.accumulate_fp32 = true;
  const double traffic_s = 8.0 * 4096 * 4096 / achieved_memory(gpu);  // 4 bytes read, 4 written
  const double more = (gemm_time(gpu, accumulated, Precision::bf16) - gemm_time(gpu, plain, Precision::bf16)).seconds();
  EXPECT_GT(more, 0.5 * traffic_s);
  EXPECT_LT(more, traffic_s);
}

// NVFP4 has twice fp8's prologue and epilogue again, and half a byte an element with a scale a sixteenth.
TEST(Gemm, Fp4HasItsOwnRateShortKAndBytes) {
  Gpu gpu = h100_80gb();
  gpu.matmul_fp4 = teraflops(6000);
  const Gemm large{.m = 16896, .n = 4096, .k = 65536};  // 16 whole waves
  EXPECT_NEAR(gemm_time(gpu, large, Precision::fp4).seconds(),
              large.flops() * (1 + 960.0 / 65536) / gpu.matmul_fp4.per_second() + launch_s, tick);
  const Gemm reading{.m = 1, .n = 16384, .k = 16384};
  EXPECT_NEAR(gemm_time(gpu, reading, Precision::fp4).seconds(),
              (9.0 / 16 * (16384.0 * 16384 + 16384) + 2 * 16384) / achieved_memory(gpu) + launch_s, tick);
}

// A TPU's systolic arrays take whole blocks of 128; rows stream past, so that their number rounds to nothing.
TEST(Gemm, MatrixUnitTakesWholeBlocks) {
  Gpu gpu = h100_80gb();
  gpu.multiprocessors = 0;
  gpu.matrix_unit = 128;
  gpu.launch_gap = {};
  const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return gemm_time(gpu, {.m = m, .n = n, .k = k}, Precision::bf16).seconds();
  };
  EXPECT_NEAR(time(8200, 8192, 8192), 2.0 * 8200 * 8192 * 8192 / gpu.matmul.per_second(), tick);
  EXPECT_NEAR(time(8192, 8192 + 1, 8192), time(8192, 8192 + 128, 8192), tick);
  EXPECT_NEAR(time(8192, 8192, 8192 - 127), time(8192, 8192, 8192), tick);
}

TEST(Gemm, WithoutFp8UnitsTheHalfPrecisionRateHolds) {
  const Gpu gpu = a100_80gb();
  const Gemm g{.m = 8192, .n = 8192, .k = 8192};
  EXPECT_GE(gemm_time(gpu, g, Precision::fp8), gemm_time(gpu, g, Precision::bf16));
}

// --- attention --------------------------------------------------------------------------------------------------

Attention long_attention(std::int64_t length) {
  return {.batch = 1,
          .query_length = length,
          .key_length = length,
          .keys_met = static_cast<double>(length) / 2,
          .heads = 16,
          .kv_heads = 2,
          .qk_dim = 128,
          .value_dim = 128};
}

TEST(Attention, FlashApproachesItsRateOnLongSequences) {
  const Gpu gpu = h100_80gb();
  for (const std::int64_t length : {8192, 131072}) {
    const auto s = static_cast<double>(length);
    const double flops = 2 * s * s * 16 * 128;  // two products, half of the square
    const double rate = flops / (attention_forward_time(gpu, long_attention(length)).seconds() - launch_s);
    EXPECT_NEAR(rate / gpu.flash_attention.per_second(), s / (s + 1150), 1e-6);
  }
}

TEST(Attention, BackwardHasTwoAndAHalfTimesTheFlopsAtHalfTheRate) {
  const Gpu gpu = h100_80gb();
  const double forward = attention_forward_time(gpu, long_attention(8192)).seconds() - launch_s;
  const double backward = attention_backward_time(gpu, long_attention(8192)).seconds() - launch_s;
  EXPECT_NEAR(backward / forward, 2.5 / 0.5, 1e-6);
}

RC_GTEST_PROP(AttentionProperties, FlashIsNeverSlowerThanUnfused, ()) {
  const Gpu gpu = a100_80gb();
  Attention a = long_attention(128 * *rc::gen::inRange<std::int64_t>(4, 64));
  a.qk_dim = a.value_dim = *rc::gen::element<std::int64_t>(64, 96, 128);
  Attention unfused = a;
  unfused.kernel = AttentionKernel::unfused;
  unfused.dropout = *rc::gen::arbitrary<bool>();
  RC_ASSERT(attention_forward_time(gpu, a) <= attention_forward_time(gpu, unfused));
}

TEST(Attention, UnfusedPaysForTheScoresTraffic) {
  const Gpu gpu = a100_80gb();
  Attention a = long_attention(2048);
  a.kernel = AttentionKernel::unfused;
  a.dropout = true;
  const double scores = 16.0 * 2048 * 2048;
  const double flops_s = 4 * scores * 128 / (gpu.matmul.per_second() / 2);
  EXPECT_NEAR(attention_forward_time(gpu, a).seconds(), flops_s + 12 * scores / achieved_memory(gpu) + 4 * launch_s,
              tick);
  EXPECT_NEAR(attention_backward_time(gpu, a).seconds(),
              2 * flops_s + 16 * scores / achieved_memory(gpu) + 6 * launch_s, tick);
}

// Heads of 64 fill half of an array of 128 in either product, and of one of 256, which takes two heads of 128.
TEST(Attention, HeadsFillTheMatrixUnit) {
  Gpu gpu = h100_80gb();
  gpu.launch_gap = {};
  const auto rate = [&](std::int64_t unit, std::int64_t head) {
    gpu.matrix_unit = unit;
    Attention a = long_attention(8192);
    a.qk_dim = a.value_dim = head;
    return a.flops() / attention_forward_time(gpu, a).seconds();
  };
  EXPECT_NEAR(rate(128, 64) / rate(128, 128), 0.5, 1e-6);
  EXPECT_NEAR(rate(256, 64) / rate(256, 128), 0.5, 1e-6);
  EXPECT_NEAR(rate(256, 128) / rate(256, 256), 1, 1e-6);
  EXPECT_NEAR(rate(128, 256) / rate(128, 128), 1, 1e-6);
}

// --- memory-bound kernels ---------------------------------------------------------------------------------------

TEST(MemoryBound, IsTrafficOverBandwidthAndALaunch) {
  const Gpu gpu = h100_80gb();
  EXPECT_NEAR(memory_bound_time(gpu, 1e9).seconds(), 1e9 / achieved_memory(gpu) + launch_s, tick);
  EXPECT_NEAR(memory_bound_time(gpu, 0).seconds(), launch_s, tick);
}

TEST(Optimizer, IsMemoryBoundAndShrinksWithTheOwnedShare) {
  const Gpu gpu = a100_80gb();
  const std::int64_t n = 1'000'000'000;
  EXPECT_NEAR(optimizer_time(gpu, n, n).seconds(), 1.8 * (34 + 8) * 1e9 / achieved_memory(gpu) + launch_s, tick);
  EXPECT_NEAR(optimizer_time(gpu, n / 8, n).seconds(), 1.8 * (34.0 / 8 + 8) * 1e9 / achieved_memory(gpu) + launch_s,
              tick);
}

// --- layers and ends --------------------------------------------------------------------------------------------

Duration recompute_of(const LayerCost& c) { return c.attention_recompute + c.mlp_recompute; }

// Korthikanti 2022, table 4: one layer of the 22B model on eight A100 (times with their tensor-parallel traffic).
// A ring half moves 7/8 of 2 bytes b s h at 215 to 232 GB/s a GPU, plus 20 to 86 us; forward shows all four. Backward
// shows the two gathers of the output gradient with sequence parallelism; the other halves run beside the weight
// gradients.
TEST(LayerCost, AgreesWithTheMeasuredLayerOfKorthikanti) {
  const std::vector<ReferenceRow> rows = reference_rows("layer_times.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("layer_times.csv");
  const Model model = gpt(48, 6144, 64);
  const double half_s = 2.0 * 4 * 2048 * 6144 * 7 / 8 / 223e9 + 20e-6;
  for (const ReferenceRow& row : rows) {
    const bool sequence_parallel = row.at("sp") == "1";
    const std::string& recompute = row.at("recompute");
    const Plan plan{.tp = 8, .sequence_parallel = sequence_parallel};
    Training training{.sequence_length = 2048,
                      .global_batch = 4,
                      .microbatch = 4,
                      .precision = Precision::fp16,
                      .gradients = Precision::fp16,
                      .attention = AttentionKernel::unfused};
    if (recompute == "selective") training.recompute = Recompute::selective;
    const LayerCost cost = layer_cost(a100_80gb(), model, plan, training);
    const double forward = cost.forward().seconds() + 4 * half_s;
    const double again = recompute == "full" ? forward : recompute_of(cost).seconds();
    const double backward = cost.backward().seconds() + (sequence_parallel ? 2 * half_s : 0) + again;
    EXPECT_NEAR(forward / (std::stod(row.at("fwd_ms")) * 1e-3), 1, 0.1) << row.at("id");
    EXPECT_NEAR(backward / (std::stod(row.at("bwd_ms")) * 1e-3), 1, 0.1) << row.at("id");
  }
}

Training llama_training() { return {.sequence_length = 8192, .global_batch = 16, .microbatch = 1}; }

// The layer's matrix products and attention at their achieved rates are a floor; twice that is far from any stack.
TEST(LayerCost, LiesBetweenItsArithmeticAndTwiceThat) {
  const Gpu gpu = h100_80gb();
  const Model model = llama3_405b();
  const ForwardFlops f = forward_flops(model, 8192, AttentionFlops::causal);
  const double share = 1.0 / static_cast<double>(model.layers) / 8;
  const double forward = share * (f.linear / gpu.matmul.per_second() + f.attention / gpu.flash_attention.per_second());
  const LayerCost cost = layer_cost(gpu, model, {.tp = 8, .sequence_parallel = true}, llama_training());
  EXPECT_GT(cost.forward().seconds(), forward);
  EXPECT_LT(cost.forward().seconds(), 2 * forward);
  EXPECT_GT(cost.backward().seconds(), 2 * forward);
  EXPECT_LT(cost.backward().seconds(), 4 * forward);
}

RC_GTEST_PROP(LayerCostProperties, SplittingByTpNeverLessensTheWork, ()) {
  const Gpu gpu = h100_80gb();
  const Model model = llama3_8b();
  const std::int64_t tp = *rc::gen::element<std::int64_t>(2, 4, 8, 16);
  const bool sequence_parallel = *rc::gen::arbitrary<bool>();
  Training training = llama_training();
  training.microbatch = *rc::gen::inRange<std::int64_t>(1, 4);
  training.attention = *rc::gen::element(AttentionKernel::flash, AttentionKernel::unfused);
  const LayerCost whole = layer_cost(gpu, model, {}, training);
  const LayerCost share = layer_cost(gpu, model, {.tp = tp, .sequence_parallel = sequence_parallel}, training);
  RC_ASSERT(share.forward() * tp >= whole.forward());
  RC_ASSERT(share.backward() * tp >= whole.backward());
  RC_ASSERT(share.forward() < whole.forward());
}

TEST(LayerCost, SequenceParallelismDividesWhatIsOutsideTheCollectives) {
  const Gpu gpu = h100_80gb();
  const Duration launch = memory_bound_time(gpu, 0);
  const LayerCost without = layer_cost(gpu, llama3_405b(), {.tp = 8}, llama_training());
  const LayerCost with = layer_cost(gpu, llama3_405b(), {.tp = 8, .sequence_parallel = true}, llama_training());
  EXPECT_NEAR((without.mlp_norm.forward - launch) / (with.mlp_norm.forward - launch), 8, 1e-6);
  EXPECT_NEAR((without.mlp_residual.backward_input - launch) / (with.mlp_residual.backward_input - launch), 8, 1e-6);
  EXPECT_EQ(without.mlp_in, with.mlp_in);
  EXPECT_EQ(without.mlp_out, with.mlp_out);
  EXPECT_EQ(without.qkv, with.qkv);
  EXPECT_EQ(without.core, with.core);
}

TEST(LayerCost, SelectiveRecomputeRepeatsWhatItNames) {
  const Gpu gpu = h100_80gb();
  const Plan plan{.tp = 8, .sequence_parallel = true};
  Training training = llama_training();
  EXPECT_EQ(recompute_of(layer_cost(gpu, llama3_405b(), plan, training)), Duration());
  training.recompute = Recompute::full;  // the whole forward is played again instead
  EXPECT_EQ(recompute_of(layer_cost(gpu, llama3_405b(), plan, training)), Duration());
  training.recompute = Recompute::selective;
  Attention core = long_attention(8192);
  core.kv_heads = 1;
  EXPECT_EQ(recompute_of(layer_cost(gpu, llama3_405b(), plan, training)), attention_forward_time(gpu, core));
  training.recompute_modules = {RecomputeModule::norm};
  const LayerCost norms = layer_cost(gpu, llama3_405b(), plan, training);
  EXPECT_EQ(norms.attention_recompute, norms.attention_norm.forward);
  EXPECT_EQ(norms.mlp_recompute, norms.mlp_norm.forward);
  training.recompute_modules = {RecomputeModule::activation};
  const LayerCost activation = layer_cost(gpu, llama3_405b(), plan, training);
  EXPECT_EQ(activation.attention_recompute, Duration());
  EXPECT_EQ(activation.mlp_recompute, memory_bound_time(gpu, 6.0 * 8192 * 53248 / 8));
}

TEST(LayerCost, HalfPrecisionGradientsAndFp8AreFaster) {
  const Plan plan{.tp = 8, .sequence_parallel = true};
  Training training = llama_training();
  const LayerCost fp32_gradients = layer_cost(h100_80gb(), llama3_405b(), plan, training);
  training.gradients = Precision::bf16;
  const LayerCost half = layer_cost(h100_80gb(), llama3_405b(), plan, training);
  EXPECT_LT(half.mlp_in.backward_weight, fp32_gradients.mlp_in.backward_weight);
  EXPECT_EQ(half.mlp_in.backward_input, fp32_gradients.mlp_in.backward_input);
  training.precision = Precision::fp8;
  const LayerCost fp8 = layer_cost(h100_80gb(), llama3_405b(), plan, training);
  EXPECT_LT(fp8.forward(), half.forward());
  EXPECT_GT(2 * fp8.forward(), half.forward());  // attention and memory-bound parts stay
}

RC_GTEST_PROP(LayerCostProperties, FasterGpusAreNeverSlower, ()) {
  const Gpu base = h100_80gb();
  Gpu better = base;
  const double factor = 1 + 0.01 * *rc::gen::inRange(0, 200);
  const int what = *rc::gen::inRange(0, 3);
  if (what == 0) better.matmul = flops_per_second(factor * base.matmul.per_second());
  if (what == 1) better.flash_attention = flops_per_second(factor * base.flash_attention.per_second());
  if (what == 2) better.memory_achieved = scaled(base.memory_achieved, factor);
  const Plan plan{.tp = 4};
  const LayerCost a = layer_cost(base, llama3_8b(), plan, llama_training());
  const LayerCost b = layer_cost(better, llama3_8b(), plan, llama_training());
  RC_ASSERT(b.forward() <= a.forward() && b.backward() <= a.backward());
  const EndCost c = end_cost(base, llama3_8b(), plan, llama_training());
  const EndCost d = end_cost(better, llama3_8b(), plan, llama_training());
  RC_ASSERT(d.output.forward <= c.output.forward && d.output.backward() <= c.output.backward());
}

TEST(EndCost, OutputIsTheLogitsProductTheLossAndANorm) {
  const Gpu gpu = h100_80gb();
  const Plan plan{.tp = 8, .sequence_parallel = true};
  const std::int64_t columns = 129024 / 8;  // 128256 padded to a multiple of 128 * 8
  const EndCost cost = end_cost(gpu, llama3_405b(), plan, llama_training());
  const Duration forward = gemm_time(gpu, {.m = 8192, .n = columns, .k = 16384}, Precision::bf16);
  const Duration backward =
      gemm_time(gpu, {.m = 8192, .n = 16384, .k = columns}, Precision::bf16) +
      gemm_time(gpu, {.m = columns, .n = 16384, .k = 8192, .accumulate_fp32 = true}, Precision::bf16);
  const double loss = 14.0 * 8192 * static_cast<double>(columns) / achieved_memory(gpu);
  const double norm = (4.0 + 8.0) * 1024 * 16384 / achieved_memory(gpu);  // forward and backward, 8192 / 8 tokens
  EXPECT_NEAR((cost.output.forward + cost.output.backward() - forward - backward).seconds(), loss + norm + 4 * launch_s,
              4 * tick);
  Training fp8 = llama_training();
  fp8.precision = Precision::fp8;  // the output layer stays in bf16
  EXPECT_EQ(end_cost(gpu, llama3_405b(), plan, fp8).output.forward, cost.output.forward);
}

}  // namespace
}  // namespace foretrain
