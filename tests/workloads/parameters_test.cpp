// What ranks hold: whole models without splits, closed forms of each split, and conservation over all ranks.
#include "workloads/parameters.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/workloads/gpus.h"

namespace foretrain {
namespace {

TEST(RankParameters, OneRankHoldsTheWholeModel) {
  const Model llama405 = llama3_405b();  // 128256 is a multiple of 128: no padding
  EXPECT_EQ(stage_parameters(llama405, {}, 0), 405'853'388'800);
  const RankParameters v3 = stage_rank_parameters(deepseek_v3(), {}, 0);  // so is 129280
  EXPECT_EQ(v3.total(), deepseek_v3().parameters() + deepseek_v3().mtp_parameters());
  // 58 layers and the MTP module's, 256 experts of three matrices of 7168 x 2048.
  EXPECT_EQ(v3.expert, std::int64_t{59} * 256 * 3 * 7168 * 2048);
}

// Megatron-Core splits the up-projections of MLA by heads and keeps both down-projections whole.
TEST(RankParameters, LatentAttentionKeepsItsDownProjectionsWhole) {
  Model m = deepseek_v3();
  m.experts.reset();
  const std::int64_t h = 7168, ffn = 18432, t = 8;
  const std::int64_t down = h * 1536 + 1536 + h * (512 + 64) + 512;
  const std::int64_t up = 1536 * 128 * 192 + 512 * 128 * (128 + 128) + 128 * 128 * h;
  EXPECT_EQ(layer_rank_parameters(m, {.tp = t}, {}).dense, down + up / t + 3 * h * ffn / t + 2 * h);
}

// EP 8 x ETP 2 over TP 4: a rank holds an eighth of the experts, half as wide; router and gate are whole.
TEST(RankParameters, ExpertsSplitOverTheirOwnGrid) {
  Model m = llama({4, 1024, 4096, 16, 4, 32000});
  m.experts = Experts{.count = 64, .topk = 6, .ffn_hidden = 512, .shared_ffn_hidden = 1024, .shared_gate = true};
  const std::int64_t h = 1024;
  const RankParameters rank = layer_rank_parameters(m, {.tp = 4, .dp = 4, .ep = 8, .etp = 2}, {.experts = true});
  EXPECT_EQ(rank.expert, 64 / 8 * 3 * h * (512 / 2));
  const std::int64_t attention = (h * (16 + 2 * 4) * 64 + 16 * 64 * h) / 4;
  EXPECT_EQ(rank.dense, attention + 2 * h + h * 64 + h + 3 * h * 1024 / 4);
}

TEST(RankParameters, MoreTpRanksThanKvHeadsHoldCopies) {
  const Model m = llama({1, 1024, 4096, 16, 2, 32000});
  const std::int64_t h = 1024;
  // One of the two KV heads on each of 8 ranks.
  EXPECT_EQ(layer_rank_parameters(m, {.tp = 8}, {}).dense, h * (2 + 2) * 64 + 2 * 64 * h + 3 * h * 4096 / 8 + 2 * h);
}

TEST(RankParameters, MtpModulesTakeACopyOfTheEmbeddingToTheLastStage) {
  const Model m = deepseek_v3();
  const Plan alone{.tp = 2}, pipeline{.tp = 2, .pp = 4};
  const std::int64_t table = std::int64_t{129280} / 2 * 7168;  // 1010 multiples of 128: unpadded for TP 2
  EXPECT_EQ(mtp_rank_parameters(m, pipeline).dense, mtp_rank_parameters(m, alone).dense + table);
  EXPECT_EQ(mtp_rank_parameters(m, pipeline).expert, mtp_rank_parameters(m, alone).expert);
}

// --- conservation -----------------------------------------------------------------------------------------------

Model random_model() {
  Model m = llama({*rc::gen::inRange<std::int64_t>(1, 9), 64, *rc::gen::element<std::int64_t>(128, 192), 8,
                   *rc::gen::element<std::int64_t>(1, 2, 4, 8), *rc::gen::inRange<std::int64_t>(1, 3000)});
  m.head_dim = *rc::gen::element<std::int64_t>(8, 16);
  m.norm = *rc::gen::element(Norm::layernorm, Norm::rmsnorm, Norm::layernorm_plain);
  m.activation = *rc::gen::element(Activation::gelu, Activation::swiglu);
  m.positions = *rc::gen::element(Positions::learned, Positions::alibi);
  m.max_positions = 128;
  m.biases = {.qkv = *rc::gen::arbitrary<bool>(),
              .projection = *rc::gen::arbitrary<bool>(),
              .mlp = *rc::gen::arbitrary<bool>(),
              .router = *rc::gen::arbitrary<bool>()};
  m.tied_embeddings = *rc::gen::arbitrary<bool>();
  m.qk_norm = *rc::gen::arbitrary<bool>();
  m.qk_norm_wide = m.qk_norm && *rc::gen::arbitrary<bool>();
  m.post_norms = *rc::gen::arbitrary<bool>();
  m.embedding_norm = *rc::gen::arbitrary<bool>();
  m.attention_sinks = *rc::gen::arbitrary<bool>();
  m.mtp_layers = *rc::gen::inRange<std::int64_t>(0, 3);
  if (*rc::gen::arbitrary<bool>()) {
    m.kv_heads = m.heads;
    m.latent = LatentAttention{.query_rank = *rc::gen::element<std::int64_t>(0, 24),
                               .kv_rank = 16,
                               .nope_dim = 8,
                               .rope_dim = 4,
                               .value_dim = 8};
  }
  if (*rc::gen::arbitrary<bool>()) {
    m.experts = Experts{.count = 8,
                        .topk = 2,
                        .ffn_hidden = 32,
                        .shared_ffn_hidden = *rc::gen::element<std::int64_t>(0, 64),
                        .first_dense = *rc::gen::inRange<std::int64_t>(0, 3),
                        .every = *rc::gen::inRange<std::int64_t>(1, 3)};
    m.experts->shared_gate = m.experts->shared_ffn_hidden > 0;
  }
  return m;
}

/// Of one layer: what each TP rank has whole; TP beyond the KV heads; ETP's whole biases.
std::int64_t whole_in_layer(const Model& m, LayerKind kind) {
  const std::int64_t n = m.norm == Norm::layernorm ? 2 : m.norm == Norm::rmsnorm ? 1 : 0;
  std::int64_t whole = (m.post_norms ? 4 : 2) * n * m.hidden + (m.biases.projection ? m.hidden : 0);
  if (m.qk_norm) whole += m.qk_norm_wide ? n * (m.heads + m.kv_heads) * m.qk_dim() : 2 * n * m.qk_dim();
  if (m.latent) {
    whole += m.latent->query_rank * (m.hidden + n) + m.hidden * (m.latent->kv_rank + m.latent->rope_dim) +
             n * m.latent->kv_rank;
  }
  const bool row_bias = kind.experts ? m.experts->shared_ffn_hidden > 0 : true;
  if (row_bias && m.biases.mlp) whole += m.hidden;
  if (kind.experts) {
    whole += m.hidden * m.experts->count + (m.biases.router ? m.experts->count : 0) +
             (m.experts->shared_gate ? m.hidden : 0);
  }
  return whole;
}

std::int64_t copies_in_layer(const Model& m, const Plan& plan, LayerKind kind) {
  RC_ASSERT(whole_layer_parameters(m, kind) == whole_in_layer(m, kind));
  std::int64_t copies = (plan.tp - 1) * whole_in_layer(m, kind);
  if (!m.latent && plan.tp > m.kv_heads)
    copies += (plan.tp - m.kv_heads) * 2 * m.head_dim * (m.hidden + (m.biases.qkv ? 1 : 0));
  if (kind.experts && m.biases.mlp) copies += (plan.etp - 1) * m.experts->count * m.hidden;
  return copies;
}

// Over all ranks of a pipeline, each expert counted once a replica, there is the model, the MTP modules, and nothing
// but the copies and the padding named here.
RC_GTEST_PROP(RankParametersProperties, AllRanksTogetherHoldTheModelAndItsCopies, ()) {
  const Model m = random_model();
  const Plan plan{.tp = *rc::gen::element<std::int64_t>(1, 2, 4),
                  .pp = *rc::gen::inRange<std::int64_t>(1, m.layers + 1),
                  .dp = 4,
                  .ep = *rc::gen::element<std::int64_t>(1, 2, 4),
                  .etp = *rc::gen::element<std::int64_t>(1, 2)};
  std::int64_t held = 0;
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    const RankParameters rank = stage_rank_parameters(m, plan, stage);
    RC_ASSERT(stage_parameters(m, plan, stage) == rank.dense + rank.expert);
    held += plan.tp * rank.dense + plan.ep * plan.etp * rank.expert;
  }
  std::int64_t copies = 0;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) copies += copies_in_layer(m, plan, m.kind_of(layer));
  copies += m.mtp_layers * copies_in_layer(m, plan, m.kind_of(m.layers - 1));
  const std::int64_t n = m.norm == Norm::layernorm ? 2 : m.norm == Norm::rmsnorm ? 1 : 0;
  const std::int64_t positions = m.positions == Positions::learned ? m.max_positions * m.hidden : 0;
  const std::int64_t end_norms = 1 + (m.embedding_norm ? 1 : 0) + 3 * m.mtp_layers;
  copies += (plan.tp - 1) * (positions + end_norms * n * m.hidden);
  const bool several = plan.pp > 1;
  const std::int64_t tables = 1 + (m.tied_embeddings ? 0 : 1);
  // The tied head, or what MTP modules look up beside an untied one.
  const std::int64_t copied_tables = several && (m.tied_embeddings || m.mtp_layers > 0) ? 1 : 0;
  const std::int64_t unit = 128 * plan.tp;
  const std::int64_t padded = (m.vocabulary + unit - 1) / unit * unit;
  copies += m.hidden * (copied_tables * padded + tables * (padded - m.vocabulary));
  RC_ASSERT(held == m.parameters() + m.mtp_parameters() + copies);
}

}  // namespace
}  // namespace foretrain
