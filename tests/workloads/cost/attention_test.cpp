// Attention's variants: context parallelism, sliding windows, latent attention.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/workloads/expert_models.h"
#include "workloads/cost/layer.h"

namespace foretrain {
namespace {

constexpr double launch_s = 4.6e-6;
constexpr double tick = 1e-12;
constexpr LayerKind windowed{.windowed = true};

double pass_s(const Gpu& gpu, double traffic_bytes) {
  return traffic_bytes / static_cast<double>(gpu.memory_achieved.bytes_per_s()) + launch_s;
}

Training long_training(std::int64_t length = 32768) { return {.sequence_length = length, .global_batch = 64}; }

/// Flash attention without its launch: 2 FLOPs a multiply-add, half of its rate at 575 keys a query.
double flash_s(const Gpu& gpu, double queries, double keys, double heads, double widths) {
  return 2 * heads * queries * keys * widths * (1 + 575 / keys) / gpu.flash_attention.per_second();
}

PartCost core_of(const Plan& plan, const Training& training, LayerKind kind = {}, const Model& model = llama3_8b()) {
  return layer_cost(h100_80gb(), model, plan, training, kind).core;
}

// --- context parallelism ------------------------------------------------------------------------------------------

// Four steps of 8192 queries that meet 4096 of another rank's 8192 keys each; after the first each adds its output (6
// bytes an element, 12 a head).
TEST(ContextParallel, RingIsStepsOfHalfASquareAndSums) {
  const Gpu gpu = h100_80gb();
  const PartCost core = core_of({.cp = 4}, long_training());
  const double step = flash_s(gpu, 8192, 4096, 32, 2 * 128);
  const double sum = pass_s(gpu, 8192 * (6.0 * 4096 + 12 * 32));
  EXPECT_NEAR(core.forward.seconds(), 4 * (step + launch_s) + 3 * sum, 10 * tick);
  const double sums_backward = pass_s(gpu, 8192 * 6.0 * (4096 + 2 * 1024));
  EXPECT_NEAR(core.backward_input.seconds(), 4 * (2.5 / 0.5 * step + launch_s) + 3 * sums_backward, 10 * tick);
}

// The zig-zag's two chunks, one early and one late, need together exactly a rank's share of the whole.
TEST(ContextParallel, GatheredKeysLeaveAShareOfTheWholeInTwoKernels) {
  const PartCost whole = core_of({}, long_training());
  const PartCost share = core_of({.cp = 4, .context = ContextExchange::all_gather}, long_training());
  EXPECT_NEAR(share.forward.seconds() - 2 * launch_s, (whole.forward.seconds() - launch_s) / 4, 4 * tick);
  EXPECT_NEAR(share.backward_input.seconds() - 2 * launch_s, (whole.backward_input.seconds() - launch_s) / 4, 4 * tick);
}

TEST(ContextParallel, HeadsForSequenceLeaveAShareOfTheHeads) {
  const PartCost whole = core_of({}, long_training());
  const PartCost share = core_of({.cp = 4, .context = ContextExchange::all_to_all}, long_training());
  EXPECT_NEAR(share.forward.seconds() - launch_s, (whole.forward.seconds() - launch_s) / 4, 2 * tick);
}

TEST(ContextParallel, EverythingElseWorksOnItsShareOfTheSequence) {
  const Gpu gpu = h100_80gb();
  LayerCost split = layer_cost(gpu, llama3_8b(), {.cp = 4}, long_training());
  LayerCost shorter = layer_cost(gpu, llama3_8b(), {}, long_training(8192));
  split.core = shorter.core = {};
  EXPECT_EQ(split.forward(), shorter.forward());
  EXPECT_EQ(split.backward(), shorter.backward());
}

RC_GTEST_PROP(ContextParallelProperties, NeverLessensTheWork, ()) {
  const Gpu gpu = h100_80gb();
  const std::int64_t cp = *rc::gen::element<std::int64_t>(2, 4, 8);
  Training training = long_training(2048 * *rc::gen::inRange<std::int64_t>(1, 33));
  training.attention = *rc::gen::element(AttentionKernel::flash, AttentionKernel::unfused);
  const LayerCost whole = layer_cost(gpu, llama3_8b(), {}, training);
  for (const ContextExchange context : all_context_exchanges) {
    const LayerCost share = layer_cost(gpu, llama3_8b(), {.cp = cp, .context = context}, training);
    RC_ASSERT(share.forward() * cp >= whole.forward());
    RC_ASSERT(share.backward() * cp >= whole.backward());
    RC_ASSERT(share.forward() < whole.forward());
  }
}

// Many short kernels and their sums cost more than few long ones.
RC_GTEST_PROP(ContextParallelProperties, RingIsNeverFasterThanGatheredKeys, ()) {
  const Training training = long_training(2048 * *rc::gen::inRange<std::int64_t>(1, 33));
  const std::int64_t cp = *rc::gen::element<std::int64_t>(2, 4, 8);
  RC_ASSERT(core_of({.cp = cp}, training).forward >=
            core_of({.cp = cp, .context = ContextExchange::all_gather}, training).forward);
}

// --- windows ------------------------------------------------------------------------------------------------------

Model windowed_llama(std::int64_t tokens) {
  Model m = llama3_8b();
  m.window = SlidingWindow{.tokens = tokens};
  return m;
}

// Query i meets min(i, w) keys: w - w^2 / 2s on average.
TEST(Window, MeetsWhatItCovers) {
  const Gpu gpu = h100_80gb();
  const double keys = 4096 - 4096.0 * 4096 / (2 * 32768);
  const PartCost core = core_of({}, long_training(), windowed, windowed_llama(4096));
  EXPECT_NEAR(core.forward.seconds(), flash_s(gpu, 32768, keys, 32, 2 * 128) + launch_s, tick);
  EXPECT_EQ(core_of({}, long_training(), {}, windowed_llama(4096)), core_of({}, long_training()));  // a full layer
}

TEST(Window, OfTheWholeSequenceSavesNothing) {
  for (const std::int64_t tokens : {32768, 100000})
    EXPECT_EQ(core_of({}, long_training(), windowed, windowed_llama(tokens)), core_of({}, long_training()));
}

TEST(Window, SavesNothingUnfused) {
  Training training = long_training(4096);
  training.attention = AttentionKernel::unfused;
  EXPECT_EQ(core_of({}, training, windowed, windowed_llama(512)), core_of({}, training));
}

RC_GTEST_PROP(WindowProperties, WiderIsNeverFaster, ()) {
  const std::int64_t narrow = *rc::gen::inRange<std::int64_t>(1, 40000);
  const std::int64_t wide = narrow + *rc::gen::inRange<std::int64_t>(1, 40000);
  const Plan plan{.cp = *rc::gen::element<std::int64_t>(1, 2, 4), .context = ContextExchange::all_gather};
  RC_ASSERT(core_of(plan, long_training(), windowed, windowed_llama(narrow)).forward <=
            core_of(plan, long_training(), windowed, windowed_llama(wide)).forward);
}

// --- latent attention ---------------------------------------------------------------------------------------------

const Plan split{.tp = 8, .sequence_parallel = true};

// On a rank's eighth of 4096 tokens: hidden to 1536 and to 512 + 64, and the norms of the latents.
TEST(LatentAttention, DownProjectionsWorkOnTheSequenceShard) {
  const Gpu gpu = h100_80gb();
  const PartCost down = layer_cost(gpu, deepseek_v3(), split, long_training(4096)).down;
  const Duration products = gemm_time(gpu, {.m = 512, .n = 1536, .k = 7168}, Precision::bf16) +
                            gemm_time(gpu, {.m = 512, .n = 576, .k = 7168}, Precision::bf16);
  EXPECT_NEAR((down.forward - products).seconds(), pass_s(gpu, 4.0 * 512 * 1536) + pass_s(gpu, 4.0 * 512 * 512),
              3 * tick);
  EXPECT_EQ(layer_cost(gpu, llama3_8b(), split, long_training(4096)).down, PartCost());
}

// 16 heads a rank: Q of 192 each from the latent, the unrotated 128 of K and V's 128 from the other.
TEST(LatentAttention, UpProjectionsAreSplitByHeads) {
  const Gpu gpu = h100_80gb();
  const PartCost qkv = layer_cost(gpu, deepseek_v3(), split, long_training(4096)).qkv;
  const Duration products = gemm_time(gpu, {.m = 4096, .n = 16 * 192, .k = 1536}, Precision::bf16) +
                            gemm_time(gpu, {.m = 4096, .n = 16 * 256, .k = 512}, Precision::bf16);
  EXPECT_NEAR((qkv.forward - products).seconds(), pass_s(gpu, 6.0 * 4096 * 16 * (2 * 192 + 128)), 2 * tick);
}

TEST(LatentAttention, WithoutAQueryLatentTheQueryComesFromTheInput) {
  const Gpu gpu = h100_80gb();
  Model model = deepseek_v3();
  model.latent->query_rank = 0;
  const LayerCost cost = layer_cost(gpu, model, split, long_training(4096));
  const LayerCost with = layer_cost(gpu, deepseek_v3(), split, long_training(4096));
  EXPECT_NEAR(
      (with.down.forward - cost.down.forward - gemm_time(gpu, {.m = 512, .n = 1536, .k = 7168}, Precision::bf16))
          .seconds(),
      pass_s(gpu, 4.0 * 512 * 1536), 2 * tick);
  EXPECT_EQ(cost.qkv.forward - with.qkv.forward,
            gemm_time(gpu, {.m = 4096, .n = 16 * 192, .k = 7168}, Precision::bf16) -
                gemm_time(gpu, {.m = 4096, .n = 16 * 192, .k = 1536}, Precision::bf16));
}

// Scores along 192, values along 128; backward makes the scores again: three products of 192, two of 128, half the
// rate. Heads wider than 128 run at 0.8.
TEST(LatentAttention, CoreHasWiderKeysThanValues) {
  const Gpu gpu = h100_80gb();
  const PartCost core = core_of(split, long_training(4096), {}, deepseek_v3());
  EXPECT_NEAR(core.forward.seconds(), flash_s(gpu, 4096, 2048, 16, 192 + 128) / 0.8 + launch_s, tick);
  EXPECT_NEAR(core.backward_input.seconds(), flash_s(gpu, 4096, 2048, 16, 3 * 192 + 2 * 128) / 0.8 / 0.5 + launch_s,
              tick);
}

TEST(LatentAttention, RecomputePlaysTheUpProjectionsAgain) {
  Training training = long_training(4096);
  training.recompute = Recompute::selective;
  training.recompute_modules = {RecomputeModule::latent};
  const LayerCost cost = layer_cost(h100_80gb(), deepseek_v3(), split, training);
  EXPECT_EQ(cost.attention_recompute, cost.qkv.forward);
  EXPECT_EQ(cost.mlp_recompute, Duration());
  EXPECT_EQ(layer_cost(h100_80gb(), llama3_8b(), split, training).attention_recompute, Duration());
}

}  // namespace
}  // namespace foretrain
