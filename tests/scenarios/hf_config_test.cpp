// config.json of Hugging Face: every dialect against the catalogue, what is assumed, what is refused, and the files of
// the reference collection.
#include "scenarios/hf_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/scenarios/model_support.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace foretrain::testing;

const fs::path samples = fs::path(FORETRAIN_SOURCE_DIR) / "tests/scenarios/samples/hf-config";
const fs::path reference = fs::path(FORETRAIN_SOURCE_DIR) / "../shared/reference/hf-configs";

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return (std::ostringstream() << in.rdbuf()).str();
}

/// Throws InputError.
HfConfig config_of(const std::string& text) {
  Problems problems;
  const std::optional<HfConfig> config = read_hf_config(problems.source("c.json", text, "."), problems);
  problems.throw_if_any();
  return *config;
}

/// The first line of the refusal; empty if it is read.
std::string refusal(const std::string& text) {
  try {
    static_cast<void>(config_of(text));
  } catch (const InputError& error) {
    const std::string all = error.what();
    return all.substr(0, all.find('\n'));
  }
  return "";
}

constexpr const char* llama_text =
    "{\"model_type\": \"llama\",\n \"hidden_size\": 64,\n \"num_hidden_layers\": 2,\n \"num_attention_heads\": 4,\n"
    " \"intermediate_size\": 128,\n \"vocab_size\": 1000}";
std::string llama_with(const std::string& from, const std::string& to) {
  std::string text = llama_text;
  return text.replace(text.find(from), from.size(), to);
}

// --- dialects ------------------------------------------------------------------------------------------------------

// The samples say the shapes of models of the catalogue in their families' words; both must mean the same.
TEST(HfConfigDialects, MeanTheModelsOfTheCatalogue) {
  std::size_t read = 0;
  for (const auto& entry : fs::directory_iterator(samples)) {
    const std::string name = entry.path().stem().string();
    Model model = config_of(text_of(entry.path())).model;
    model.name = name;
    EXPECT_EQ(write_model(model, ""), write_model(catalogue_model(name), ""));
    ++read;
  }
  EXPECT_EQ(read, 23U);
}

// Of families without a model in the catalogue: sums over the tensors of Qwen1.5-MoE-A2.7B, Phi-3-mini-4k and Gemma 2B.
TEST(HfConfigDialects, ExactCountsOfOtherReleases) {
  EXPECT_EQ(config_of(R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
      "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632, "vocab_size": 151936,
      "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
      "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1})")
                .model.parameters(),
            14'315'784'192);
  EXPECT_EQ(config_of(R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064,
      "sliding_window": 2047})")
                .model.parameters(),
            3'821'079'552);
  EXPECT_EQ(config_of(R"({"model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18,
      "num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": 16384, "vocab_size": 256000,
      "head_dim": 256})")
                .model.parameters(),
            2'506'172'416);
}

// Layers with experts where decoder_sparse_step and mlp_only_layers say so.
TEST(HfConfigDialects, WhichLayersHaveExperts) {
  const auto config = [](const std::string& keys) {
    return R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
        "head_dim": 16, "intermediate_size": 128, "vocab_size": 1000, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, )" +
           keys + "}";
  };
  const auto layers = [&](const std::string& keys) {
    const Model m = config_of(config(keys)).model;
    std::string pattern;
    for (std::int64_t i = 0; i < m.layers; ++i) pattern += m.kind_of(i).experts ? 'x' : '-';
    return pattern;
  };
  EXPECT_EQ(layers("\"decoder_sparse_step\": 1"), "xxxxxx");
  EXPECT_EQ(layers("\"decoder_sparse_step\": 2"), "-x-x-x");
  EXPECT_EQ(layers("\"decoder_sparse_step\": 3"), "--x--x");
  EXPECT_EQ(layers("\"decoder_sparse_step\": 6"), "-----x");
  EXPECT_EQ(layers("\"decoder_sparse_step\": 7"), "------");
  EXPECT_EQ(layers("\"mlp_only_layers\": [0, 1]"), "--xxxx");
  EXPECT_EQ(layers("\"mlp_only_layers\": [0, 1, 2, 3, 4, 5]"), "------");
  EXPECT_EQ(refusal(config("\"mlp_only_layers\": [2]")),
            "c.json:3:57: mlp_only_layers: these layers with experts follow no rule of ours; allowed: dense layers "
            "first, then every k-th with experts");
}

TEST(HfConfigDialects, WhichLayersAreWindowed) {
  const auto config = [](const std::string& types) {
    return R"({"model_type": "gemma2", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
 "head_dim": 16, "intermediate_size": 128, "vocab_size": 1000, "sliding_window": 8, "layer_types": [)" +
           types + "]}";
  };
  const std::string s = "\"sliding_attention\"", f = "\"full_attention\"";
  const auto window = [&](const std::string& types) { return config_of(config(types)).model.window; };
  EXPECT_EQ(window(fmt::format("{0},{0},{0},{1}", s, f)), (SlidingWindow{.tokens = 8, .full_every = 4}));
  EXPECT_EQ(window(fmt::format("{0},{0},{0},{0}", s)), (SlidingWindow{.tokens = 8}));
  EXPECT_EQ(window(fmt::format("{0},{0},{0},{0}", f)), std::nullopt);
  EXPECT_EQ(refusal(config(fmt::format("{1},{0},{1},{0}", s, f))),
            "c.json:2:100: layer_types: these full layers follow no rule of ours; allowed: every k-th layer full");
  EXPECT_EQ(refusal(config(s)), "c.json:2:100: layer_types: 1 types for 4 layers; allowed: one a layer");
  EXPECT_EQ(refusal(config("\"linear_attention\"")),
            "c.json:2:100: layer_types: found text \"linear_attention\"; allowed: sliding_attention, full_attention");
}

TEST(HfConfigDialects, AssumptionsAreSaid) {
  EXPECT_THAT(config_of(llama_text).notes, IsEmpty());
  EXPECT_THAT(config_of(llama_with("\"llama\"", "\"qwen3\"")).notes,
              ElementsAre("assumed: head_dim 128, which the family has where none is said"));
  EXPECT_THAT(config_of(llama_with("\"vocab_size\"", "\"hidden_act\": \"relu2\", \"vocab_size\"")).notes,
              ElementsAre("assumed: activation 'relu2' costs what silu costs"));
}

// --- mistakes ------------------------------------------------------------------------------------------------------

TEST(HfConfigMistakes, NoneInTheTextThatTheOthersChange) { EXPECT_EQ(refusal(llama_text), ""); }

TEST(HfConfigMistakes, NotJson) {
  EXPECT_EQ(refusal("{\"model_type\": \"llama\",\n \"hidden_size\": }"),
            "c.json:2:17: not JSON: cannot go on here; allowed: a config.json of a decoder-only transformer");
  EXPECT_EQ(refusal("{\"model_type\": \"llama\""),
            "c.json:1:23: not JSON: the text ends too early; allowed: a config.json of a decoder-only transformer");
  EXPECT_THAT(refusal("{model_type: llama}"), HasSubstr("c.json:1:2: not JSON"));  // YAML, but not JSON
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("found a list; allowed: a config.json of"));
  EXPECT_THAT(refusal(""), HasSubstr("empty file"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(std::string(1000, '[') + std::string(1000, ']')), HasSubstr("allowed:"));
}

TEST(HfConfigMistakes, Values) {
  EXPECT_EQ(refusal(llama_with("64", "0")),
            "c.json:2:17: hidden_size: 0 is out of range; allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(llama_with("64", "-64")),
            "c.json:2:17: hidden_size: -64 is out of range; allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(llama_with("64", "\"64\"")),
            "c.json:2:17: hidden_size: found text \"64\"; allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(llama_with("64", "1e30")),
            "c.json:2:17: hidden_size: found '1e30'; allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(
      refusal(llama_with("64", "99999999999999999999")),
      "c.json:2:17: hidden_size: 99999999999999999999 is out of range; allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(llama_with("64", "[64]")),
            "c.json:2:17: hidden_size: found a list; allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(llama_with("\"num_attention_heads\": 4", "\"num_attention_heads\": 5")),
            "c.json:4:25: num_attention_heads: 5 heads do not divide hidden_size 64; allowed: a divisor of it, or "
            "head_dim given");
}

TEST(HfConfigMistakes, MissingKeys) {
  EXPECT_EQ(refusal(llama_with(" \"vocab_size\": 1000", " \"vocabulary\": 1000")),
            "c.json:1:1: vocab_size: missing key 'vocab_size'; needed: a whole number from 1 to 16777216");
  EXPECT_EQ(
      refusal(llama_with(" \"num_hidden_layers\": 2,\n", " \"num_hidden_layers\": null,\n")),
      "c.json:1:1: num_hidden_layers: missing key 'num_hidden_layers' (or n_layer, num_layers, n_layers); needed: "
      "a whole number from 1 to 16384");
}

TEST(HfConfigMistakes, Families) {
  EXPECT_THAT(refusal(llama_with("\"llama\"", "\"lama\"")),
              HasSubstr("c.json:1:16: model_type: 'lama' is not understood, did you mean 'llama'?; allowed: "));
  EXPECT_THAT(refusal(llama_with("\"llama\"", "\"mamba2\"")),
              HasSubstr("model_type: 'mamba2' has recurrent or state-space layers, which our model has no cost for; "));
  EXPECT_THAT(refusal(llama_with("\"llama\"", "\"t5\"")), HasSubstr("'t5' is an encoder with a decoder; allowed: "));
  EXPECT_THAT(refusal(llama_with("\"llama\"", "\"bert\"")), HasSubstr("'bert' is an encoder alone; "));
  EXPECT_THAT(refusal("{\"model_type\": \"llama\", \"is_encoder_decoder\": true}"),
              HasSubstr("c.json:1:47: is_encoder_decoder: an encoder with a decoder is not a model of ours; "));
  EXPECT_THAT(refusal("{\"model_type\": \"llava\", \"text_config\": {}}"),
              HasSubstr("text_config: the language model of a larger one; allowed: its text_config as a file"));
  EXPECT_THAT(refusal("{\"hidden_size\": 64}"),
              HasSubstr("c.json:1:1: model_type: missing key 'model_type'; needed: "));
  EXPECT_EQ(refusal(llama_with("\"model_type\": \"llama\"", "\"architectures\": [\"LlamaForCausalLM\"]")), "");
}

TEST(HfConfigMistakes, RulesOfAnyModel) {
  EXPECT_THAT(refusal(R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 128, "vocab_size": 1000, "num_local_experts": 4, "num_experts_per_tok": 5})"),
              HasSubstr("c.json: model.experts.topk: a token cannot choose 5 of 4 experts; allowed: 1 to 4"));
}

TEST(HfConfigMistakes, AllAtOnce) {
  try {
    static_cast<void>(config_of("{\"model_type\": \"llama\", \"hidden_size\": \"x\", \"vocab_size\": 0}"));
    FAIL();
  } catch (const InputError& error) {
    for (const char* key : {" hidden_size:", " vocab_size:", " num_hidden_layers:", " num_attention_heads:"})
      EXPECT_THAT(error.what(), HasSubstr(key));
  }
}

// --- in a scenario -------------------------------------------------------------------------------------------------

TEST(HfConfigInScenario, IsAModelWithChanges) {
  const std::string file = (samples / "mistral-7b.json").string();
  const Scenario s = parse(good_with("llama3-8b", fmt::format("{{hf_config: {}, layers: 4}}", file)));
  EXPECT_EQ(s.model.name, "mistral-7b");
  EXPECT_EQ(s.model.layers, 4);
  EXPECT_EQ(s.model.window, (SlidingWindow{.tokens = 4096}));
}

TEST(HfConfigInScenario, Mistakes) {
  EXPECT_EQ(mistakes(good_with("llama3-8b", "{hf_config: no/config.json}")),
            "s.yaml:1:20: model.hf_config: 'no/config.json' cannot be read: no such file; allowed: a path to a "
            "config.json of a decoder-only transformer\n"
            "     1 | model: {hf_config: no/config.json}\n"
            "       |                    ^");
  const std::string file = (samples / "mistral-7b.json").string();
  EXPECT_THAT(mistakes(good_with("llama3-8b", fmt::format("{{hf_config: {}, layer: 4}}", file))),
              HasSubstr("model.layer: unknown key 'layer', did you mean 'layers'?"));
  EXPECT_THAT(mistakes(good_with("llama3-8b", "{hf_config: [a]}")),
              HasSubstr("model.hf_config: found a list; allowed: a path to a config.json"));
}

// --- the reference collection --------------------------------------------------------------------------------------

struct Reference {
  const char* file;
  double billions;        ///< of its README: without norms, biases and MTP
  double active;          ///< the same, of one token; 0: all
  std::int64_t left_out;  ///< norms and biases, by hand
};

// The README counts matrices alone. What it leaves out, by layer: two norms of the width (Llama, Yi, Mistral), and
// further Q, K, V biases (Qwen 2.5), norms of 128 for Q and K (Qwen 3), layer norms and all biases (NeoX, Pythia,
// BLOOM: 13h; BLOOM's embedding norm), MLA's norms and the router's correction (DeepSeek), biases and sinks (GPT-OSS).
TEST(HfConfigReference, CountsEqualThePublished) {
  if (!fs::exists(reference)) GTEST_SKIP() << "no reference collection beside the source tree";
  const auto rms = [](std::int64_t layers, std::int64_t hidden) { return (2 * layers + 1) * hidden; };
  const auto gpt = [](std::int64_t layers, std::int64_t hidden) { return 13 * layers * hidden + 2 * hidden; };
  const Reference all[] = {{"llama-2-7b.json", 6.738, 0, rms(32, 4096)},
                           {"llama-2-13b-chat.json", 13.015, 0, rms(40, 5120)},
                           {"llama-3.1-8b-instruct.json", 8.030, 0, rms(32, 4096)},
                           {"llama-3.1-70b-instruct.json", 70.552, 0, rms(80, 8192)},
                           {"llama-3.1-405b-kv16.json", 410.077, 0, rms(126, 16384)},
                           {"mixtral-8x7b-instruct-v0.1.json", 46.703, 12.880, rms(32, 4096)},
                           {"qwen2.5-7b-instruct.json", 7.615, 0, rms(28, 3584) + 28 * (3584 + 2 * 512)},
                           {"qwen3-32b.json", 32.761, 0, rms(64, 5120) + 64 * 256},
                           {"deepseek-v3.json", 671.025, 37.551, rms(61, 7168) + 61 * (1536 + 512) + 58 * 256},
                           {"gpt-neox-20b.json", 20.551, 0, gpt(44, 6144)},
                           {"pythia-6.9b-v0.json", 6.856, 0, gpt(32, 4096)},
                           {"gpt-oss-120b.json", 116.789, 5.710,
                            // biases of Q, K, V, projection, router and experts, and a sink a head
                            rms(36, 2880) + 36 * (4096 + 2 * 512 + 2880 + 128 + 128 * (2 * 2880 + 2880) + 64)},
                           {"bloom-176b.json", 176.234, 0, gpt(70, 14336) + 2 * 14336},
                           {"yi-34b.json", 34.388, 0, rms(60, 7168)},
                           {"gemma-2b-sft.json", 2.506, 0, rms(18, 2048)}};
  std::set<std::string> seen;
  for (const Reference& it : all) {
    const Model m = config_of(text_of(reference / it.file)).model;
    EXPECT_NEAR(static_cast<double>(m.parameters() - it.left_out), it.billions * 1e9, 0.0006e9) << it.file;
    if (it.active > 0) {
      EXPECT_NEAR(static_cast<double>(m.active_parameters()), it.active * 1e9, 0.0025e9) << it.file;
    }
    seen.insert(it.file);
  }
  for (const auto& entry : fs::directory_iterator(reference)) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_TRUE(seen.contains(entry.path().filename().string())) << entry.path() << " is not in the table";
  }
}

}  // namespace
}  // namespace foretrain
