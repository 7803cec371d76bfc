#include "workloads/model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/workloads/gpus.h"

namespace foretrain {
namespace {

// Counts of the published checkpoints (sum over their tensors).
TEST(Model, CountsParametersOfPublishedLlamas) {
  EXPECT_EQ(llama3_405b().parameters(), 405'853'388'800);
  EXPECT_EQ(llama({80, 8192, 28672, 64, 8, 128256}).parameters(), 70'553'706'496);
  EXPECT_EQ(llama3_8b().parameters(), 8'030'261'248);
  EXPECT_EQ(llama({32, 4096, 11008, 32, 32, 32000}).parameters(), 6'738'415'616);
  EXPECT_EQ(llama({40, 5120, 13824, 40, 40, 32000}).parameters(), 13'015'864'320);
  EXPECT_EQ(llama({80, 8192, 28672, 64, 8, 32000}).parameters(), 68'976'648'192);
}

// GPT-2's smallest checkpoint holds 124,439,808 parameters: 12 layers, h 768, V 50257, 1024 positions.
TEST(Model, CountsParametersOfGpt2) {
  Model gpt2 = gpt(12, 768, 12, 50257);
  gpt2.max_positions = 1024;
  EXPECT_EQ(gpt2.parameters(), 124'439'808);
}

// Narayanan 2021, equation 2: P = 12 l h^2 (1 + 13/(12h) + (V + s)/(12 l h)); it leaves out the final norm's 2h.
RC_GTEST_PROP(ModelProperties, GptParametersFollowNarayanan, ()) {
  const std::int64_t l = *rc::gen::inRange<std::int64_t>(1, 129);
  const std::int64_t h = 64 * *rc::gen::inRange<std::int64_t>(1, 400);
  const std::int64_t v = *rc::gen::inRange<std::int64_t>(1, 300'000);
  const Model m = gpt(l, h, h / 64, v);
  const std::int64_t narayanan = 12 * l * h * h + 13 * l * h + (v + m.max_positions) * h;
  RC_ASSERT(m.parameters() == narayanan + 2 * h);
}

TEST(Model, CountsParametersOfGpt3) {
  for (const std::int64_t v : {50257, 51200}) {
    const std::int64_t l = 96;
    const std::int64_t h = 12288;
    EXPECT_EQ(gpt(l, h, 96, v).parameters(), 12 * l * h * h + 13 * l * h + (v + 2048) * h + 2 * h);
  }
  // "175B" of Brown 2020, table 2.1, which rounds 174.6.
  EXPECT_NEAR(static_cast<double>(gpt(96, 12288, 96, 50257).parameters()), 174.6e9, 0.05e9);
}

TEST(Model, PartsAddUp) {
  const Model m = llama3_405b();
  EXPECT_EQ(m.parameters(), m.layers * m.layer_parameters({}) + m.embedding_parameters() + m.output_parameters());
  Model untied = gpt(24, 1024, 16);
  const std::int64_t tied = untied.parameters();
  untied.tied_embeddings = false;
  EXPECT_EQ(untied.parameters() - tied, untied.vocabulary * untied.hidden);
}

// Narayanan 2021, equation 3: F = 96 B s l h^2 (1 + s/(6h) + V/(16 l h)). It counts four passes of the layers (full
// recompute repeats their forward) and three of the logits, which are not recomputed.
RC_GTEST_PROP(ModelProperties, GptFlopsFollowNarayanan, ()) {
  const std::int64_t l = *rc::gen::inRange<std::int64_t>(1, 129);
  const std::int64_t h = 128 * *rc::gen::inRange<std::int64_t>(1, 200);
  const std::int64_t s = 128 * *rc::gen::inRange<std::int64_t>(1, 65);
  const Model m = gpt(l, h, h / 128);
  const ForwardFlops f = forward_flops(m, s, AttentionFlops::full);
  const auto ld = static_cast<double>(l);
  const auto hd = static_cast<double>(h);
  const auto sd = static_cast<double>(s);
  const double narayanan =
      96 * sd * ld * hd * hd * (1 + sd / (6 * hd) + static_cast<double>(m.vocabulary) / (16 * ld * hd));
  const double ours = 4 * (f.linear + f.attention) + 3 * f.logits;
  RC_ASSERT(std::abs(ours / narayanan - 1) < 1e-12);
}

// Without attention, a dense model takes 2 FLOPs a token and weight that is part of a matrix product (Kaplan 2020).
TEST(Model, LinearFlopsAreTwiceTheMatrixWeights) {
  const Model m = llama3_8b();
  const ForwardFlops f = forward_flops(m, 1, AttentionFlops::full);
  const std::int64_t norms = (2 * m.layers + 1) * m.hidden;
  const std::int64_t matrices = m.parameters() - norms - m.embedding_parameters();
  EXPECT_DOUBLE_EQ(f.linear + f.logits, 2.0 * static_cast<double>(matrices));
}

TEST(Model, CausalCountsHalfOfTheAttentionSquare) {
  const Model m = llama3_405b();
  const ForwardFlops full = forward_flops(m, 8192, AttentionFlops::full);
  const ForwardFlops causal = forward_flops(m, 8192, AttentionFlops::causal);
  EXPECT_DOUBLE_EQ(causal.attention, full.attention / 2);
  EXPECT_DOUBLE_EQ(causal.linear, full.linear);
  EXPECT_DOUBLE_EQ(causal.logits, full.logits);
}

TEST(Model, StepIsThreeForwardsASequence) {
  const Model m = llama3_8b();
  EXPECT_DOUBLE_EQ(step_flops(m, 4096, 7, AttentionFlops::causal),
                   3 * 7 * forward_flops(m, 4096, AttentionFlops::causal).total());
}

}  // namespace
}  // namespace foretrain
