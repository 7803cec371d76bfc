// Executed FLOPs of all ranks together are the model's, and what padding, copies and recompute add to them.
#include "workloads/cost/flops.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/workloads/expert_models.h"

namespace foretrain {
namespace {

constexpr double exact = 1e-12;  // relative: sums of exact integers in another order

/// Two dense layers, four with 16 experts; latent attention, shared experts with a gate, an MTP module; a vocabulary
/// that needs no padding up to TP 8.
Model everything() {
  Model m = deepseek_v3();
  m.layers = 6;
  m.vocabulary = 128 * 1024;
  m.experts->count = 16;
  m.experts->topk = 2;
  m.experts->first_dense = 2;
  m.experts->shared_gate = true;
  return m;
}

/// Llama's, with a window in all but every third layer.
Model windowed() {
  Model m = llama3_8b();
  m.vocabulary = 128 * 1024;
  m.window = SlidingWindow{.tokens = 1000, .full_every = 3};
  return m;
}

Training training_of(std::int64_t length) { return {.sequence_length = length, .global_batch = 64, .microbatch = 2}; }

/// Of a step's forwards, over all ranks.
double executed_forward(const Model& m, const Plan& plan, const Training& training) {
  double rank = output_flops(m, plan, training);
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    rank += layer_flops(m, plan, training, m.kind_of(layer)).total();
  const double mtp = layer_flops(m, plan, training, m.kind_of(m.layers - 1)).total() + mtp_flops(m, plan, training) +
                     output_flops(m, plan, training);
  rank += static_cast<double>(m.mtp_layers) * mtp;
  return rank * static_cast<double>(plan.tp * plan.cp * plan.dp * microbatches(plan, training));
}

double model_forward(const Model& m, const Training& t, AttentionFlops convention) {
  return forward_flops(m, t.sequence_length, convention).total() * static_cast<double>(t.global_batch);
}

Plan any_plan(const Model& m) {
  Plan plan{.tp = *rc::gen::element<std::int64_t>(1, 2, 4, 8),
            .cp = *rc::gen::element<std::int64_t>(1, 2, 4),
            .dp = 8,
            .sequence_parallel = true,
            .context = *rc::gen::element(ContextExchange::ring, ContextExchange::all_gather)};
  if (!m.experts) return plan;
  plan.ep = *rc::gen::element<std::int64_t>(1, 2, 4, 8);
  plan.etp = *rc::gen::element<std::int64_t>(1, 2, 4);
  return plan;
}

RC_GTEST_PROP(ExecutedFlops, OfAllRanksAreTheModels, ()) {
  const Model model = *rc::gen::arbitrary<bool>() ? everything() : windowed();
  const Plan plan = any_plan(model);
  Training training = training_of(1024 * *rc::gen::inRange<std::int64_t>(1, 9));
  const double flash = executed_forward(model, plan, training);
  const double causal = model_forward(model, training, AttentionFlops::causal);
  RC_ASSERT(std::abs(flash / causal - 1) < exact);
  training.attention = AttentionKernel::unfused;  // the whole square, where nothing is windowed
  if (model.window) return;
  const double full = model_forward(model, training, AttentionFlops::full);
  RC_ASSERT(std::abs(executed_forward(model, plan, training) / full - 1) < exact);
}

RC_GTEST_PROP(ExecutedFlops, HeadsForSequenceNeitherAddNorDrop, ()) {
  const Training training = training_of(4096);
  const Plan plan{.tp = *rc::gen::element<std::int64_t>(1, 2),
                  .cp = 4,
                  .dp = 8,
                  .sequence_parallel = true,
                  .context = ContextExchange::all_to_all};
  const double causal = model_forward(windowed(), training, AttentionFlops::causal);
  RC_ASSERT(std::abs(executed_forward(windowed(), plan, training) / causal - 1) < exact);
}

// Without sequence parallelism every TP rank multiplies all tokens with the matrices that TP does not split: both
// down-projections, the router and the gate.
TEST(ExecutedFlops, CopiesWithoutSequenceParallelism) {
  const Model m = everything();
  const Training training = training_of(4096);
  const double tokens = 64.0 * 4096;
  const double layers = 6 + 1;
  const double with_experts = 4 + 1;
  const double copied = 2 * tokens * 7168 * (layers * (1536 + 512 + 64) + with_experts * (16 + 1));
  const double causal = model_forward(m, training, AttentionFlops::causal);
  // The experts' own copies of tokens are shared out as with sequence parallelism.
  const double executed = executed_forward(m, {.tp = 4, .dp = 8}, training);
  EXPECT_NEAR(executed / (causal + 3 * copied), 1, exact);
}

TEST(ExecutedFlops, PaddingOfVocabularyHeadsAndExperts) {
  const Training training = training_of(4096);
  const double tokens = 64.0 * 4096;
  Model m = llama3_8b();
  m.vocabulary = 128 * 16 - 5;
  const Plan wide{.tp = 16, .dp = 8, .sequence_parallel = true};  // eight KV heads: two ranks hold each
  const double vocabulary = 2 * tokens * 4096 * 5;
  const double kv_copies = 2 * tokens * 4096 * 2 * 1024 * 32;
  EXPECT_NEAR(executed_forward(m, wide, training) /
                  (model_forward(m, training, AttentionFlops::causal) + vocabulary + kv_copies),
              1, exact);
  const Model e = mixtral();
  Plan plan{.dp = 8, .ep = 8, .expert_capacity = 1.25};
  const double routed = 2 * tokens * 2 * 3 * 4096 * 14336 * 32;
  m = e;
  m.vocabulary = 128 * 250;
  EXPECT_NEAR(
      executed_forward(m, plan, training) / (model_forward(m, training, AttentionFlops::causal) + 0.25 * routed), 1,
      exact);
}

// --- recompute ------------------------------------------------------------------------------------------------------

Training recomputing(std::vector<RecomputeModule> modules) {
  Training t = training_of(4096);
  t.recompute = Recompute::selective;
  t.recompute_modules = std::move(modules);
  return t;
}

TEST(RecomputedFlops, FullIsTheLayersForward) {
  const Model m = llama3_8b();
  const Plan plan{.tp = 4, .pp = 2, .dp = 4, .sequence_parallel = true};
  Training training = training_of(4096);
  EXPECT_EQ(recomputed_flops(m, plan, training), 0);
  training.recompute = Recompute::full;
  for (const AttentionFlops convention : {AttentionFlops::causal, AttentionFlops::full}) {
    training.attention_flops = convention;
    const ForwardFlops f = forward_flops(m, 4096, convention);
    EXPECT_NEAR(recomputed_flops(m, plan, training) / (64 * (f.linear + f.attention)), 1, exact);
    for (const AttentionKernel kernel : all_attention_kernels) {
      training.attention = kernel;
      EXPECT_NEAR(recomputed_flops(m, plan, training) / (64 * (f.linear + f.attention)), 1, exact);
    }
  }
}

TEST(RecomputedFlops, PrunedLeavesOutTheLastProductOfDenseLayers) {
  const double product = 2 * 64.0 * 4096 * 4096 * 14336;  // of a layer, all tokens of a step
  const Model m = llama3_8b();
  Training training = training_of(4096);
  training.recompute = Recompute::full;
  const auto saved = [&](const Model& model) {
    Training pruned = training;
    pruned.stack.prunes_recompute = true;
    return recomputed_flops(model, {.dp = 4}, training) - recomputed_flops(model, {.dp = 4}, pruned);
  };
  EXPECT_NEAR(saved(m) / (32 * product), 1, 1e-9);
  Model read = m;
  read.post_norms = true;  // the norm behind the block reads it
  EXPECT_EQ(saved(read), 0);
  training.recompute_layers = 2;  // groups are played whole
  EXPECT_EQ(saved(m), 0);
  training.recompute_layers = 1;
  training.recompute = Recompute::selective;
  training.recompute_modules = {RecomputeModule::mlp};
  EXPECT_NEAR(saved(m) / (32 * product), 1, 1e-9);
}

TEST(RecomputedFlops, BlockCountsTheFirstLayersOfAStage) {
  const Model m = llama3_8b();
  const Plan plan{.pp = 4, .dp = 4};
  Training training = training_of(4096);
  training.recompute = Recompute::full;
  const double all = recomputed_flops(m, plan, training);
  training.recompute_method = RecomputeMethod::block;
  training.recompute_layers = 3;
  EXPECT_NEAR(recomputed_flops(m, plan, training) / all, 4 * 3 / 32.0, exact);
  training.recompute_layers = 100;
  EXPECT_NEAR(recomputed_flops(m, plan, training) / all, 1, exact);
}

TEST(RecomputedFlops, OfEachModule) {
  const double tokens = 64.0 * 4096;
  const Plan plan{.dp = 8};
  const Model m = llama3_8b();
  const auto of = [&](const Model& model, std::vector<RecomputeModule> modules) {
    return recomputed_flops(model, plan, recomputing(std::move(modules)));
  };
  EXPECT_NEAR(of(m, {RecomputeModule::attention}) / (64 * forward_flops(m, 4096, AttentionFlops::full).attention), 1,
              exact);
  EXPECT_EQ(of(m, {RecomputeModule::norm, RecomputeModule::activation, RecomputeModule::latent}), 0);
  EXPECT_EQ(of(m, {RecomputeModule::experts}), 0);
  EXPECT_NEAR(of(m, {RecomputeModule::mlp}) / (2 * tokens * 32 * 3 * 4096 * 14336), 1, exact);
  EXPECT_NEAR(of(m, {RecomputeModule::projection}) / (2 * tokens * 32 * 4096 * 4096), 1, exact);
  // K, the projection and up.
  EXPECT_NEAR(of(m, {RecomputeModule::matmul}) / (2 * tokens * 32 * 4096 * (1024 + 4096 + 14336)), 1, exact);
  Model g = gpt(32, 4096, 32);  // K and the projection: its second product is the layer's last
  g.max_positions = 4096;
  EXPECT_NEAR(of(g, {RecomputeModule::matmul}) / (2 * tokens * 32 * 4096 * 2 * 4096), 1, exact);
  const Model e = everything();  // seven layers with MTP's, five of them with experts
  EXPECT_NEAR(of(e, {RecomputeModule::latent}) / (2 * tokens * 7 * 128 * (1536 * 192 + 512 * 256)), 1, exact);
  EXPECT_NEAR(of(e, {RecomputeModule::mlp}) / (2 * tokens * 2 * 3 * 7168 * 18432), 1, exact);
  EXPECT_NEAR(of(e, {RecomputeModule::experts}) / (2 * tokens * 5 * 7168 * (16 + 1 + (2 + 1) * 3 * 2048)), 1, exact);
  // Both up-projections in every layer; gate in dense layers; the shared experts' gate and the router in the others.
  EXPECT_NEAR(of(e, {RecomputeModule::matmul}) /
                  (2 * tokens * (7 * 128 * (1536 * 192 + 512 * 256) + 7168.0 * (2 * 18432 + 5 * (2048 + 16)))),
              1, exact);
}

}  // namespace
}  // namespace foretrain
