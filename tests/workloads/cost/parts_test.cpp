// What variants of an architecture, of the loss and of overlap add to the parts of a layer and to its ends.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/workloads/expert_models.h"
#include "workloads/cost/host.h"
#include "workloads/cost/layer.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

constexpr double launch_s = 4.6e-6;
constexpr double tick = 1e-12;

double pass_s(const Gpu& gpu, double traffic_bytes) {
  return traffic_bytes / static_cast<double>(gpu.memory_achieved.bytes_per_s()) + launch_s;
}

Training short_training() { return {.sequence_length = 4096, .global_batch = 16}; }

LayerCost cost_of(const Model& model) { return layer_cost(h100_80gb(), model, {}, short_training()); }

// --- architectures --------------------------------------------------------------------------------------------------

TEST(Variants, PostNormsAddANormBehindEitherBlock) {
  Model model = llama3_8b();
  const LayerCost plain = cost_of(model);
  model.post_norms = true;
  const LayerCost cost = cost_of(model);
  EXPECT_EQ(cost.attention_residual, plain.attention_residual + plain.attention_norm);
  EXPECT_EQ(cost.mlp_residual, plain.mlp_residual + plain.mlp_norm);
  EXPECT_EQ(cost.qkv, plain.qkv);
}

TEST(Variants, OneNormLeavesOneResidual) {
  Model model = llama3_8b();
  const LayerCost plain = cost_of(model);
  model.single_norm = true;
  const LayerCost cost = cost_of(model);
  EXPECT_EQ(cost.mlp_norm, PartCost());
  EXPECT_EQ(cost.attention_residual, PartCost());
  EXPECT_EQ(cost.attention_norm, plain.attention_norm);
  EXPECT_EQ(cost.mlp_residual, plain.mlp_residual);
}

TEST(Variants, HeadNormsReadAndWriteQAndK) {
  const Gpu gpu = h100_80gb();
  Model model = llama3_8b();
  const LayerCost plain = cost_of(model);
  model.qk_norm = true;
  EXPECT_NEAR((cost_of(model).qkv.forward - plain.qkv.forward).seconds(),
              pass_s(gpu, 4.0 * 4096 * 4096) + pass_s(gpu, 4.0 * 4096 * 1024), 2 * tick);
}

TEST(Variants, NormsWithoutWeightsAndGatesOfEitherKindMoveTheSame) {
  Model model = llama3_8b();
  const LayerCost plain = cost_of(model);
  model.norm = Norm::layernorm_plain;
  model.activation = Activation::geglu;
  EXPECT_EQ(cost_of(model).forward(), plain.forward());
}

TEST(Variants, EmbeddingNormIsANorm) {
  const Gpu gpu = h100_80gb();
  Model model = gpt(4, 4096, 32);
  const EndCost plain = end_cost(gpu, model, {}, short_training());
  model.embedding_norm = true;
  const EndCost cost = end_cost(gpu, model, {}, short_training());
  EXPECT_NEAR((cost.embedding.forward - plain.embedding.forward).seconds(), pass_s(gpu, 4.0 * 4096 * 4096), tick);
  EXPECT_EQ(cost.output, plain.output);
}

TEST(Variants, MtpModuleIsTwoNormsAndAProjectionOfBoth) {
  const Gpu gpu = h100_80gb();
  const Plan plan{.tp = 8, .sequence_parallel = true};
  const EndCost cost = end_cost(gpu, deepseek_v3(), plan, short_training());
  const double shard = 512.0 * 7168;
  EXPECT_NEAR((cost.mtp.forward - gemm_time(gpu, {.m = 4096, .n = 7168 / 8, .k = 2 * 7168}, Precision::bf16)).seconds(),
              2 * pass_s(gpu, 4 * shard) + pass_s(gpu, 4 * 2 * shard), 4 * tick);
  EXPECT_EQ(end_cost(gpu, llama3_8b(), plan, short_training()).mtp, PartCost());
}

// --- stacks ---------------------------------------------------------------------------------------------------------

TEST(StackConstants, AttentionRateDividesWhatFlashTakesBothWays) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  const LayerCost plain = layer_cost(gpu, llama3_8b(), {}, training);
  training.stack.attention_rate = 0.6;
  const LayerCost cost = layer_cost(gpu, llama3_8b(), {}, training);
  EXPECT_NEAR((cost.core.forward.seconds() - launch_s) * 0.6, plain.core.forward.seconds() - launch_s, 2 * tick);
  EXPECT_NEAR((cost.core.backward_input.seconds() - launch_s) * 0.6, plain.core.backward_input.seconds() - launch_s,
              2 * tick);
  EXPECT_EQ(cost.qkv, plain.qkv);
  training.attention = AttentionKernel::unfused;  // its products and passes are not flash
  Training usual = training;
  usual.stack = {};
  EXPECT_EQ(layer_cost(gpu, llama3_8b(), {}, training).core, layer_cost(gpu, llama3_8b(), {}, usual).core);
}

// A pass of 4 bytes an element at the memory's rate; launches are not traffic, products have their own.
TEST(StackConstants, MemoryTrafficMultipliesWhatIsMemoryBound) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  const LayerCost plain = layer_cost(gpu, llama3_8b(), {}, training);
  const EndCost plain_ends = end_cost(gpu, llama3_8b(), {}, training);
  training.stack.memory_traffic = 1.5;
  const LayerCost cost = layer_cost(gpu, llama3_8b(), {}, training);
  const EndCost ends = end_cost(gpu, llama3_8b(), {}, training);
  const auto half_more = [&](double bytes) { return pass_s(gpu, 0.5 * bytes) - launch_s; };
  const double hidden = 4096.0 * 4096;
  EXPECT_NEAR(cost.attention_norm.forward.seconds(), pass_s(gpu, 1.5 * 4 * hidden), tick);
  EXPECT_NEAR(cost.mlp_residual.backward_input.seconds(), pass_s(gpu, 1.5 * 2 * 8 * hidden), tick);
  EXPECT_NEAR((cost.mlp_in.forward - plain.mlp_in.forward).seconds(), half_more(6.0 * 4096 * 14336), 2 * tick);
  EXPECT_NEAR((cost.qkv.forward - plain.qkv.forward).seconds(), half_more(6.0 * 4096 * (4096 + 2 * 1024)), 2 * tick);
  EXPECT_NEAR((ends.output.forward - plain_ends.output.forward).seconds(),
              half_more(10.0 * 4096 * 128256) + half_more(4 * hidden), 2 * tick);
  EXPECT_EQ(cost.core, plain.core);
  EXPECT_EQ(cost.mlp_out, plain.mlp_out);
}

TEST(StackConstants, ExpertTrafficMultipliesRoutingAndTheExpertsActivation) {
  const Gpu gpu = h100_80gb();
  const LayerKind experts{.experts = true};
  Training training = short_training();
  const LayerCost plain = layer_cost(gpu, mixtral(), {.dp = 2, .ep = 2}, training, experts);
  training.stack.expert_traffic = 2;
  const LayerCost cost = layer_cost(gpu, mixtral(), {.dp = 2, .ep = 2}, training, experts);
  const double copies = 2.0 * 4096;  // two of each token, half of which stay
  const auto once_more = [&](double bytes) { return pass_s(gpu, bytes) - launch_s; };
  EXPECT_NEAR(cost.experts.permute.forward.seconds(), pass_s(gpu, 2 * 2 * copies * 4096), tick);
  EXPECT_NEAR(cost.experts.unpermute.backward_input.seconds(), pass_s(gpu, 2 * 2 * 2 * copies * 4096), tick);
  EXPECT_NEAR((cost.experts.router.forward - plain.experts.router.forward).seconds(), once_more(17.0 * 4096 * 8),
              2 * tick);
  EXPECT_NEAR((cost.experts.in.forward - plain.experts.in.forward).seconds(),
              once_more(6 * copies * 14336) + once_more(2 * copies * 4096), 2 * tick);
  EXPECT_EQ(cost.mlp_norm, plain.mlp_norm);
  EXPECT_EQ(cost.qkv, plain.qkv);
}

// --- host -----------------------------------------------------------------------------------------------------------

TEST(Host, PassesTakeTheFourNormOfKernelsAndLaunching) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  training.sequence_length = 128;
  training.recompute = Recompute::selective;
  const LayerCost plain = layer_cost(gpu, llama3_8b(), {}, training);
  training.stack.host_layer = microseconds(160);
  const LayerCost cost = layer_cost(gpu, llama3_8b(), {}, training);
  const double host = 160e-6;
  const auto norm = [&](Duration device) { return std::pow(std::pow(device.seconds(), 4) + std::pow(host, 4), 0.25); };
  EXPECT_NEAR(cost.forward().seconds(), norm(plain.forward()), 20 * tick);
  EXPECT_NEAR(cost.backward().seconds(), norm(plain.backward()), 20 * tick);
  EXPECT_GT(cost.forward(), plain.forward());
  const double longer = cost.forward() / plain.forward();
  EXPECT_NEAR(cost.mlp_in.forward / plain.mlp_in.forward, longer, 1e-6);
  EXPECT_NEAR(cost.attention_recompute / plain.attention_recompute, longer, 1e-6);
  training.compiled = true;
  EXPECT_EQ(layer_cost(gpu, llama3_8b(), {}, training).forward(), plain.forward());
}

// 2 ms at 128 experts; as many again at four times the experts, and in fp8.
TEST(Host, ExpertsTakeTheRootOfTheirNumber) {
  Gpu gpu = h100_80gb();
  Training training = short_training();
  training.stack.host_expert_layer = milliseconds(2);
  Model model = mixtral();
  const LayerKind experts{.experts = true};
  const auto ms = [&] { return host_time(gpu, model, training, experts).seconds() * 1e3; };
  model.experts->count = 128;
  EXPECT_NEAR(ms(), 2, 1e-9);
  model.experts->count = 512;
  EXPECT_NEAR(ms(), 4, 1e-9);
  training.precision = Precision::fp8;
  EXPECT_NEAR(ms(), 8, 1e-9);
  gpu.host_time = 0.25;
  EXPECT_NEAR(ms(), 2, 1e-9);
  EXPECT_EQ(host_time(gpu, model, training, {}), Duration());  // the dense layers of the stack have none
}

RC_GTEST_PROP(HostProperties, StretchIsBetweenTheLongerAndTheSum, ()) {
  const Duration device = picoseconds(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000));
  const Duration host = picoseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
  const double pass = host_stretch(device, host) * device.seconds();
  RC_ASSERT(pass >= std::max(device, host).seconds() * (1 - 1e-12));
  RC_ASSERT(pass <= (device + host).seconds() * (1 + 1e-12));
  RC_ASSERT(host_stretch(device, host + host) >= host_stretch(device, host));
}

// --- gradients ------------------------------------------------------------------------------------------------------

// FSDP adds up what it has reduced: its products write half precision, whatever gradients are reduced in.
TEST(WeightGradient, OfFsdpAccumulatesNothing) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  const Gemm product{.m = 4096, .n = 14336, .k = 4096, .over_rows = true};
  Gemm accumulated = product;
  accumulated.accumulate_fp32 = true;
  EXPECT_EQ(layer_cost(gpu, llama3_8b(), {}, training).mlp_out.backward_weight,
            gemm_time(gpu, accumulated, Precision::bf16));
  training.stack.framework = Framework::fsdp;
  EXPECT_EQ(layer_cost(gpu, llama3_8b(), {}, training).mlp_out.backward_weight,
            gemm_time(gpu, product, Precision::bf16));
}

// --- precision ------------------------------------------------------------------------------------------------------

// A product casts its first operand at 4 bytes x 0.6 an element; in blocks 1.3 times that.
TEST(Quantised, RecipesDifferByTheTrafficOfTheirCasts) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  training.precision = Precision::fp8;
  const LayerCost tensor = layer_cost(gpu, llama3_8b(), {}, training);
  const Duration product = gemm_time(gpu, {.m = 4096, .n = 4096, .k = 14336}, Precision::fp8);
  const double cast_s = pass_s(gpu, 0.6 * 4 * 4096 * 14336) - launch_s;
  EXPECT_NEAR((tensor.mlp_out.forward - product).seconds(), cast_s, 2 * tick);
  for (const Fp8Recipe recipe : {Fp8Recipe::block, Fp8Recipe::mx}) {
    training.fp8_recipe = recipe;
    const LayerCost blocks = layer_cost(gpu, llama3_8b(), {}, training);
    EXPECT_NEAR((blocks.mlp_out.forward - product).seconds(), 1.3 * cast_s, 2 * tick);
    EXPECT_EQ(blocks.core, tensor.core);
    EXPECT_EQ(blocks.mlp_norm, tensor.mlp_norm);
  }
}

TEST(Quantised, Fp4LeavesAttentionAndLogitsInHalfPrecision) {
  Gpu gpu = h100_80gb();
  gpu.matmul_fp4 = teraflops(6000);
  Training training = short_training();
  const LayerCost half = layer_cost(gpu, llama3_8b(), {}, training);
  const EndCost half_ends = end_cost(gpu, llama3_8b(), {}, training);
  training.precision = Precision::fp8;
  training.fp8_recipe = Fp8Recipe::mx;
  const LayerCost fp8 = layer_cost(gpu, llama3_8b(), {}, training);
  training.precision = Precision::fp4;
  const LayerCost fp4 = layer_cost(gpu, llama3_8b(), {}, training);
  EXPECT_EQ(fp4.core, half.core);
  EXPECT_EQ(end_cost(gpu, llama3_8b(), {}, training).output, half_ends.output);
  const auto product = [&](Precision p) { return gemm_time(gpu, {.m = 4096, .n = 4096, .k = 14336}, p); };
  EXPECT_EQ(fp8.mlp_out.forward - fp4.mlp_out.forward, product(Precision::fp8) - product(Precision::fp4));
}

// --- sinks ----------------------------------------------------------------------------------------------------------

TEST(AttentionSinks, TakeLongerThanTheWholeTriangleWhateverTheWindow) {
  Model model = llama3_8b();
  const LayerCost plain = cost_of(model);
  model.attention_sinks = true;
  model.window = SlidingWindow{.tokens = 128, .full_every = 2};
  for (const bool windowed : {false, true}) {
    const LayerCost cost = layer_cost(h100_80gb(), model, {}, short_training(), {.windowed = windowed});
    EXPECT_NEAR(cost.core.forward.seconds() - launch_s, 1.7 * (plain.core.forward.seconds() - launch_s), 2 * tick);
  }
}

// --- loss -----------------------------------------------------------------------------------------------------------

TEST(Loss, FusedMovesFourBytesALogitLess) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  const EndCost unfused = end_cost(gpu, llama3_8b(), {}, training);
  training.loss = LossKernel::fused;
  const EndCost fused = end_cost(gpu, llama3_8b(), {}, training);
  EXPECT_NEAR((unfused.output.forward - fused.output.forward).seconds(), pass_s(gpu, 4.0 * 4096 * 128256) - launch_s,
              2 * tick);
  EXPECT_EQ(unfused.output.backward_input, fused.output.backward_input);
  EXPECT_EQ(unfused.embedding, fused.embedding);
}

// --- recompute of every second product
// --------------------------------------------------------------------------------

// Q, V, gate and down are kept; K, the projection and up are played again, with all that is memory-bound.
TEST(EverySecondProduct, OfALlama) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  training.recompute = Recompute::selective;
  training.recompute_modules = {RecomputeModule::matmul};
  const LayerCost cost = layer_cost(gpu, llama3_8b(), {}, training);
  const auto product = [&](std::int64_t out, std::int64_t in) {
    return gemm_time(gpu, {.m = 4096, .n = out, .k = in}, Precision::bf16).seconds();
  };
  const double rotary_s = pass_s(gpu, 6.0 * 4096 * (4096 + 2 * 1024));
  EXPECT_NEAR(cost.attention_recompute.seconds(),
              (cost.attention_norm.forward + cost.attention_residual.forward).seconds() + rotary_s +
                  product(1024, 4096) + product(4096, 4096),
              4 * tick);
  EXPECT_NEAR(cost.mlp_recompute.seconds(),
              cost.mlp_norm.forward.seconds() + pass_s(gpu, 6.0 * 4096 * 14336) + product(14336, 4096), 4 * tick);
  const double again = (cost.attention_recompute + cost.mlp_recompute) / cost.forward();  // "about half" when fitted
  EXPECT_GT(again, 0.3);
  EXPECT_LT(again, 0.6);
}

// --- products in pieces
// -------------------------------------------------------------------------------------------------

// Around a ring of eight in four pieces, scattered in four splits; a ring of two has two.
TEST(ProductPieces, CutWhatIsGatheredAndWhatIsScattered) {
  const Gpu gpu = h100_80gb();
  const auto pieces = [&](std::int64_t tp) {
    return layer_cost(gpu, llama3_8b(), {.tp = tp, .sequence_parallel = true, .overlap = {.tp = true}},
                      short_training());
  };
  const auto whole = [&](std::int64_t tp) {
    return layer_cost(gpu, llama3_8b(), {.tp = tp, .sequence_parallel = true}, short_training());
  };
  const auto product = [&](std::int64_t rows, std::int64_t out, std::int64_t in) {
    return gemm_time(gpu, {.m = rows, .n = out, .k = in}, Precision::bf16);
  };
  const LayerCost eight = pieces(8);
  EXPECT_EQ(eight.mlp_out.forward, 4 * product(1024, 4096, 14336 / 8));
  EXPECT_EQ(eight.mlp_out.backward_input, 4 * product(1024, 14336 / 8, 4096));
  EXPECT_EQ(eight.mlp_in.forward - whole(8).mlp_in.forward,
            4 * product(1024, 2 * 14336 / 8, 4096) - product(4096, 2 * 14336 / 8, 4096));
  EXPECT_EQ(eight.mlp_in.backward_input, whole(8).mlp_in.backward_input);
  EXPECT_EQ(eight.mlp_in.backward_weight, whole(8).mlp_in.backward_weight);
  EXPECT_EQ(pieces(2).projection.forward, 4 * product(1024, 4096, 4096 / 2));
  EXPECT_EQ(pieces(2).projection.backward_input, 2 * product(2048, 4096 / 2, 4096));
}

RC_GTEST_PROP(ProductPiecesProperties, PiecesAreNeverFasterThanTheWhole, ()) {
  const Gpu gpu = h100_80gb();
  Training training = short_training();
  training.sequence_length = 256 * *rc::gen::inRange<std::int64_t>(1, 65);
  Plan plan{.tp = *rc::gen::element<std::int64_t>(1, 2, 4, 8), .sequence_parallel = *rc::gen::arbitrary<bool>()};
  const LayerCost whole = layer_cost(gpu, llama3_8b(), plan, training);
  plan.overlap.tp = true;
  const LayerCost pieces = layer_cost(gpu, llama3_8b(), plan, training);
  RC_ASSERT(pieces.forward() >= whole.forward() && pieces.backward() >= whole.backward());
  const bool cut = plan.tp > 1 && plan.sequence_parallel;
  RC_ASSERT((pieces.forward() > whole.forward()) == cut);
}

}  // namespace
}  // namespace foretrain
