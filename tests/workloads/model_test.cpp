#include "workloads/model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

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

// --- experts, windows, latent attention ------------------------------------------------------------------------

TEST(Model, KindsFollowTheRuleOfTheLayers) {
  Model m = llama({6, 64, 128, 4, 4, 1000});
  EXPECT_EQ(m.kind_of(5), LayerKind{});
  m.experts = Experts{.count = 4, .topk = 1, .ffn_hidden = 64, .first_dense = 1, .every = 2};
  m.window = SlidingWindow{.tokens = 16, .full_every = 3};
  const bool experts[] = {false, false, true, false, true, false};
  const bool windowed[] = {true, true, false, true, true, false};
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(m.kind_of(i).experts, experts[i]) << i;
    EXPECT_EQ(m.kind_of(i).windowed, windowed[i]) << i;
  }
  m.window->full_every = 0;  // Mistral 7B
  EXPECT_TRUE(m.kind_of(2).windowed);
}

// The paper says 671B in all and 37B active. The hub counts 684.5e9 elements in the release's files: the model, the MTP
// module with copies of embedding and head of its own, and 0.04e9 scales of fp8 blocks.
TEST(Model, CountsDeepSeekV3) {
  const Model m = deepseek_v3();
  EXPECT_EQ(m.parameters(), 671'026'419'200);
  EXPECT_NEAR(static_cast<double>(m.active_parameters() - m.embedding_parameters()), 37e9, 0.5e9);
  const std::int64_t files = m.parameters() + m.mtp_parameters() + 2 * m.embedding_parameters();
  EXPECT_NEAR(static_cast<double>(files), 684.5e9, 0.05e9);
}

// Active parameters differ from all by the experts that a token does not choose.
TEST(Model, ActiveParametersLeaveOutTheOtherExperts) {
  Model m = llama({56, 6144, 16384, 48, 8, 32000});
  EXPECT_EQ(m.active_parameters(), m.parameters());
  m.experts = Experts{.count = 8, .topk = 2, .ffn_hidden = 16384};
  EXPECT_EQ(m.parameters() - m.active_parameters(), std::int64_t{56} * 6 * 3 * 6144 * 16384);
  EXPECT_EQ(m.parameters(), 140'620'634'112);  // Mixtral 8x22B: "141B", 39B active
  EXPECT_NEAR(static_cast<double>(m.active_parameters()), 39e9, 0.5e9);
}

// 2 FLOPs a token and active weight of a matrix product, for any kind of layer: all weights but embedding, norms,
// biases.
TEST(Model, LinearFlopsAreTwiceTheActiveMatrixWeights) {
  const Model m = deepseek_v3();
  const ForwardFlops f = forward_flops(m, 1, AttentionFlops::full);
  const std::int64_t norms = 61 * (2 * 7168 + 1536 + 512) + 7168;
  const std::int64_t router_biases = std::int64_t{58} * 256;
  const std::int64_t matrices = m.active_parameters() - m.embedding_parameters() - norms - router_biases;
  EXPECT_DOUBLE_EQ(f.linear + f.logits, 2.0 * static_cast<double>(matrices));
}

// Scores take 192 and values 128 elements a head; the module for further tokens is a layer, a projection of 2h to h,
// and the logits again.
TEST(Model, LatentAttentionAndMtpFlops) {
  const Model m = deepseek_v3();
  const double s = 4096;
  const ForwardFlops f = forward_flops(m, 4096, AttentionFlops::causal);
  EXPECT_DOUBLE_EQ(f.attention, 61 * 2 * s * (s / 2) * 128 * (192 + 128));
  const double last_layer = 2 * s *
                            (static_cast<double>(m.layer_parameters({.experts = true}) - 2 * 7168 - 1536 - 512 - 256 -
                                                 std::int64_t{248} * 3 * 7168 * 2048));
  const double expected = last_layer + f.attention / 61 + 2 * s * 2 * 7168 * 7168 + f.logits;
  EXPECT_NEAR(f.mtp / expected, 1, 1e-12);
}

// A window of w: the first w queries meet 1 to w keys, all later ones w; counted key by key here.
RC_GTEST_PROP(ModelProperties, WindowsCoverWhatTheyCover, ()) {
  Model m = llama({2, 64, 128, 4, 4, 1000});
  const std::int64_t s = *rc::gen::inRange<std::int64_t>(1, 300);
  m.window = SlidingWindow{.tokens = *rc::gen::inRange<std::int64_t>(1, 400), .full_every = 2};
  const auto pairs = [&](std::int64_t window) {
    double met = 0;  // each query its own key by half, as the half square of `causal` counts it
    for (std::int64_t q = 1; q <= s; ++q) met += static_cast<double>(std::min(q, window)) - (q <= window ? 0.5 : 0);
    return met;
  };
  const double expected = 2.0 * 64 * 2 * (pairs(m.window->tokens) + pairs(s));
  const ForwardFlops f = forward_flops(m, s, AttentionFlops::causal);
  RC_ASSERT(std::abs(f.attention / expected - 1) < 1e-12);
  RC_ASSERT(std::abs(forward_flops(m, s, AttentionFlops::full).attention / expected - 2) < 1e-12);
}

}  // namespace
}  // namespace foretrain
