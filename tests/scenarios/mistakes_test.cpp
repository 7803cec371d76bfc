// Every kind of bad input: one clear message with file, line, column, what is wrong and what is allowed. The texts are
// pinned: a user reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using namespace foretrain::testing;

TEST(Mistakes, NoneInTheTextThatTheOthersChange) { EXPECT_EQ(mistakes(good), ""); }

TEST(Mistakes, MisspeltKeyNamesTheNearest) {
  EXPECT_EQ(mistakes(good_with("tp: 2", "tpp: 2")),
            "s.yaml:7:3: parallelism.tpp: unknown key 'tpp', did you mean 'tp'?; allowed: tp, cp, pp, dp, ep, "
            "etp, sequence_parallel, zero, schedule, hsdp, sharding, gradient_sync, context, experts, stage_layers, "
            "order, overlap, bucket_parameters, offload\n"
            "     7 |   tpp: 2\n"
            "       |   ^");
}

TEST(Mistakes, KeyLikeNoneIsNotGuessed) {
  EXPECT_THAT(mistakes(good_with("tp: 2", "tp: 2\n  gradient_clipping: 1")),
              StartsWith("s.yaml:8:3: parallelism.gradient_clipping: unknown key 'gradient_clipping'; allowed: tp,"));
}

TEST(Mistakes, MisspeltNeededKeyIsReportedOnce) {
  EXPECT_EQ(mistakes(good_with("global_batch", "globalbatch")),
            "s.yaml:5:3: training.globalbatch: unknown key 'globalbatch', did you mean 'global_batch'?; allowed: "
            "sequence_length, global_batch, microbatch, precision, fp8_recipe, stack, gradients, recompute, "
            "recompute_modules, "
            "attention, "
            "recompute_method, recompute_layers, loss, moments, compiled, attention_flops\n"
            "     5 |   globalbatch: 64\n"
            "       |   ^");
}

TEST(Mistakes, MissingKey) {
  EXPECT_EQ(mistakes(good_with("  global_batch: 64\n", "")),
            "s.yaml:4:3: training.global_batch: missing key 'global_batch'; needed: a whole number from 1 to 16777216\n"
            "     4 |   sequence_length: 8192\n"
            "       |   ^");
}

TEST(Mistakes, DuplicateKey) {
  EXPECT_EQ(mistakes(good_with("  dp: 8\n", "  tp: 8\n")),
            "s.yaml:8:3: parallelism.tp: duplicate key 'tp', first given on line 7; allowed: each key once\n"
            "     8 |   tp: 8\n"
            "       |   ^");
}

TEST(Mistakes, WrongUnit) {
  EXPECT_EQ(mistakes(good_with("gpus: 16", "gpus: 16, node: {nic: 400GB}")),
            "s.yaml:2:52: cluster.node.nic: '400GB' is a number of bytes, not a bandwidth; write a bandwidth such as "
            "400Gb/s or 50GB/s\n"
            "     2 | cluster: {use: dgx-h100-ndr, gpus: 16, node: {nic: 400GB}}\n"
            "       |                                                    ^");
}

TEST(Mistakes, NegativeAndZeroSizes) {
  EXPECT_EQ(mistakes(good_with("global_batch: 64", "global_batch: -64")),
            "s.yaml:5:17: training.global_batch: -64 is out of range; allowed: a whole number from 1 to 16777216\n"
            "     5 |   global_batch: -64\n"
            "       |                 ^");
  EXPECT_THAT(mistakes(good_with("tp: 2", "tp: 0")),
              StartsWith("s.yaml:7:7: parallelism.tp: 0 is out of range; allowed: a whole number from 1 to 4096\n"));
  EXPECT_THAT(mistakes(good, {"cluster.gpu.memory_size=0GiB"}),
              StartsWith("--set cluster.gpu.memory_size=0GiB: '0GiB' is out of range; allowed: 1B to 1024TiB"));
  EXPECT_THAT(mistakes(good, {"cluster.node.nic=-1GB/s"}),
              StartsWith("--set cluster.node.nic=-1GB/s: '-1GB/s' is negative; write a bandwidth such as"));
}

TEST(Mistakes, NumbersAreReadStrictly) {
  for (const char* text : {"010", "1e3", "16.0", "0x10", "+8", "sixteen", "\"16\"", "[16]", "{a: 1}", "~", "1_000",
                           "99999999999999999999999999", "2 # comment\n  dp: 4"}) {
    EXPECT_NE(mistakes(good_with("tp: 2", std::string("tp: ") + text)), "") << text;
  }
  EXPECT_THAT(mistakes(good_with("tp: 2", "tp: 010")),
              StartsWith("s.yaml:7:7: parallelism.tp: '010' begins with 0, which some read as octal; allowed: a whole "
                         "number from 1 to 4096\n"));
  EXPECT_THAT(mistakes(good_with("tp: 2", "tp: 1e3")),
              StartsWith("s.yaml:7:7: parallelism.tp: found '1e3'; allowed: a whole number from 1 to 4096\n"));
  EXPECT_THAT(mistakes(good_with("tp: 2", "tp: 2\n  sequence_parallel: yes")),
              StartsWith("s.yaml:8:22: parallelism.sequence_parallel: found 'yes'; allowed: true, false\n"));
}

TEST(Mistakes, UnknownWordNamesTheNearest) {
  EXPECT_THAT(
      mistakes(good_with("global_batch: 64", "global_batch: 64\n  precision: bf61")),
      StartsWith("s.yaml:6:14: training.precision: found 'bf61', did you mean 'bf16'?; allowed: bf16, fp16, fp8, "
                 "fp4, fp32\n"));
}

TEST(Mistakes, PlanDoesNotFitTheGpus) {
  EXPECT_EQ(mistakes(good_with("dp: 8", "dp: 4")),
            "s.yaml:8:7: parallelism.dp: tp 2 x cp 1 x pp 1 x dp 4 = 8 ranks, but there are 16 GPUs; allowed: dp 8\n"
            "     8 |   dp: 4\n"
            "       |       ^");
}

TEST(Mistakes, HeadsNotDivisibleByTp) {
  EXPECT_EQ(mistakes(good, {"model.heads=33", "model.kv_heads=33", "model.head_dim=128", "parallelism.tp=2"}),
            "--set parallelism.tp=2: tp 2 does not divide 33 heads; allowed: 1; nearest: 1\n"
            "--set parallelism.tp=2: tp 2 neither divides 33 KV heads nor is a multiple of 33; allowed: 1; nearest: 1");
}

TEST(Mistakes, FewerLayersThanStages) {
  EXPECT_EQ(
      mistakes(good_with("tp: 2\n  dp: 8", "pp: 16"), {"model.layers=8"}),
      "--set model.layers=8: pp 16 x virtual_stages 1 = 16 stages for 8 layers; allowed: 1 to 8 stages, or 10 with "
      "the embedding and the loss on stages of their own; nearest: pp 10");
}

TEST(Mistakes, BatchNotDivisible) {
  EXPECT_EQ(
      mistakes(good_with("global_batch: 64", "global_batch: 66")),
      "s.yaml:5:17: training.global_batch: global_batch 66 is not a multiple of microbatch 1 x dp 8 = 8; allowed: "
      "multiples of 8; nearest: 64\n"
      "     5 |   global_batch: 66\n"
      "       |                 ^");
}

TEST(Mistakes, MoreGpusThanTheClusterHas) {
  EXPECT_THAT(mistakes(good_with("gpus: 16", "gpus: 32768")),
              StartsWith("s.yaml:2:36: cluster.gpus: 32768 GPUs are more than cluster 'dgx-h100-ndr' has; allowed: at "
                         "most 16384\n"));
}

TEST(Mistakes, PartOfANode) {
  EXPECT_THAT(
      mistakes(good_with("gpus: 16", "gpus: 12")),
      StartsWith("s.yaml:2:36: cluster.gpus: 12 GPUs are not a whole number of nodes of 8; allowed: less than a "
                 "node, or a multiple of 8; nearest: 8 or 16\n"));
}

TEST(Mistakes, GpuWithoutFp8) {
  EXPECT_EQ(mistakes(good, {"training.precision=fp8", "cluster.gpu=a100-80gb"}),
            "--set training.precision=fp8: fp8 on GPU 'a100-80gb', which has none; allowed: bf16, fp16, fp32");
}

TEST(Mistakes, GpuWithoutFp4) {
  EXPECT_EQ(mistakes(good, {"training.precision=fp4", "cluster.gpu=h100-80gb"}),
            "--set training.precision=fp4: fp4 on GPU 'h100-80gb', which has none; allowed: bf16, fp16, fp8, fp32");
  EXPECT_EQ(mistakes(good, {"training.precision=fp4", "cluster.gpu=gb200"}), "");
}

TEST(Mistakes, RecipeOfFp8BesideAnotherPrecision) {
  EXPECT_EQ(mistakes(good, {"training.precision=bf16", "training.fp8_recipe=mx"}),
            "--set training.fp8_recipe=mx: beside precision bf16; allowed: with precision fp8 only");
  EXPECT_EQ(mistakes(good, {"training.precision=fp8", "training.fp8_recipe=mx"}), "");
}

TEST(Mistakes, ModelNotInTheCatalogue) {
  EXPECT_THAT(mistakes(good_with("llama3-8b", "llama-3-8b")),
              StartsWith("s.yaml:1:8: model: 'llama-3-8b' cannot be read: not in the catalogue, did you mean "
                         "'llama3-8b'?; allowed: a path to a YAML file, or one of bloom-176b, "));
}

TEST(Mistakes, AllAreReportedTogetherInOrder) {
  const std::string text = mistakes(
      "model: lama3-8b\n"
      "cluster: {use: dgx-h100-ndr, gpus: 16, node: {nic: 400}}\n"
      "training: {sequence_length: 8k, global_batch: 64, recompute: some}\n"
      "parallelism: {tp: 2, tp: 4, zero: 9}\n"
      "netwrok: {}\n",
      {"network.seed=-1"});
  std::vector<std::string> heads;
  for (std::size_t at = 0; at != std::string::npos;) {
    const auto end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("s.yaml") || line.starts_with("--set")) heads.push_back(line.substr(0, line.find("; ")));
    at = end == std::string::npos ? end : end + 1;
  }
  EXPECT_THAT(heads,
              ::testing::ElementsAre(
                  "s.yaml:1:8: model: 'lama3-8b' cannot be read: not in the catalogue, did you mean 'llama3-8b'?",
                  "s.yaml:2:52: cluster.node.nic: '400' has no unit",
                  "s.yaml:3:29: training.sequence_length: found '8k'", "s.yaml:3:62: training.recompute: found 'some'",
                  "s.yaml:4:22: parallelism.tp: duplicate key 'tp', first given on line 4",
                  "s.yaml:4:35: parallelism.zero: 9 is out of range",
                  "s.yaml:5:1: netwrok: unknown key 'netwrok', did you mean 'network'?",
                  "--set network.seed=-1: -1 is out of range"));
}

TEST(Mistakes, BrokenRulesJoinOtherMistakes) {
  const std::string text = mistakes(good_with("dp: 8", "dp: 4\n  zreo: 1"));
  EXPECT_THAT(text, HasSubstr("s.yaml:8:7: parallelism.dp: tp 2 x cp 1 x pp 1 x dp 4 = 8 ranks"));
  EXPECT_THAT(text, HasSubstr("s.yaml:9:3: parallelism.zreo: unknown key 'zreo', did you mean 'zero'?"));
}

TEST(Mistakes, MissingFile) {
  try {
    static_cast<void>(load_scenario("lama3-405b.yaml", {}, catalogue()));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(
        std::string(error.what()),
        StartsWith("lama3-405b.yaml: cannot be read: no such file, did you mean 'llama3-405b'?; allowed: a YAML "
                   "file, or one of bloom-176b, "));
  }
}

TEST(Mistakes, Folder) {
  try {
    static_cast<void>(load_scenario(catalogue(), {}, catalogue()));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr(": cannot be read: it is a folder; allowed: a YAML file"));
  }
}

TEST(Mistakes, EmptyFile) {
  EXPECT_EQ(mistakes(""), "s.yaml:1:1: empty file; allowed: a scenario with the keys model, cluster, training");
  EXPECT_THAT(mistakes("# nothing\n"), StartsWith("s.yaml:1:1: empty file; allowed:"));
}

TEST(Mistakes, NotAMap) {
  EXPECT_EQ(mistakes("- a\n"),
            "s.yaml:1:1: found a list; allowed: a scenario, as a map with the keys model, cluster, training\n"
            "     1 | - a\n"
            "       | ^");
}

TEST(Mistakes, NotYaml) {
  EXPECT_EQ(mistakes("model: {a: b\ncluster: c"),
            "s.yaml:2:8: not YAML: end of map flow not found; allowed: a scenario with the keys model, cluster, "
            "training in YAML "
            "1.2\n"
            "     2 | cluster: c\n"
            "       |        ^");
}

TEST(Mistakes, BytesThatAreNotText) {
  EXPECT_EQ(mistakes(std::string("model: a\nb\0c", 12)),
            "s.yaml: byte 11 (line 2) is the control character '\\x00'; allowed: text in UTF-8");
  EXPECT_THAT(mistakes("model: a\rb"), HasSubstr("is the control character '\\x0d'; allowed: text in UTF-8"));
  EXPECT_THAT(mistakes("model: \xc2\x9b"), HasSubstr("is the control character '\\xc2\\x9b'"));
  EXPECT_EQ(mistakes("model: \xff"), "s.yaml: byte 8 (line 1) is not UTF-8; allowed: text in UTF-8");
}

TEST(Mistakes, NoneInWindowsLineEnds) {
  std::string text = good;
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, 1, '\r');
  EXPECT_EQ(mistakes(text), "");
}

TEST(Mistakes, AliasBombOfTenMegabytes) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  while (bomb.size() < 10'000'000) bomb += "b: [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n";
  EXPECT_EQ(mistakes(bomb), "s.yaml: too large; allowed: 1 MiB of YAML");
}

TEST(Mistakes, SmallAliasBomb) {
  EXPECT_EQ(mistakes("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"),
            "s.yaml:1:4: a: anchors are not read; allowed: the value itself, written out\n"
            "     1 | a: &a [x, x]\n"
            "       |    ^");
}

TEST(Mistakes, DeepNestingOfEveryStyle) {
  std::string blocks, maps, questions;
  for (std::size_t depth = 0; depth < 400; ++depth) {
    maps.append(depth, ' ').append("a:\n");
    blocks += "- ";
    questions += "? ";
  }
  EXPECT_THAT(mistakes(blocks), HasSubstr("nested too deeply; allowed: 32 levels of maps and lists"));
  EXPECT_THAT(mistakes(maps), HasSubstr("nested too deeply; allowed: 32 levels of maps and lists"));
  EXPECT_NE(mistakes(questions), "");
  EXPECT_NE(mistakes(std::string(500'000, '[')), "");
  EXPECT_NE(mistakes(std::string(500'000, '{')), "");
  EXPECT_NE(mistakes(std::string("a: ").append(500'000, '[')), "");
}

TEST(Mistakes, TooManyAreCounted) {
  std::string text = good;
  for (int i = 0; i < 60; ++i) text.append("  unheard_of_").append(std::to_string(i)).append(": 1\n");
  EXPECT_THAT(mistakes(text), ::testing::EndsWith("\n... and 10 more mistakes"));
}

TEST(Mistakes, MessagesNeverCarryControlCharacters) {
  EXPECT_THAT(mistakes(good_with("llama3-8b", R"("a\e[31mb")")), HasSubstr(R"('a\x1b[31mb' cannot be read)"));
  EXPECT_THAT(mistakes(good, {"parallelism.tp=\x1b[31m"}), StartsWith(R"(--set parallelism.tp=\x1b[31m: )"));
}

TEST(Mistakes, CaretStandsUnderTheCharacterNotTheByte) {
  EXPECT_EQ(
      mistakes(good_with("gpus: 16", "\"näme\": 1, gpus: 16"), {}),
      "s.yaml:2:30: cluster.näme: unknown key 'näme', did you mean 'name'?; allowed: name, gpus, groups, gpu, fabric, "
      "transport, node, jitter, max_gpus\n"
      "     2 | cluster: {use: dgx-h100-ndr, \"näme\": 1, gpus: 16}\n"
      "       |                              ^");
}

TEST(Mistakes, FabricThatCannotBeBuilt) {
  EXPECT_THAT(
      mistakes(good, {"cluster.fabric={kind: ring}"}),
      StartsWith("--set cluster.fabric={kind: ring}: found 'ring'; allowed: rail_optimised, fat_tree, meta_clos, "
                 "torus"));
  EXPECT_THAT(mistakes(good, {"cluster.fabric={kind: fat_tree, radix: 8}"}), HasSubstr("8 NICs do not fit"));
  EXPECT_THAT(mistakes(good, {"cluster.fabric={kind: meta_clos, gpus_per_rack: 12}"}),
              HasSubstr("gpus_per_rack 12 with nodes of 8 GPUs; allowed: a multiple of 8"));
}

TEST(Mistakes, UseThatLeadsToItself) {
  const auto folder = std::filesystem::temp_directory_path() / "foretrain-use-loop-test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "loop.yaml") << "use: ./loop.yaml\n";
  EXPECT_THAT(mistakes(good_with("llama3-8b", (folder / "loop.yaml").string())),
              HasSubstr("'use' leads through more than 8 files; allowed: fewer"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace foretrain
