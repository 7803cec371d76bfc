// What is kept from forward to backward: tables of the papers, row by row.
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/workloads/gpus.h"
#include "tests/workloads/memory/support.h"
#include "workloads/memory/split_backward.h"

namespace foretrain {
namespace {

Model any_gpt() {
  const std::int64_t heads = 8 * *rc::gen::inRange<std::int64_t>(1, 20);
  return gpt(8, heads * 64, heads);
}

RC_GTEST_PROP(ActivationProperties, FollowKorthikantiTable2, ()) {
  const Model model = any_gpt();
  Plan plan;
  Training training = megatron_2022(*rc::gen::inRange<std::int64_t>(1, 9));
  const auto kept = [&] { return counted(layer_activations(model, plan, training)); };

  const auto [s, b, h, a, one] = symbols(model, plan, training);
  RC_ASSERT(kept() == s * b * h * (34 + 5 * a * s / h));
  plan.tp = *rc::gen::element<std::int64_t>(2, 4, 8);
  const auto t = static_cast<double>(plan.tp);
  RC_ASSERT(std::abs(kept() - s * b * h * (10 + 24 / t + 5 * a * s / (h * t))) < 1);
  plan.sequence_parallel = true;
  RC_ASSERT(std::abs(kept() - s * b * h / t * (34 + 5 * a * s / h)) < 1);
  training.recompute = Recompute::selective;
  RC_ASSERT(std::abs(kept() - s * b * h * 34 / t) < 1);
  plan.sequence_parallel = false;
  RC_ASSERT(std::abs(kept() - s * b * h * (10 + 24 / t)) < 1);
  training.recompute = Recompute::full;
  RC_ASSERT(kept() == 2 * s * b * h);
}

RC_GTEST_PROP(ActivationProperties, RecomputedAndKeptAddUpToTheWholeTable, ()) {
  const Model model = *rc::gen::element(llama3_8b(), gpt(4, 1024, 16));
  const Plan plan{.tp = *rc::gen::element<std::int64_t>(1, 2, 8), .sequence_parallel = *rc::gen::arbitrary<bool>()};
  Training training = megatron_2022(2);
  training.attention = *rc::gen::element(AttentionKernel::flash, AttentionKernel::unfused);
  training.precision = *rc::gen::element(Precision::bf16, Precision::fp8, Precision::fp4, Precision::fp32);
  const Bytes whole = layer_activations(model, plan, training);
  RC_ASSERT(recompute_transient(model, plan, training) == Bytes());
  training.recompute = Recompute::selective;
  training.recompute_modules.clear();
  for (const RecomputeModule module : all_recompute_modules) {
    if (*rc::gen::arbitrary<bool>()) training.recompute_modules.push_back(module);
  }
  RC_ASSERT(layer_activations(model, plan, training) + recompute_transient(model, plan, training) == whole);
  training.recompute = Recompute::full;
  RC_ASSERT(recompute_transient(model, plan, training) == whole);
}

// RMSNorm, SwiGLU and grouped queries with flash attention: per token 8h (norms in and out), Q, K, V, the output, the
// log-sum-exp, gate and up, and their product.
TEST(Activations, LlamaTable) {
  const Model m = llama3_405b();
  const Training training{.sequence_length = 8192, .global_batch = 1};
  const std::int64_t tokens = 8192;
  const std::int64_t h = 16384;
  const std::int64_t f = 53248;
  const std::int64_t kv = 1024;  // 8 heads of 128
  EXPECT_EQ(layer_activations(m, {}, training),
            bytes(tokens * (8 * h + 2 * (h + 2 * kv) + 2 * h + 4 * m.heads + 4 * f + 2 * f)));
  const Plan split{.tp = 8, .sequence_parallel = true};
  EXPECT_EQ(layer_activations(m, split, training) * 8, layer_activations(m, {}, training));
}

TEST(Activations, SelectiveModulesDropTheirRows) {
  const Model m = llama3_8b();
  const std::int64_t tokens = 4096;
  Training training{.sequence_length = tokens, .global_batch = 1};
  const Bytes all = layer_activations(m, {}, training);
  training.recompute = Recompute::selective;
  training.recompute_modules = {RecomputeModule::norm};
  EXPECT_EQ(all - layer_activations(m, {}, training), bytes(4 * m.hidden * tokens));
  training.recompute_modules = {RecomputeModule::activation};
  EXPECT_EQ(all - layer_activations(m, {}, training), bytes(2 * m.ffn_hidden * tokens));
  training.recompute_modules = {RecomputeModule::attention};  // flash keeps no square
  EXPECT_EQ(all - layer_activations(m, {}, training), bytes(4 * m.heads * tokens));
}

TEST(Activations, KvHeadsAreCopiedWhereTpExceedsThem) {
  const Model m = llama3_8b();  // 8 KV heads
  const Training training{.sequence_length = 4096, .global_batch = 1};
  const Plan eight{.tp = 8, .sequence_parallel = true};
  const Plan sixteen{.tp = 16, .sequence_parallel = true};
  const Bytes kv_head = bytes(2 * m.head_dim * 4096 * 2);  // K and V of one head
  EXPECT_EQ(2 * layer_activations(m, sixteen, training), layer_activations(m, eight, training) + kv_head);
}

TEST(Activations, Fp8KeepsOneByteInputsAndTheOutputTwice) {
  const Model m = llama3_8b();
  const std::int64_t tokens = 4096;
  Training training{.sequence_length = tokens, .global_batch = 1};
  const Bytes half = layer_activations(m, {}, training);
  training.precision = Precision::fp8;
  EXPECT_EQ(half - layer_activations(m, {}, training), bytes(tokens * (2 * m.hidden + m.ffn_hidden - m.query_width())));
}

// Half a byte an element and a byte of scale for 16, where fp8 has one.
TEST(Activations, Fp4KeepsNineSixteenthsOfFp8Copies) {
  const Model m = llama3_8b();
  Training training{.sequence_length = 4096, .global_batch = 1, .precision = Precision::fp8};
  const Bytes fp8 = layer_activations(m, {}, training);
  training.precision = Precision::fp4;
  EXPECT_EQ(fp8 - layer_activations(m, {}, training),
            bytes(4096 * (2 * m.hidden + m.ffn_hidden + m.query_width()) / 16 * 7));
}

// Behind attention nothing else is kept for the projection than what attention makes again.
TEST(Activations, ProjectionMakesTheMlpNormsInputAgain) {
  const Model m = llama3_8b();
  Training training{.sequence_length = 4096, .global_batch = 1, .recompute_modules = {RecomputeModule::projection}};
  const Bytes whole = layer_activations(m, {}, training);
  training.recompute = Recompute::selective;
  EXPECT_EQ(whole - layer_activations(m, {}, training), bytes(4096 * 2 * m.hidden));
  training.recompute_modules = {RecomputeModule::projection, RecomputeModule::attention};
  EXPECT_EQ(whole - layer_activations(m, {}, training),
            bytes(4096 * (2 * m.hidden + 2 * m.query_width() + 4 * m.heads)));
}

TEST(Activations, DropoutKeepsMasks) {
  Model m = gpt(4, 1024, 16);
  const Training training{.sequence_length = 2048, .global_batch = 1};
  const Bytes with = layer_activations(m, {}, training);
  EXPECT_EQ(embedding_activations(m, {}, training), bytes(training.sequence_length * m.hidden));
  m.dropout = false;
  EXPECT_EQ(with - layer_activations(m, {}, training), bytes(2 * training.sequence_length * m.hidden));
  EXPECT_EQ(embedding_activations(m, {}, training), Bytes());
}

/// Of what one layer of `kind` keeps, the part that is free before the gradients of its weights are made.
Bytes freed_early(const Model& m, const Training& training, std::int64_t layer = 0) {
  return layer_activations(m, {}, training, m.kind_of(layer)) -
         waiting_for_weight_gradients(m, {}, training, {.first_layer = layer, .layers = 1});
}

// Qi 2023, section 3.1: of GPT's sbh(34 + 5as/h), 32sbh wait for the weight gradients.
RC_GTEST_PROP(ActivationProperties, WeightGradientsOfGptWaitWith32sbh, ()) {
  const Model model = any_gpt();
  const Training training = megatron_2022(*rc::gen::inRange<std::int64_t>(1, 9));
  const auto [s, b, h, a, t] = symbols(model, {}, training);
  RC_ASSERT(counted(freed_early(model, training)) == s * b * h * (2 + 5 * a * s / h));
}

// Of Llama's table the inputs of both norms go (4h) and gradients of the projection's and of FC2's output come (4h);
// what is free is the log-sum-exp.
TEST(Activations, WeightGradientsOfLlamaWaitWithAllButTheLogSumExp) {
  const Model m = llama3_8b();
  const Training training{.sequence_length = 4096, .global_batch = 1};
  EXPECT_EQ(freed_early(m, training), bytes(4 * m.heads * 4096));
}

// With full recompute 2sbh were kept and 32sbh wait.
TEST(Activations, WeightGradientsWaitWithMoreThanRecomputeKeeps) {
  const Model m = gpt(4, 1024, 16);
  Training training = megatron_2022(1);
  training.recompute = Recompute::full;
  EXPECT_EQ(freed_early(m, training), bytes((2 - 32) * training.sequence_length * m.hidden));
}

// Korthikanti's 34/t and 10 + 24/t bytes, for 96 layers of GPT-3's width at 4096 tokens on 8 ranks.
TEST(Activations, SequenceParallelGpt3Takes20GBInsteadOf63) {
  const Model m = gpt(96, 12288, 96);
  Training training = megatron_2022(1);
  training.sequence_length = 4096;
  training.recompute = Recompute::selective;
  const ChunkSpan all{.layers = 96};
  EXPECT_NEAR(counted(chunk_activations(m, {.tp = 8, .sequence_parallel = true}, training, all)) / 1e9, 20.5, 0.05);
  EXPECT_NEAR(counted(chunk_activations(m, {.tp = 8}, training, all)) / 1e9, 62.8, 0.05);
}

// Per token: 8h of norms in and out, Q and K of 192 and V of 128 a head, the output, its log-sum-exp, latents before
// and behind their norms, gate, up and their product.
TEST(Activations, LatentAttentionTable) {
  const Model m = deepseek_v3();
  const std::int64_t tokens = 4096;
  const Training training{.sequence_length = tokens, .global_batch = 1};
  const std::int64_t attention = 2 * 128 * (192 + 192 + 128) + 2 * 128 * 128 + 4 * 128;
  const std::int64_t latents = 4 * 1536 + 2 * (512 + 64) + 2 * 512;
  EXPECT_EQ(layer_activations(m, {}, training), bytes(tokens * (8 * 7168 + attention + latents + 6 * 18432)));
}

// Dropless and balanced: each of the top-k copies of a token is an expert's input (2h), gate and up, and their product,
// and 16 bytes of bookkeeping; 9 bytes a score. Expert parallelism divides nothing.
TEST(Activations, ExpertTable) {
  Model m = llama3_8b();
  m.experts = Experts{.count = 64, .topk = 4, .ffn_hidden = 1024, .shared_ffn_hidden = 2048};
  const std::int64_t tokens = 4096;
  const Training training{.sequence_length = tokens, .global_batch = 1};
  const Bytes dense = layer_activations(m, {}, training) - bytes(6 * m.ffn_hidden * tokens);
  const Bytes experts = bytes(tokens * (9 * 64 + 4 * (2 * m.hidden + 6 * 1024 + 16) + 6 * 2048));
  for (const std::int64_t ep : {1, 8, 64})
    EXPECT_EQ(layer_activations(m, {.dp = 64, .ep = ep}, training, {.experts = true}), dense + experts) << ep;
  // TP 4 gives each rank a quarter of the tokens, ETP 2 gathers those of two and halves the experts' widths.
  const Plan split{.tp = 4, .dp = 8, .ep = 8, .etp = 2, .sequence_parallel = true};
  const std::int64_t shard = tokens / 4;
  EXPECT_EQ(layer_activations(m, split, training, {.experts = true}),
            bytes(dense.count() / 4 + shard * (9 * 64 + 2 * 4 * (2 * m.hidden + 6 * 512 + 16) + 6 * 2048)));
}

TEST(Activations, BusiestExpertRankHoldsMoreOrWhatItIsPaddedTo) {
  Model m = llama3_8b();
  m.experts = Experts{.count = 64, .topk = 4, .ffn_hidden = 1024};
  const Training training{.sequence_length = 4096, .global_batch = 1};
  const auto kept = [&](double imbalance, double capacity) {
    const Plan plan{.dp = 8, .ep = 8, .expert_imbalance = imbalance, .expert_capacity = capacity};
    return layer_activations(m, plan, training, {.experts = true});
  };
  const Bytes copies = bytes(4096 * 4 * (2 * m.hidden + 6 * 1024 + 16));
  EXPECT_EQ(kept(2, 0) - kept(1, 0), copies);
  EXPECT_EQ(kept(2, 1.5), kept(1.5, 0));
  EXPECT_EQ(kept(1, 1.5), kept(1.5, 0));  // padded rows are held as well as computed
}

TEST(Activations, ModulesOfLatentsAndExpertsDropTheirRows) {
  const Model m = deepseek_v3();
  const std::int64_t tokens = 4096;
  Training training{.sequence_length = tokens, .global_batch = 1, .recompute_modules = {}};
  const LayerKind experts{.experts = true};
  const Bytes all = layer_activations(m, {}, training, experts);
  training.recompute = Recompute::selective;
  training.recompute_modules = {RecomputeModule::latent};
  EXPECT_EQ(all - layer_activations(m, {}, training, experts), bytes(2 * 128 * (192 + 192 + 128) * tokens));
  training.recompute_modules = {RecomputeModule::experts};
  EXPECT_EQ(all - layer_activations(m, {}, training, experts),
            bytes(tokens * (9 * 256 + 8 * (2 * 7168 + 6 * 2048 + 16) + 6 * 2048)));
  training.recompute_modules = {RecomputeModule::mlp};  // of the dense layers
  EXPECT_EQ(all, layer_activations(m, {}, training, experts));
  training.recompute_modules.clear();
  const Bytes dense = layer_activations(m, {}, training);
  training.recompute_modules = {RecomputeModule::mlp};
  EXPECT_EQ(dense - layer_activations(m, {}, training), bytes(6 * 18432 * tokens));
}

// torchtitan's policy: the block's input, Q, V, gate and attention's output; down's output without a compiler.
TEST(Activations, EverySecondProduct) {
  const Model m = llama3_8b();
  const std::int64_t tokens = 8192;
  Training training{.sequence_length = tokens,
                    .global_batch = 1,
                    .recompute = Recompute::selective,
                    .recompute_modules = {RecomputeModule::matmul},
                    .stack = {.framework = Framework::fsdp},
                    .compiled = true};
  const std::int64_t kv = 1024;
  const std::int64_t compiled = 2 * 4096 + 2 * (4096 + kv) + 2 * 14336 + 2 * 4096 + 4 * 32;
  EXPECT_EQ(layer_activations(m, {}, training), bytes(tokens * compiled));
  training.compiled = false;
  EXPECT_EQ(layer_activations(m, {}, training), bytes(tokens * (compiled + 2 * 4096)));
}

TEST(Activations, ExtraNormsKeepTheirInputs) {
  Model m = llama3_8b();
  const std::int64_t tokens = 4096;
  const Training training{.sequence_length = tokens, .global_batch = 1};
  const Bytes plain = layer_activations(m, {}, training);
  m.post_norms = true;
  EXPECT_EQ(layer_activations(m, {}, training) - plain, bytes(2 * 2 * m.hidden * tokens));
  m.post_norms = false;
  m.qk_norm = true;
  EXPECT_EQ(layer_activations(m, {}, training) - plain, bytes(2 * (m.hidden + 1024) * tokens));
  m.qk_norm = false;
  m.single_norm = true;
  EXPECT_EQ(plain - layer_activations(m, {}, training), bytes(2 * 2 * m.hidden * tokens));
}

TEST(Activations, WindowsChangeNothing) {
  Model m = llama3_8b();
  m.window = SlidingWindow{.tokens = 1024};
  const Training training{.sequence_length = 4096, .global_batch = 1};
  EXPECT_EQ(layer_activations(m, {}, training, {.windowed = true}), layer_activations(m, {}, training));
}

// ---- chunks ----

TEST(Chunks, RecomputeByGroupsKeepsOneInputAGroup) {
  const Model m = gpt(12, 1024, 16);
  Training training = megatron_2022(1);
  training.recompute = Recompute::full;
  const Bytes input = bytes(2 * training.sequence_length * m.hidden);
  const ChunkSpan chunk{.first_layer = 2, .layers = 7};
  EXPECT_EQ(chunk_activations(m, {}, training, chunk), 7 * input);
  training.recompute_layers = 3;
  EXPECT_EQ(chunk_activations(m, {}, training, chunk), 3 * input);  // of 3, 3 and 1 layers
  training.recompute_method = RecomputeMethod::block;
  const Bytes recomputed = 3 * input;
  training.recompute = Recompute::none;
  const Bytes kept = 4 * layer_activations(m, {}, training);
  training.recompute = Recompute::full;
  EXPECT_EQ(chunk_activations(m, {}, training, chunk), recomputed + kept);
}

TEST(Chunks, AddUpKindsAndEnds) {
  Model m = deepseek_v3();
  m.mtp_layers = 0;
  const Training training{.sequence_length = 4096, .global_batch = 1};
  const Plan plan{.pp = 2, .stage_layers = {5, 56}};
  const std::vector<std::int64_t> layers = layers_by_stage(m, plan);
  const LayerKind experts{.experts = true};
  const ChunkSpan first = chunk_span(layers, 0);
  const ChunkSpan last = chunk_span(layers, 1);
  EXPECT_EQ(first.first_layer, 0);
  EXPECT_EQ(last.first_layer, 5);
  EXPECT_EQ(chunk_activations(m, plan, training, first), 3 * layer_activations(m, plan, training) +
                                                             2 * layer_activations(m, plan, training, experts) +
                                                             embedding_activations(m, plan, training));
  EXPECT_EQ(chunk_activations(m, plan, training, last),
            56 * layer_activations(m, plan, training, experts) + output_activations(m, plan, training));
}

// What waits is what was kept, less what each layer's input gradient frees.
TEST(Chunks, WaitForWeightGradientsWithTheirLayers) {
  const Model m = deepseek_v3();
  const Training training{.sequence_length = 4096, .global_batch = 1};
  const ChunkSpan chunk{.first_layer = 2, .layers = 3};  // one dense layer, two of experts
  const Bytes released = freed_early(m, training) + freed_early(m, training, 3) + freed_early(m, training, 4);
  EXPECT_EQ(waiting_for_weight_gradients(m, {}, training, chunk) + released, chunk_activations(m, {}, training, chunk));
}

// A module: both norms and their outputs side by side, one layer, one output.
TEST(Chunks, MtpModulesKeepALayerAndAnOutputEach) {
  Model m = deepseek_v3();
  const Training training{.sequence_length = 4096, .global_batch = 1};
  m.mtp_layers = 0;
  EXPECT_EQ(mtp_activations(m, {}, training), Bytes());
  m.mtp_layers = 2;
  EXPECT_EQ(mtp_activations(m, {}, training),
            2 * (bytes(4 * 2 * 7168 * 4096) + layer_activations(m, {}, training, {.experts = true}) +
                 output_activations(m, {}, training)));
}

}  // namespace
}  // namespace foretrain
