// What runs on top: transients, buffers, overhead.
#include <gtest/gtest.h>

#include "tests/workloads/gpus.h"
#include "tests/workloads/memory/support.h"

namespace foretrain {
namespace {

TEST(Transients, BackwardTakesActivationGradientsAndGatheredInput) {
  const Model m = llama3_8b();
  const std::int64_t tokens = 4096;
  const Training half{.sequence_length = tokens, .global_batch = 1, .gradients = Precision::bf16};
  const Plan plan{.tp = 4, .sequence_parallel = true};
  EXPECT_EQ(backward_transient(m, plan, half),
            bytes(6 * m.ffn_hidden / 4 * tokens + 2 * m.hidden * tokens / 4 + 2 * m.hidden * tokens));
}

// Gradients of gate, up and their product for the tokens that the experts got (top-k of a TP rank's share), and of
// these tokens themselves.
TEST(Transients, BackwardOfExpertsTakesGradientsOfTheirTokens) {
  const Model m = deepseek_v3();
  const std::int64_t tokens = 4096;
  const Training training{.sequence_length = tokens, .global_batch = 1};
  EXPECT_EQ(backward_transient(m, {.ep = 8}, training, {.experts = true}),
            bytes(8 * tokens * (6 * 2048 + 2 * 7168) + 2 * 7168 * tokens));
}

TEST(Transients, ThrowAwayGradientsAreOneAShape) {
  const Model m = llama3_8b();
  const Training fp32{.gradients = Precision::fp32};
  const std::int64_t norms = 2 * m.hidden;
  EXPECT_EQ(throw_away_gradients(m, {}, fp32), bytes(2 * (m.layer_parameters({}) - norms)));
  EXPECT_EQ(throw_away_gradients(m, {}, {.gradients = Precision::bf16}), Bytes());
  EXPECT_EQ(throw_away_gradients(m, {}, {.gradients = Precision::fp32, .stack = {.framework = Framework::fsdp}}),
            Bytes());
  // Of experts, one stands for all; MLA has six matrices, the shared expert and the first, dense layers their own.
  const Model v3 = deepseek_v3();
  const std::int64_t attention =
      7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * 256 + 128 * 128 * 7168;
  EXPECT_EQ(throw_away_gradients(v3, {}, fp32), bytes(2 * (attention + 3 * 7168 * (18432 + 2048 + 2048))));
}

// What runs again: nothing, the dropped rows, one layer, a group of layers.
TEST(Transients, ChunksTakeTheirLargestLayerOrGroup) {
  const Model m = gpt(8, 1024, 16);
  Training training = megatron_2022(1);
  const ChunkSpan chunk{.first_layer = 0, .layers = 8};
  const Bytes backward = backward_transient(m, {}, training);
  const Bytes whole = layer_activations(m, {}, training);
  EXPECT_EQ(chunk_transient(m, {}, training, chunk), backward);
  EXPECT_EQ(chunk_transient(m, {}, training, {.first_layer = 0, .layers = 0}), Bytes());
  training.recompute = Recompute::full;
  EXPECT_EQ(chunk_transient(m, {}, training, chunk), backward + whole);
  training.recompute_layers = 3;
  EXPECT_EQ(chunk_transient(m, {}, training, chunk), backward + 3 * whole);
  EXPECT_EQ(chunk_transient(m, {}, training, {.first_layer = 0, .layers = 2}), backward + 2 * whole);
  training.recompute_method = RecomputeMethod::block;
  EXPECT_EQ(chunk_transient(m, {}, training, chunk), backward + whole);
}

// ---- the loss: bytes a logit, in all at its instant ----

TEST(Loss, EachKernelHasItsBytesALogit) {
  const Model m = llama3_8b();
  Training training{.sequence_length = 4096, .global_batch = 1};
  const std::int64_t tokens = 4096;
  const std::pair<LossKernel, std::int64_t> published[] = {
      {LossKernel::fused, 2}, {LossKernel::unfused, 10}, {LossKernel::eager, 14}, {LossKernel::parallel, 18}};
  for (const auto& [kernel, each] : published) {
    training.loss = kernel;
    EXPECT_EQ(output_activations(m, {}, training) + loss_transient(m, {}, training),
              bytes(each * tokens * 128256 + 2 * 2 * m.hidden * tokens))  // input of the norm, and of the head
        << to_text(kernel);
  }
}

TEST(Transients, SequenceParallelismOfOneRankGathersNothing) {
  const Training training{.sequence_length = 8192, .global_batch = 1};
  EXPECT_EQ(backward_transient(llama3_8b(), {.sequence_parallel = true}, training, {}),
            backward_transient(llama3_8b(), {}, training, {}));
}

TEST(Loss, SequenceParallelHeadGathersItsInput) {
  const Model m = llama3_405b();
  const Training training{.sequence_length = 8192, .global_batch = 1, .loss = LossKernel::fused};
  const Plan plan{.tp = 8, .sequence_parallel = true};
  EXPECT_EQ(loss_transient(m, plan, training), bytes(2 * 16384 * 8192));
  // Padded to 128 x 8 rows; Megatron's head allocates a throw-away gradient of half precision.
  EXPECT_EQ(output_backward_transient(m, plan, training), bytes(2 * 16384 * 8192) + bytes(2 * 129024 / 8 * 16384));
}

// ---- buffers of FSDP ----

TEST(Buffers, FsdpGathersHalfPrecisionAndReducesFp32) {
  const Model m = llama3_8b();
  const Plan plan{.dp = 8, .zero = 3};
  const Training training{.sequence_length = 8192, .global_batch = 8, .stack = {.framework = Framework::fsdp}};
  EXPECT_EQ(gathered_unit_bytes(m, plan, training, {}), bytes(2 * m.layer_parameters({})));
  EXPECT_EQ(unit_gradient_bytes(m, plan, training, {}), bytes((2 + 4) * m.layer_parameters({})));
  EXPECT_EQ(gathered_ends_bytes(m, plan, training, 0), bytes(2 * (m.embedding_parameters() + m.output_parameters())));
  EXPECT_EQ(pipelined_shard_bytes(m, plan, training, 0), Bytes());
  // Inside a pipeline everything of a stage stays gathered, and its gradients unsharded: 2 + 4 bytes.
  const Plan piped{.pp = 2, .dp = 8, .zero = 3};
  EXPECT_EQ(pipelined_shard_bytes(m, piped, training, 0) + pipelined_shard_bytes(m, piped, training, 1),
            bytes(6 * m.parameters()));
}

// ---- overhead and verdict ----

TEST(Overhead, IsSlackContextAndNcclByKind) {
  const Model m = gpt(8, 1024, 16);
  const Bytes one_gpu = overhead_bytes(Bytes(), m, {}, {});
  const Bytes data_parallel = overhead_bytes(Bytes(), m, {.dp = 8}, {});
  const Bytes all_three = overhead_bytes(Bytes(), m, {.tp = 8, .pp = 12, .dp = 4}, {});
  EXPECT_NEAR(counted(one_gpu), 1573.0 * 1024 * 1024, 2e6);  // BigScience's context on A100
  EXPECT_GT(data_parallel, one_gpu);
  // 66 runs of BigScience (TP, DP, PP, replica and tied embedding): 5.3 GB fitted.
  EXPECT_NEAR(counted(all_three), 5.3e9, 0.1e9);
  EXPECT_EQ(overhead_bytes(Bytes(), m, {.dp = 8}, {}), overhead_bytes(Bytes(), m, {.dp = 4096}, {}));
  EXPECT_EQ(overhead_bytes(bytes(60'000'000'000), m, {}, {}) - one_gpu, bytes(3'900'000'000));
  EXPECT_EQ(overhead_bytes(bytes(60'000'000'000), m, {}, {.stack = {.framework = Framework::deepspeed}}) - one_gpu,
            bytes(6'900'000'000));
}

TEST(Verdict, HasTheBoundsOfTheStudy) {
  const Model dense = llama3_8b();
  EXPECT_EQ(verdict_of(0.85, dense, {}), Verdict::fits);
  EXPECT_EQ(verdict_of(0.851, dense, {}), Verdict::at_risk);
  EXPECT_EQ(verdict_of(1.075, dense, {}), Verdict::at_risk);
  EXPECT_EQ(verdict_of(1.076, dense, {}), Verdict::does_not_fit);
  // The hottest rank of a dropless mixture of experts holds more than the mean; a capacity bounds it.
  EXPECT_EQ(verdict_of(0.81, deepseek_v3(), {}), Verdict::at_risk);
  EXPECT_EQ(verdict_of(0.81, deepseek_v3(), {.expert_capacity = 1.25}), Verdict::fits);
  EXPECT_EQ(memory_pressure(gibibytes(60), gibibytes(80)), 0.75);
}

TEST(MemoryPart, HasANameEach) {
  std::vector<std::string_view> names;
  for (const MemoryPart part : all_memory_parts) names.push_back(to_text(part));
  EXPECT_EQ(names, (std::vector<std::string_view>{"parameters", "gradients", "optimizer", "activations", "buffers",
                                                  "overhead"}));
}

}  // namespace
}  // namespace foretrain
