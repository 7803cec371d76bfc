#include "workloads/memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/workloads/gpus.h"
#include "tests/workloads/reference.h"

namespace foretrain {
namespace {

/// Megatron-LM of 2022: half-precision gradients, unfused attention.
Training megatron_2022(std::int64_t microbatch) {
  return {.sequence_length = 2048,
          .global_batch = microbatch,
          .microbatch = microbatch,
          .precision = Precision::fp16,
          .attention = AttentionKernel::unfused};
}

struct Symbols {
  double s, b, h, a, t;
};
Symbols symbols(const Model& m, const Plan& p, const Training& t) {
  return {static_cast<double>(t.sequence_length), static_cast<double>(t.microbatch), static_cast<double>(m.hidden),
          static_cast<double>(m.heads), static_cast<double>(p.tp)};
}

double counted(Bytes b) { return static_cast<double>(b.count()); }

Model any_gpt() {
  const std::int64_t heads = 8 * *rc::gen::inRange<std::int64_t>(1, 20);
  return gpt(8, heads * 64, heads);
}

// --- activations: Korthikanti 2022, table 2 ---------------------------------------------------------------------

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
  training.precision = *rc::gen::element(Precision::bf16, Precision::fp8, Precision::fp32);
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

TEST(Activations, DropoutKeepsMasks) {
  Model m = gpt(4, 1024, 16);
  const Training training{.sequence_length = 2048, .global_batch = 1};
  const Bytes with = layer_activations(m, {}, training);
  EXPECT_EQ(embedding_activations(m, {}, training), bytes(training.sequence_length * m.hidden));
  m.dropout = false;
  EXPECT_EQ(with - layer_activations(m, {}, training), bytes(2 * training.sequence_length * m.hidden));
  EXPECT_EQ(embedding_activations(m, {}, training), Bytes());
}

TEST(Activations, OutputKeepsNormHeadInputAndTenBytesALogit) {
  const Plan plan{.tp = 8, .sequence_parallel = true};
  const Training training{.sequence_length = 8192, .global_batch = 1};
  EXPECT_EQ(output_activations(llama3_405b(), plan, training),
            bytes(training.sequence_length * 4 * 16384 / 8) + bytes(training.sequence_length * 10 * 129024 / 8));
}

// --- states -----------------------------------------------------------------------------------------------------

Bytes states(std::int64_t n, int zero, std::int64_t dp, Precision gradients) {
  const Training training{.gradients = gradients};
  const StateBytes s = state_bytes(n, {.dp = dp, .zero = zero}, training);
  return s.parameters + s.gradients + s.optimizer;
}

// Rajbhandari 2020, section 5 (16 N; 4 N + 12 N/d) and the table of Megatron-Core's distributed optimizer (18; 6 +
// 12/d).
RC_GTEST_PROP(StateProperties, FollowZero, ()) {
  const std::int64_t d = *rc::gen::inRange<std::int64_t>(1, 1025);
  const std::int64_t n = d * *rc::gen::inRange<std::int64_t>(1, 1'000'000);
  RC_ASSERT(states(n, 0, d, Precision::bf16) == bytes(16 * n));
  RC_ASSERT(states(n, 1, d, Precision::bf16) == bytes(4 * n + 12 * n / d));
  RC_ASSERT(states(n, 0, d, Precision::fp32) == bytes(18 * n));
  RC_ASSERT(states(n, 1, d, Precision::fp32) == bytes(6 * n + 12 * n / d));
}

// Ten parameters on three ranks: one holds four, 12 bytes each.
TEST(States, UnevenSharesRoundUp) { EXPECT_EQ(state_bytes(10, {.dp = 3, .zero = 1}, {}).optimizer, bytes(48)); }

TEST(States, FullPrecisionNeedsNoMasterCopy) {
  const StateBytes s = state_bytes(100, {}, {.precision = Precision::fp32});
  EXPECT_EQ(s.parameters + s.gradients + s.optimizer, bytes(1600));
}

// --- parameters of a stage --------------------------------------------------------------------------------------

std::int64_t all_stages(const Model& model, const Plan& plan) {
  std::int64_t sum = 0;
  for (std::int64_t stage = 0; stage < plan.stages(); ++stage) sum += stage_parameters(model, plan, stage);
  return sum;
}

TEST(StageParameters, AddUpToTheModelWithoutTp) {
  const Model llama405 = llama3_405b();  // 128256 is a multiple of 128: no padding
  for (const std::int64_t pp : {1, 2, 7, 126, 128}) {
    EXPECT_EQ(all_stages(llama405, {.pp = pp}), llama405.parameters()) << pp;
  }
  const Model tied = gpt(24, 1024, 16);
  EXPECT_EQ(all_stages(tied, {}), tied.parameters());
  // A second copy of the tied matrix on the last stage.
  EXPECT_EQ(all_stages(tied, {.pp = 4}), tied.parameters() + tied.vocabulary * tied.hidden);
}

TEST(StageParameters, TpSplitsMatricesAndReplicatesNormsAndRowBiases) {
  const std::int64_t h = 1024;
  const std::int64_t t = 4;
  const std::int64_t layers = 24;
  const Model m = gpt(layers, h, 16);
  const std::int64_t split = layers * (12 * h * h + 7 * h) + m.vocabulary * h;  // biases of QKV 3h and FC1 4h
  const std::int64_t replicated = layers * (4 * h + 2 * h) + m.max_positions * h + 2 * h;
  EXPECT_EQ(stage_parameters(m, {.tp = t}, 0), split / t + replicated);
}

TEST(StageParameters, VirtualStagesOfARankHoldWhatTheirLayersDo) {
  const Model m = llama3_405b();
  const Plan chunks{.tp = 8, .pp = 16, .schedule = {.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 8}};
  EXPECT_EQ(stage_parameters(m, chunks, 0), std::int64_t{129024} / 8 * 16384);  // the embedding alone
  EXPECT_EQ(stage_parameters(m, chunks, 1) * 126 + stage_parameters(m, chunks, 0) + stage_parameters(m, chunks, 127),
            all_stages(m, chunks));
}

// --- published points -------------------------------------------------------------------------------------------

struct Published {
  Model model;
  Plan plan;
  std::int64_t microbatch;
};

/// Models of Korthikanti 2022, table 3. 175B and 530B are interleaved with 3 chunks a stage, 22B and 1T are not.
Published korthikanti(const std::string& name) {
  if (name == "GPT 22B") return {gpt(48, 6144, 64), {.tp = 8}, 4};
  if (name == "GPT 175B") {
    return {gpt(96, 12288, 96), {.tp = 8, .pp = 8, .schedule = {ScheduleKind::interleaved_1f1b, 3}}, 1};
  }
  if (name == "GPT 530B") {
    return {gpt(105, 20480, 128), {.tp = 8, .pp = 35, .schedule = {ScheduleKind::interleaved_1f1b, 3}}, 1};
  }
  return {gpt(128, 25600, 160), {.tp = 8, .pp = 64}, 1};
}

double predicted_gib(const ReferenceRow& row, const Published& p, const Training& training) {
  const double gib = 1024.0 * 1024 * 1024;
  const auto pp = static_cast<double>(p.plan.pp);
  const auto v = static_cast<double>(p.plan.schedule.virtual_stages);
  const std::int64_t layers = p.model.layers;
  if (row.at("quantity").find("optimizer") != std::string::npos) {
    // The paper counts 12 h^2 a layer and 18 bytes a parameter, and no embedding.
    const std::int64_t n = 12 * p.model.hidden * p.model.hidden / p.plan.tp * layers / p.plan.pp;
    const StateBytes s = state_bytes(n, p.plan, {.precision = Precision::fp16, .gradients = Precision::fp32});
    return counted(s.parameters + s.gradients + s.optimizer) / gib;
  }
  // First stage: pp microbatches of layers / pp layers, and (pp - 1)/(pp v) more when interleaved (section 4.2.3).
  const double in_flight = v > 1 ? 1 + (pp - 1) / (pp * v) : 1;
  return counted(layer_activations(p.model, p.plan, training)) * static_cast<double>(layers) * in_flight / gib;
}

TEST(PublishedMemory, KorthikantiFigures1And7) {
  const std::vector<ReferenceRow> rows = reference_rows("memory_points.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("memory_points.csv");
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    if (row.at("source").rfind("Korthikanti", 0) != 0) continue;
    Published p = korthikanti(row.at("model"));
    Training training = megatron_2022(p.microbatch);
    const double baseline = counted(layer_activations(p.model, p.plan, training));
    p.plan.sequence_parallel = row.at("sp") == "1";
    if (row.at("recompute") == "selective") training.recompute = Recompute::selective;
    if (row.at("recompute") == "full") training.recompute = Recompute::full;
    const double predicted = row.at("unit") == "percent"
                                 ? 100 * counted(layer_activations(p.model, p.plan, training)) / baseline
                                 : predicted_gib(row, p, training);
    EXPECT_NEAR(predicted / std::stod(row.at("value")), 1, 0.015) << row.at("id");
    ++compared;
  }
  EXPECT_EQ(compared, 32);
}

TEST(PublishedMemory, ZeroFigure1) {
  const std::vector<ReferenceRow> rows = reference_rows("memory_points.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("memory_points.csv");
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    const std::string stage = row.at("zero_stage").substr(0, 1);
    if (row.at("source").rfind("ZeRO", 0) != 0 || (stage != "0" && stage != "1")) continue;
    const Bytes predicted = states(7'500'000'000, std::stoi(stage), 64, Precision::fp16);
    EXPECT_NEAR(counted(predicted) / 1e9, std::stod(row.at("value")), 0.05) << row.at("id");  // printed to 0.1 GB
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

// --- measured peaks ---------------------------------------------------------------------------------------------

/// Largest stage under 1F1B: stage i keeps pp - i microbatches, and the loss or one layer's backward comes on top.
double one_f_one_b_peak(const Model& model, const Plan& plan, const Training& training) {
  double peak = 0;
  const std::vector<std::int64_t> layers = layers_by_stage(model, plan);
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    const StateBytes s = state_bytes(stage_parameters(model, plan, stage), plan, training);
    const Bytes kept = layers[static_cast<std::size_t>(stage)] * layer_activations(model, plan, training) +
                       (stage == 0 ? embedding_activations(model, plan, training) : Bytes());
    const Bytes loss = stage == plan.pp - 1 ? output_activations(model, plan, training) : Bytes();
    const Bytes top = std::max(loss, backward_transient(model, plan, training));
    peak = std::max(peak, counted(s.parameters + s.gradients + s.optimizer + (plan.pp - stage) * kept + top));
  }
  return peak;
}

std::int64_t whole(const ReferenceRow& row, const char* column) { return std::stoll(row.at(column)); }

// Peaks read by the authors from PyTorch's allocator. Zero Bubble (Qi 2023, table 4; 1e9 bytes): GPT in fp16 with
// half-precision gradients and unfused attention. SimuMax on B200 (GiB): Llama shapes, bf16, distributed optimizer.
TEST(MeasuredMemory, OneForwardOneBackwardPeaksWithin5Percent) {
  const std::vector<ReferenceRow> rows = reference_rows("training_runs.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("training_runs.csv");
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    const bool zero_bubble = row.at("family") == "zero-bubble" && row.at("pp_schedule") == "1F1B";
    const bool simumax = row.at("family") == "simumax-b200" && row.at("experts").empty() && row.at("seq") == "4096";
    if (!zero_bubble && !simumax) continue;
    const Plan plan{.tp = whole(row, "tp"),
                    .pp = whole(row, "pp"),
                    .dp = whole(row, "dp"),
                    .sequence_parallel = row.at("sp") == "1",
                    .zero = simumax ? 1 : 0};
    Training training{
        .sequence_length = whole(row, "seq"), .global_batch = whole(row, "gbs"), .microbatch = whole(row, "mbs")};
    Model model = gpt(whole(row, "layers"), whole(row, "hidden"), whole(row, "heads"), 50257);
    if (zero_bubble) {
      model.max_positions = training.sequence_length;
      model.tied_embeddings = false;
      training.precision = training.gradients = Precision::fp16;
      training.attention = AttentionKernel::unfused;
    } else {
      model = llama({model.layers, model.hidden, whole(row, "ffn_hidden"), model.heads, whole(row, "kv_heads"),
                     whole(row, "vocab")});
    }
    const double unit = simumax ? 1024.0 * 1024 * 1024 : 1e9;
    EXPECT_NEAR(one_f_one_b_peak(model, plan, training) / unit / std::stod(row.at("mem_gb")), 1, 0.05) << row.at("id");
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

// --- transients and overhead ------------------------------------------------------------------------------------

TEST(Transients, BackwardTakesActivationGradientsAndGatheredInput) {
  const Model m = llama3_8b();
  const std::int64_t tokens = 4096;
  const Training half{.sequence_length = tokens, .global_batch = 1, .gradients = Precision::bf16};
  const Plan plan{.tp = 4, .sequence_parallel = true};
  EXPECT_EQ(backward_transient(m, plan, half),
            bytes(6 * m.ffn_hidden / 4 * tokens + 2 * m.hidden * tokens / 4 + 2 * m.hidden * tokens));
  Training fp32 = half;
  fp32.gradients = Precision::fp32;
  // One throw-away bf16 gradient for each of a layer's four weights.
  const std::int64_t norms = 2 * m.hidden;
  EXPECT_EQ(backward_transient(m, {}, fp32) - backward_transient(m, {}, half),
            bytes(2 * (m.layer_parameters({}) - norms)));
}

TEST(Overhead, IsSlackAndContext) {
  EXPECT_EQ(overhead_bytes(Bytes()), bytes(5'300'000'000));
  EXPECT_EQ(overhead_bytes(bytes(60'000'000'000)), bytes(5'300'000'000 + 3'900'000'000));
}

TEST(MemoryPart, HasANameEach) {
  std::vector<std::string_view> names;
  for (const MemoryPart part : all_memory_parts) names.push_back(to_text(part));
  EXPECT_EQ(names, (std::vector<std::string_view>{"parameters", "gradients", "optimizer", "activations", "buffers",
                                                  "overhead"}));
}

}  // namespace
}  // namespace foretrain
