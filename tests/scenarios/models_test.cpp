// Models: what their YAML means, its mistakes, and every model of the catalogue against what was published of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/scenarios/model_support.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace foretrain::testing;

// --- the catalogue against publications ----------------------------------------------------------------------------

// Sums over the tensors of the releases: model cards of the Hugging Face hub, README of Pythia and of the Llama models.
// Falcon's files hold the tied embedding twice; here it counts once, as transformers counts it. MTP modules are left
// out.
TEST(CatalogueModels, ExactCountsOfReleases) {
  const std::pair<const char*, std::int64_t> published[] = {{"bloom-176b", 176'247'271'424},
                                                            {"deepseek-moe-16b", 16'375'728'128},
                                                            {"deepseek-v1-7b", 6'910'365'696},
                                                            {"deepseek-v2", 235'741'434'880},
                                                            {"deepseek-v2-lite", 15'706'484'224},
                                                            {"deepseek-v3", 671'026'419'200},
                                                            {"falcon-7b", 6'921'720'704},
                                                            {"gemma2-27b", 27'227'128'320},
                                                            {"gemma2-2b", 2'614'341'888},
                                                            {"gemma2-9b", 9'241'705'984},
                                                            {"gpt-neox-20b", 20'554'567'680},
                                                            {"gpt-oss-120b", 116'829'156'672},
                                                            {"gpt-oss-20b", 20'914'757'184},
                                                            {"gpt2", 124'439'808},
                                                            {"gpt2-large", 774'030'080},
                                                            {"gpt2-medium", 354'823'168},
                                                            {"gpt2-xl", 1'557'611'200},
                                                            {"llama1-13b", 13'015'864'320},
                                                            {"llama1-33b", 32'528'943'616},
                                                            {"llama1-65b", 65'285'660'672},
                                                            {"llama1-7b", 6'738'415'616},
                                                            {"llama2-13b", 13'015'864'320},
                                                            {"llama2-70b", 68'976'648'192},
                                                            {"llama2-7b", 6'738'415'616},
                                                            {"llama3-405b", 405'853'388'800},
                                                            {"llama3-70b", 70'553'706'496},
                                                            {"llama3-8b", 8'030'261'248},
                                                            {"llama3.2-1b", 1'235'814'400},
                                                            {"llama3.2-3b", 3'212'749'824},
                                                            {"mistral-7b", 7'241'732'096},
                                                            {"mixtral-8x22b", 140'620'634'112},
                                                            {"mixtral-8x7b", 46'702'792'704},
                                                            {"olmo-1b", 1'176'764'416},
                                                            {"olmo-7b", 6'888'095'744},
                                                            {"olmo2-13b", 13'716'198'400},
                                                            {"olmo2-1b", 1'484'916'736},
                                                            {"olmo2-32b", 32'234'279'936},
                                                            {"olmo2-7b", 7'298'617'344},
                                                            {"pythia-1.4b", 1'414'647'808},
                                                            {"pythia-12b", 11'846'072'320},
                                                            {"pythia-160m", 162'322'944},
                                                            {"pythia-1b", 1'011'781'632},
                                                            {"pythia-2.8b", 2'775'208'960},
                                                            {"pythia-410m", 405'334'016},
                                                            {"pythia-6.9b", 6'857'302'016},
                                                            {"pythia-70m", 70'426'624},
                                                            {"qwen2.5-14b", 14'770'033'664},
                                                            {"qwen2.5-32b", 32'763'876'352},
                                                            {"qwen2.5-72b", 72'706'203'648},
                                                            {"qwen2.5-7b", 7'615'616'512},
                                                            {"qwen3-14b", 14'768'307'200},
                                                            {"qwen3-235b-a22b", 235'093'634'560},
                                                            {"qwen3-30b-a3b", 30'532'122'624},
                                                            {"qwen3-32b", 32'762'123'264},
                                                            {"qwen3-8b", 8'190'735'360},
                                                            {"yi-34b", 34'388'917'248},
                                                            {"yi-6b", 6'061'035'520}};
  for (const auto& [name, parameters] : published) EXPECT_EQ(catalogue_model(name).parameters(), parameters) << name;
}

struct Rounded {
  const char* name;
  double parameters;
  double tolerance;  ///< half of the last digit printed, or what the comment says
};

// Numbers as papers print them.
TEST(CatalogueModels, RoundedCountsOfPapers) {
  const Rounded published[] = {
      // Brown 2020, Table 2.1. "350M", "1.3B", "2.7B", "6.7B", "13.0B" are names more than counts.
      {"gpt3-125m", 125e6, 0.5e6},
      {"gpt3-350m", 350e6, 0.02 * 350e6},
      {"gpt3-760m", 760e6, 0.5e6},
      {"gpt3-1.3b", 1.3e9, 0.05e9},
      {"gpt3-2.7b", 2.7e9, 0.05e9},
      {"gpt3-6.7b", 6.7e9, 0.05e9},
      {"gpt3-13b", 13.0e9, 0.02 * 13e9},
      {"gpt3-175b", 175e9, 0.5e9},
      {"mt-nlg-530b", 530e9, 0.5e9},
      {"deepseek-v1-67b", 67e9, 0.5e9},
      // Both files hold the tied embedding twice: 41.8B and 179.5B.
      {"falcon-40b", 41.8e9 - 65024.0 * 8192, 0.05e9},
      {"falcon-180b", 179.5e9 - 65024.0 * 14848, 0.05e9},
      {"kimi-k2", 1.026e12, 0.0005e12},  // the hub's count; the paper says 1.04T
  };
  for (const Rounded& it : published) {
    EXPECT_NEAR(static_cast<double>(catalogue_model(it.name).parameters()), it.parameters, it.tolerance) << it.name;
  }
}

// Without the token embedding, which a token looks up and does not multiply with, as their makers count.
TEST(CatalogueModels, ActiveParameters) {
  const Rounded without_embedding[] = {
      {"gpt-oss-20b", 3.61e9, 0.005e9},     // arXiv 2508.10925, Table 1
      {"gpt-oss-120b", 5.13e9, 0.005e9},    // the same
      {"deepseek-v2-lite", 2.4e9, 0.06e9},  // arXiv 2405.04434, appendix B
      {"deepseek-v3", 37e9, 0.5e9},         // arXiv 2412.19437
      {"kimi-k2", 32e9, 0.5e9},             // arXiv 2507.20534
  };
  for (const Rounded& it : without_embedding) {
    const Model m = catalogue_model(it.name);
    EXPECT_NEAR(static_cast<double>(m.active_parameters() - m.embedding_parameters()), it.parameters, it.tolerance)
        << it.name;
  }
  const Rounded whole[] = {{"mixtral-8x7b", 12.9e9, 0.05e9},    {"mixtral-8x22b", 39e9, 0.5e9},
                           {"qwen3-30b-a3b", 3.3e9, 0.06e9},    {"qwen3-235b-a22b", 22e9, 0.5e9},
                           {"deepseek-moe-16b", 2.8e9, 0.05e9}, {"deepseek-v2", 21e9, 0.5e9}};
  for (const Rounded& it : whole) {
    EXPECT_NEAR(static_cast<double>(catalogue_model(it.name).active_parameters()), it.parameters, it.tolerance)
        << it.name;
  }
}

/// "| `name` | 6,738,415,616 | 6,738,415,616 | ..." of docs/models.md: name, parameters, active.
std::map<std::string, std::pair<std::string, std::string>> documented_models() {
  std::map<std::string, std::pair<std::string, std::string>> rows;
  std::ifstream file(std::filesystem::path(FORETRAIN_SOURCE_DIR) / "docs/models.md");
  bool in_catalogue = false;
  for (std::string line; std::getline(file, line);) {
    in_catalogue = in_catalogue || line == "## Catalogue";
    if (!in_catalogue || !line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
    if (cells.size() < 4) continue;
    const auto bare = [](std::string cell) {
      std::erase_if(cell, [](char c) { return c == ' ' || c == '`'; });
      return cell;
    };
    rows[bare(cells[1])] = {bare(cells[2]), bare(cells[3])};
  }
  return rows;
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

TEST(CatalogueModels, TableOfTheDocumentation) {
  const auto rows = documented_models();
  const std::vector<std::string> names = model_names();
  for (const std::string& name : names) {
    const Model m = catalogue_model(name);
    ASSERT_TRUE(rows.contains(name)) << name << " is not in docs/models.md";
    EXPECT_EQ(rows.at(name).first, with_commas(m.parameters())) << name;
    EXPECT_EQ(rows.at(name).second, m.experts ? with_commas(m.active_parameters()) : "") << name;
  }
  EXPECT_EQ(rows.size(), names.size());
}

// --- the text of a model -------------------------------------------------------------------------------------------

TEST(ModelText, EveryModelComesBackFromItsCanonicalText) {
  for (const std::string& name : model_names()) {
    Scenario s = parse(good);
    s.model = catalogue_model(name);
    s.training.sequence_length = 1024;
    s.plan.tp = 1;
    s.plan.dp = 16;
    s.plan.sequence_parallel = false;
    const Scenario again = parse(to_yaml(s));
    EXPECT_EQ(write_model(again.model, ""), write_model(s.model, "")) << name;
    EXPECT_EQ(again.model.parameters(), s.model.parameters()) << name;
    EXPECT_EQ(again.model.latent, s.model.latent) << name;
    EXPECT_EQ(again.model.experts, s.model.experts) << name;
    EXPECT_EQ(again.model.window, s.model.window) << name;
    EXPECT_EQ(again.model.biases, s.model.biases) << name;
  }
}

RC_GTEST_PROP(ModelTextProperties, EveryFieldComesBack, ()) {
  Scenario s = parse(good);
  Model& m = s.model;
  m.norm = *rc::gen::elementOf(std::vector<Norm>(std::begin(all_norms), std::end(all_norms)));
  m.activation = *rc::gen::elementOf(std::vector<Activation>(std::begin(all_activations), std::end(all_activations)));
  m.positions = *rc::gen::element(Positions::rotary, Positions::alibi);
  for (bool Biases::*bias : {&Biases::qkv, &Biases::projection, &Biases::mlp, &Biases::router})
    m.biases.*bias = *rc::gen::arbitrary<bool>();
  for (bool Model::*flag : {&Model::dropout, &Model::tied_embeddings, &Model::qk_norm, &Model::post_norms,
                            &Model::single_norm, &Model::embedding_norm, &Model::attention_sinks})
    m.*flag = *rc::gen::arbitrary<bool>();
  m.qk_norm_wide = m.qk_norm && *rc::gen::arbitrary<bool>();
  m.mtp_layers = *rc::gen::inRange<std::int64_t>(0, 3);
  if (*rc::gen::arbitrary<bool>()) {
    m.experts = Experts{.count = 8,
                        .topk = *rc::gen::inRange<std::int64_t>(1, 9),
                        .ffn_hidden = 512,
                        .shared_ffn_hidden = 256,
                        .shared_gate = *rc::gen::arbitrary<bool>(),
                        .first_dense = *rc::gen::inRange<std::int64_t>(0, 5),
                        .every = *rc::gen::inRange<std::int64_t>(1, 5),
                        .group_limit = *rc::gen::inRange<std::int64_t>(0, 5)};
  }
  if (*rc::gen::arbitrary<bool>())
    m.window = SlidingWindow{.tokens = 128, .full_every = *rc::gen::inRange<std::int64_t>(0, 4)};
  if (*rc::gen::arbitrary<bool>()) {
    m.kv_heads = m.heads;
    m.latent = LatentAttention{.query_rank = *rc::gen::inRange<std::int64_t>(0, 64),
                               .kv_rank = 64,
                               .nope_dim = 32,
                               .rope_dim = 16,
                               .value_dim = 32};
  }
  const Scenario again = parse(to_yaml(s));
  RC_ASSERT(to_yaml(again) == to_yaml(s));
  RC_ASSERT(again.model.parameters() == m.parameters());
  RC_ASSERT(again.model.active_parameters() == m.active_parameters());
  RC_ASSERT(again.model.experts == m.experts);
  RC_ASSERT(again.model.window == m.window);
  RC_ASSERT(again.model.latent == m.latent);
  RC_ASSERT(again.model.biases == m.biases);
}

TEST(ModelText, BiasesByLayer) {
  const auto biases = [](const std::string& text) {
    return parse(good_with("llama3-8b", fmt::format("{{use: llama3-8b, biases: {}}}", text))).model.biases;
  };
  EXPECT_EQ(biases("true"), all_biases);
  EXPECT_EQ(biases("false"), Biases{});
  EXPECT_EQ(biases("[]"), Biases{});
  EXPECT_EQ(biases("[qkv, router]"), (Biases{.qkv = true, .router = true}));
}

// --- mistakes ------------------------------------------------------------------------------------------------------

/// The message for `good` with the model `{use: llama3-8b, KEYS}`, without the line and caret.
std::string model_mistake(const std::string& keys) {
  const std::string text = mistakes(good_with("llama3-8b", fmt::format("{{use: llama3-8b, {}}}", keys)));
  return text.substr(0, text.find('\n'));
}

TEST(ModelMistakes, Biases) {
  EXPECT_EQ(model_mistake("biases: [qkw]"),
            "s.yaml:1:34: model.biases[0]: found 'qkw', did you mean 'qkv'?; allowed: qkv, projection, mlp, router");
  EXPECT_EQ(model_mistake("biases: some"), "s.yaml:1:33: model.biases: found 'some'; allowed: true, false");
}

TEST(ModelMistakes, Words) {
  EXPECT_EQ(model_mistake("norm: rms_norm"),
            "s.yaml:1:31: model.norm: found 'rms_norm', did you mean 'rmsnorm'?; allowed: layernorm, rmsnorm, "
            "layernorm_plain");
  EXPECT_EQ(model_mistake("activation: relu"),
            "s.yaml:1:37: model.activation: found 'relu', did you mean 'gelu'?; allowed: gelu, swiglu, geglu");
  EXPECT_EQ(model_mistake("qk_norm: true"), "s.yaml:1:34: model.qk_norm: found 'true'; allowed: none, head, all_heads");
}

TEST(ModelMistakes, Experts) {
  EXPECT_EQ(model_mistake("experts: {count: 8, topk: 9}"),
            "s.yaml:1:51: model.experts.topk: a token cannot choose 9 of 8 experts; allowed: 1 to 8; nearest: 8");
  EXPECT_EQ(model_mistake("experts: {count: 8, topk: 2, first_dense: 40}"),
            "s.yaml:1:67: model.experts.first_dense: first_dense 40 and every 1 leave no layer of 32 with experts; "
            "allowed: a sum of at most 32");
  EXPECT_EQ(model_mistake("experts: {count: 8, topk: 2, evry: 2}"),
            "s.yaml:1:54: model.experts.evry: unknown key 'evry', did you mean 'every'?; allowed: count, topk, "
            "ffn_hidden, shared_ffn_hidden, shared_gate, first_dense, every, group_limit");
  EXPECT_EQ(model_mistake("experts: {topk: 2}"),
            "s.yaml:1:34: model.experts.count: missing key 'count'; needed: a whole number from 1 to 65536");
  EXPECT_EQ(model_mistake("experts: {count: 8, topk: 2, shared_gate: true}"),
            "s.yaml:1:67: model.experts.shared_gate: there are no shared experts to gate; allowed: false, or "
            "shared_ffn_hidden above 0");
  EXPECT_EQ(model_mistake("experts: 8"), "s.yaml:1:34: model.experts: found '8'; allowed: a map of keys");
}

TEST(ModelMistakes, LatentAttention) {
  EXPECT_THAT(model_mistake("latent: {kv_rank: 512, nope_dim: 128, rope_dim: 64, value_dim: 128}"),
              HasSubstr("llama3-8b.yaml:6:11: model.kv_heads: latent attention makes keys and values for every head; "
                        "allowed: 32, or no key kv_heads"));
  EXPECT_EQ(model_mistake("kv_heads: 32, latent: {kv_rank: 512, nope_dim: 128, rope_dim: 64}"),
            "s.yaml:1:47: model.latent.value_dim: missing key 'value_dim'; needed: a whole number from 1 to 4096");
}

TEST(ModelMistakes, Windows) {
  EXPECT_EQ(model_mistake("window: {tokens: 0}"),
            "s.yaml:1:42: model.window.tokens: 0 is out of range; allowed: a whole number from 1 to 16777216");
  EXPECT_EQ(
      model_mistake("window: {token: 128}"),
      "s.yaml:1:34: model.window.token: unknown key 'token', did you mean 'tokens'?; allowed: tokens, full_every");
}

// Each within its range, together beyond 64 bits.
TEST(ModelMistakes, MoreParametersThanCanBeCounted) {
  EXPECT_THAT(model_mistake("layers: 16384, hidden: 1048576, ffn_hidden: 4194304, experts: {count: 65536, topk: 1}"),
              HasSubstr("model.layers: layers, widths and experts together make about 1e+22 parameters; allowed: at "
                        "most 1e+18"));
}

TEST(ModelMistakes, AllAtOnce) {
  const std::string text = mistakes(
      good_with("llama3-8b", "{use: llama3-8b, heads: 0, biases: [no], experts: {count: 2, topk: 3}, window: {}}"));
  for (const char* key : {"model.heads:", "model.biases[0]:", "model.experts.topk:", "model.window.tokens:"})
    EXPECT_THAT(text, HasSubstr(key));
}

}  // namespace
}  // namespace foretrain
