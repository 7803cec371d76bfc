// The command line, driven in process: exit status, what goes to which stream, and the text of every mistake.
#include "tools/foretrain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/run_foretrain.h"
#include "tests/tools/scratch.h"
#include "tools/commands/command.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

const std::string small = std::string(FORETRAIN_SOURCE_DIR) + "/scenarios/llama3-8b-one-node.yaml";

void expect_mistake(const std::vector<std::string>& args, const std::string& message) {
  const Ran ran = foretrain_with(args);
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, message + "\n");
}

TEST(Command, WithoutArgumentsShowsHelpAsAMistake) {
  const Ran ran = foretrain_with({});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("Usage: foretrain COMMAND"));
}

TEST(Command, Version) {
  const Ran ran = foretrain_with({"--version"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, ::testing::MatchesRegex("foretrain [0-9]+[.][0-9]+[.][0-9]+\n"));
}

TEST(Command, HelpListsAllCommands) {
  const Ran ran = foretrain_with({"--help"});
  EXPECT_EQ(ran.status, 0);
  for (const Command& command : commands())
    EXPECT_THAT(ran.out, HasSubstr(std::string("\n  ") + std::string(command.name) + " "));
}

TEST(Command, EveryCommandHelpsWithALineAnOptionAndAtLeastTwoExamples) {
  for (const Command& command : commands()) {
    const Ran ran = foretrain_with({std::string(command.name), "--help"});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err, "");
    const std::string example = "\n  foretrain " + std::string(command.name) + " ";
    std::size_t examples = 0;
    for (std::size_t at = ran.out.find(example); at != std::string::npos; at = ran.out.find(example, at + 1))
      ++examples;
    EXPECT_GE(examples, 2U) << ran.out;
    std::istringstream lines(ran.out.substr(ran.out.find("Options:\n") + 9));
    for (std::string line; std::getline(lines, line) && !line.empty();) EXPECT_THAT(line, StartsWith("  -")) << ran.out;
  }
}

TEST(Command, MisspeltWords) {
  expect_mistake({"rn"},
                 "foretrain: unknown command 'rn', did you mean 'run'?; allowed: run, memory, topology, collective, "
                 "schedule, validate, import");
  expect_mistake(
      {"simulate"},
      "foretrain: unknown command 'simulate'; allowed: run, memory, topology, collective, schedule, validate, import");
  expect_mistake({"--verson"},
                 "foretrain: unknown option '--verson', did you mean '--version'?; allowed: --help, --version");
  expect_mistake({"run", "x.yaml", "--jsn", "a"},
                 "foretrain run: unknown option '--jsn', did you mean '--json'?; `foretrain run --help` lists them");
  expect_mistake({"run", "x.yaml", "--fid", "a"},
                 "foretrain run: unknown option '--fid'; `foretrain run --help` lists them");
}

TEST(Command, MissingAndSuperfluousArguments) {
  expect_mistake({"run"}, "foretrain run: SCENARIO.yaml is missing; usage: foretrain run SCENARIO.yaml [options]");
  expect_mistake({"run", "a.yaml", "b.yaml"},
                 "foretrain run: too many arguments; usage: foretrain run SCENARIO.yaml [options]");
  expect_mistake({"run", "a.yaml", "--json"},
                 "foretrain run: the required argument for option '--json' is missing; usage: foretrain run "
                 "SCENARIO.yaml [options]");
  expect_mistake({"topology"}, "foretrain topology: CLUSTER is missing; usage: foretrain topology CLUSTER [options]");
  expect_mistake({"collective", "--gpus", "8"}, "foretrain collective: --cluster is missing");
  expect_mistake({"collective", "--cluster", "dgx-h100-ndr"}, "foretrain collective: --gpus is missing");
}

TEST(Command, OutputsThatCannotBe) {
  expect_mistake({"run", small, "--trace", "-"},
                 "foretrain run: --trace needs a file; only --json can write to standard output");
  expect_mistake({"run", small, "--json", "x", "--trace", "x"},
                 "foretrain run: --json and --trace both write 'x'; give each a file of its own");
  const Scratch scratch;
  expect_mistake({"run", small, "--json", scratch / "none/x.json"},
                 "cannot write '" + (scratch / "none/x.json") + "': there is no folder '" + (scratch / "none") + "'");
}

TEST(MemoryCommand, PlaysTheStepAndNamesTheVerdict) {
  const Ran ran = foretrain_with({"memory", small, "--json", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json json = Json::parse(ran.out);
  ASSERT_EQ(json["stages"].size(), 1U);
  std::int64_t parts = 0;
  for (const auto& [part, size] : json["stages"][0]["parts_bytes"].items()) parts += size.get<std::int64_t>();
  EXPECT_EQ(parts, json["memory"]["peak_bytes"]);
  EXPECT_EQ(json["memory"]["fits"], json["memory"]["verdict"] != "does_not_fit");
  EXPECT_GT(json["stages"][0]["peak_at_s"], 0);
  // The same as `run` says.
  const Json whole = Json::parse(foretrain_with({"run", small, "--json", "-"}).out);
  EXPECT_EQ(whole["memory"], json["memory"]);
}

// Twenty times the tokens a microbatch cannot fit; it is no mistake to ask.
TEST(MemoryCommand, SaysWhatDoesNotFitAndExitsWith0) {
  const Ran ran = foretrain_with({"memory", small, "--set", "training.sequence_length=163840"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(ran.out, HasSubstr("largest: activations"));
}

std::vector<std::string> collective(std::vector<std::string> more) {
  std::vector<std::string> args = {"collective", "--cluster", "dgx-h100-ndr", "--gpus", "8"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(CollectiveCommand, Mistakes) {
  expect_mistake(collective({"--op", "allreduce2"}),
                 "foretrain collective: --op: unknown 'allreduce2', did you mean 'all_reduce'?; allowed: all_reduce, "
                 "all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv, gather, scatter, barrier, "
                 "all_to_allv, all_to_allv_back, shift");
  expect_mistake(collective({"--imbalance", "2"}),
                 "foretrain collective: --imbalance: only of all_to_allv and all_to_allv_back, not of all_reduce");
  expect_mistake(collective({"--op", "all_to_allv", "--imbalance", "0.5"}),
                 "foretrain collective: --imbalance 0.5: allowed: 1 to the number of ranks, 8");
  expect_mistake(collective({"--op", "all_to_allv", "--copies-per-node", "0"}),
                 "foretrain collective: --copies-per-node 0: allowed: 1 to 1024");
  expect_mistake(collective({"--proto", "LL12"}),
                 "foretrain collective: --proto: unknown 'LL12', did you mean 'll128'?; allowed: ll, ll128, simple");
  expect_mistake(collective({"-b", "1M", "-e", "8"}), "foretrain collective: -b 1048576 is above -e 8");
  expect_mistake(
      collective({"-b", "8X"}),
      "foretrain collective: --begin: '8X' is no message size; allowed: a positive number of bytes, as 8, 1K, "
      "64M, 1G or 64MiB");
  expect_mistake(collective({"-f", "1"}), "foretrain collective: -f 1: has to be above 1");
  expect_mistake(collective({"-f", "2", "-i", "8"}), "foretrain collective: -f and -i exclude each other; give one");
  expect_mistake(collective({"-b", "1", "-e", "1G", "-i", "1"}),
                 "foretrain collective: more than 100000 sizes; take larger steps");
  expect_mistake(collective({"--op", "send_recv"}), "foretrain collective: --gpus 8: send_recv is between 2 GPUs");
}

TEST(CollectiveCommand, SizesAreNcclTests) {
  const Ran ran = foretrain_with(collective({"-b", "8", "-e", "64", "--json", "-"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<std::int64_t> sizes;
  const Json table = Json::parse(ran.out);
  for (const Json& row : table["rows"]) sizes.push_back(row["bytes"]);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{8, 16, 32, 64}));
}

TEST(CollectiveCommand, ForcesAsNcclDoes) {
  const Ran ran =
      foretrain_with(collective({"-b", "1M", "-e", "1M", "--algo", "Ring", "--proto", "LL128", "--json", "-"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json table = Json::parse(ran.out);
  const Json& row = table["rows"][0];
  EXPECT_EQ(row["algorithm"], "ring");
  EXPECT_EQ(row["protocol"], "ll128");
}

TEST(CollectiveCommand, NeverAboveTheLine) {
  const Ran ran = foretrain_with(collective({"-b", "1K", "-e", "1G", "-f", "4", "--json", "-"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json table = Json::parse(ran.out);
  ASSERT_EQ(table["rows"].size(), 11U);  // 4^5 to 4^15
  double before = 0;
  for (const Json& row : table["rows"]) {
    EXPECT_LT(row["algbw_GBps"].get<double>(), 450) << "NVLink of an H100: 450 GB/s one way";
    EXPECT_GE(row["time_us"].get<double>(), before) << "a larger message is never faster here";
    before = row["time_us"];
  }
}

Json collective_json(const std::vector<std::string>& args) {
  std::vector<std::string> all = {"collective"};
  all.insert(all.end(), args.begin(), args.end());
  all.insert(all.end(), {"--json", "-"});
  const Ran ran = foretrain_with(all);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return Json::parse(ran.out);
}

TEST(CollectiveCommand, ExamplesOfTheHelpWork) {
  std::istringstream lines(foretrain_with({"collective", "--help"}).out);
  std::size_t ran_examples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  foretrain collective ")) continue;
    std::istringstream words(line);
    std::vector<std::string> args;
    for (std::string word; words >> word;) args.push_back(word);
    const Ran ran = foretrain_with({args.begin() + 1, args.end()});
    EXPECT_EQ(ran.status, 0) << line << ran.err;
    ++ran_examples;
  }
  EXPECT_EQ(ran_examples, 2U);
}

/// The first rank's NVLink takes twice the mean.
TEST(CollectiveCommand, ImbalanceIsTheHottestRanksTime) {
  const auto transfer_us = [](const std::string& imbalance) {
    const Json table = collective_json({"--cluster", "dgx-h100-ndr", "--gpus", "8", "--op", "all_to_allv",
                                        "--imbalance", imbalance, "-b", "1", "-e", "1G", "-f", "1073741824"});
    return table["rows"][1]["time_us"].get<double>() - table["rows"][0]["time_us"].get<double>();
  };
  EXPECT_NEAR(transfer_us("2") / transfer_us("1"), 2, 1e-4);
}

// 128 MiB among one GPU of each of 4 nodes: over the NIC of that rail alone, 50 GB/s at the goodput of InfiniBand.
TEST(CollectiveCommand, GroupStrideAndRanksPerNodeLayTheSameGroup) {
  const std::vector<std::string> common = {"--cluster", "dgx-h100-ndr", "--gpus",  "4",     "-b",
                                           "128M",      "-e",           "128M",    "--op",  "all_gather",
                                           "--algo",    "ring",         "--proto", "simple"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return collective_json(more);
  };
  const Json by_stride = with({"--group-stride", "8"});
  EXPECT_EQ(by_stride["ranks"], 4);
  EXPECT_EQ(by_stride, with({"--ranks-per-node", "1"}));
  const double transfer_s = 0.75 * 134217728 / (50e9 * 0.95);
  const double time_s = by_stride["rows"][0]["time_us"].get<double>() * 1e-6;
  EXPECT_GT(time_s, transfer_s);
  EXPECT_LT(time_s, transfer_s + 200e-6);
  EXPECT_EQ(by_stride["rows"][0]["limit"], "nic");
  EXPECT_EQ(by_stride["rows"][0]["limit_link"], "leaf0 > node0/nic0");
  EXPECT_EQ(with({"--ranks-per-node", "2", "--group-stride", "4"}), with({"--group-stride", "4"}));
}

// The 8 rings of a TP 8 job keep to their rails: at once as fast as alone.
TEST(CollectiveCommand, ConcurrentRingsOfRailsDoNotDisturbEachOther) {
  const Json table = collective_json({"--cluster", "dgx-h100-ndr", "--gpus", "4", "--group-stride", "8", "--concurrent",
                                      "-b", "1G", "-e", "1G", "--algo", "ring"});
  EXPECT_EQ(table["groups"], 8);
  EXPECT_DOUBLE_EQ(table["rows"][0]["slowdown"].get<double>(), 1);
  EXPECT_EQ(table["rows"][0]["time_us"], table["rows"][0]["alone_us"]);
}

TEST(CollectiveCommand, ConcurrentGroupsShareWhatTheyCross) {
  // Meta's pods: 3,072 GPUs; a group of two ranks a pod apart crosses the 1:7 layer. 3,072 such pairs at once have a
  // seventh of what their NICs carry.
  const Json table = collective_json({"--cluster", "h100-roce-clos", "--gpus", "2", "--group-stride", "3072",
                                      "--concurrent", "--op", "send_recv", "-b", "1G", "-e", "1G"});
  EXPECT_EQ(table["groups"], 3072);
  // Alone a NIC at 0.87 goodput is the limit; together the aggregation layer: 7 times less, at the same goodput.
  EXPECT_NEAR(table["rows"][0]["slowdown"].get<double>(), 7, 0.05);
  EXPECT_EQ(table["rows"][0]["limit"], "spine-core");
  EXPECT_NE(table["rows"][0]["limit_link"].get<std::string>().find("core"), std::string::npos);
}

TEST(CollectiveCommand, LayoutMistakes) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"collective", "--cluster", "dgx-h100-ndr"});
    return more;
  };
  expect_mistake(with({"--gpus", "16", "--ranks-per-node", "9"}),
                 "foretrain collective: --ranks-per-node 9: a node has 8 GPUs");
  expect_mistake(with({"--gpus", "6", "--ranks-per-node", "4"}),
                 "foretrain collective: --gpus 6: no multiple of --ranks-per-node 4");
  expect_mistake(with({"--gpus", "8", "--ranks-per-node", "4", "--group-stride", "4"}),
                 "foretrain collective: --ranks-per-node 4 at --group-stride 4: a node has 8 GPUs");
  expect_mistake(with({"--gpus", "8", "--group-stride", "0"}),
                 "foretrain collective: --group-stride 0: has to be 1 or more");
  expect_mistake(with({"--gpus", "16384", "--group-stride", "8"}),
                 "foretrain collective: a group of 16384 ranks in that layout spans 131,072 GPUs; 'dgx-h100-ndr' can "
                 "have 16,384");
}

TEST(CollectiveCommand, SaysWhatNobodyMeasured) {
  const auto text = [](const char* cluster, const char* gpus) {
    return foretrain_with({"collective", "--cluster", cluster, "--gpus", gpus, "-b", "1M", "-e", "1M"}).out;
  };
  EXPECT_THAT(text("dgx-h100-ndr", "16"), ::testing::Not(HasSubstr("uncertain")));
  EXPECT_THAT(text("h100-efa", "8"), ::testing::Not(HasSubstr("uncertain")));  // in a node: measured
  EXPECT_THAT(text("h100-efa", "16"), HasSubstr("only large messages were measured"));
  EXPECT_THAT(text("h100-efa", "16"), HasSubstr("12 % in the median and 65 % in the worst tenth"));
  EXPECT_THAT(text("h800-ib", "16"), HasSubstr("nobody measured such a cluster"));
  EXPECT_THAT(text("h800-ib", "16"), HasSubstr("6 % in the median and 30 % in the worst tenth from 64 MiB on"));
  const Json json = collective_json({"--cluster", "h800-ib", "--gpus", "16", "-b", "1M", "-e", "1M"})["uncertainty"];
  EXPECT_EQ(json["measured"], "none");
  EXPECT_DOUBLE_EQ(json["from_64_MiB"]["p90"].get<double>(), 0.30);
  EXPECT_DOUBLE_EQ(json["from_1_KiB"]["median"].get<double>(), 0.12);
}

TEST(TopologyCommand, CountsWhatWasAskedFor) {
  const Ran ran = foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "64", "--json", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json json = Json::parse(ran.out);
  EXPECT_EQ(json["gpus"], 64);
  EXPECT_EQ(json["nodes"], 8);
}

TEST(TopologyCommand, TakesASliceOfATorus) {
  const Ran ran = foretrain_with({"topology", "tpu-v4-pod", "--shape", "4x4x8", "--json", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["gpus"], 4 * 4 * 8);
  EXPECT_EQ(foretrain_with({"topology", "dgx-h100-ndr", "--shape", "4x4"}).err,
            "foretrain topology: --shape 4x4: 'dgx-h100-ndr' is no torus\n");
}

TEST(TopologyCommand, WritesGraphviz) {
  const Ran ran = foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "16", "--dot", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("graph"));
  EXPECT_THAT(ran.out, HasSubstr("{"));
}

TEST(TopologyCommand, Collisions) {
  const auto ask = [](const char* routing) {
    const Ran ran = foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "512", "--collisions", "--routing", routing,
                                    "--flows", "16", "--seed", "3", "--json", "-"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return Json::parse(ran.out)["collisions"];
  };
  EXPECT_EQ(ask("spread")["lost_bandwidth"], 0);
  const Json ecmp = ask("ecmp");
  EXPECT_EQ(ecmp["pairs"], 512);
  EXPECT_EQ(ecmp["flows_per_pair"], 16);
  EXPECT_EQ(ask("ecmp"), ecmp);
  EXPECT_THAT(foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "64", "--seed", "3"}).err,
              StartsWith("foretrain topology: --seed needs --collisions"));
  EXPECT_THAT(foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "64", "--collisions", "--flows", "257"}).err,
              StartsWith("foretrain topology: --flows 257: allowed: 1 to 256"));
  EXPECT_THAT(foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "64", "--collisions", "--routing", "ecpm"}).err,
              StartsWith("foretrain topology: --routing: unknown 'ecpm', did you mean 'ecmp'?"));
}

TEST(TopologyCommand, Mistakes) {
  EXPECT_THAT(foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "0"}).err,
              StartsWith("foretrain topology: --gpus 0: 'dgx-h100-ndr' can have 1 to "));
  EXPECT_EQ(foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "100000000"}).status, 2);
  EXPECT_EQ(foretrain_with({"topology", "no-such-cluster"}).status, 2);
  EXPECT_EQ(foretrain_with({"topology", "dgx-h100-ndr", "--gpus", "eight"}).status, 2);
}

TEST(RunCommand, JsonOnStandardOutputIsAlone) {
  const Ran ran = foretrain_with({"run", small, "--json", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "not a terminal: no progress";
  EXPECT_GT(Json::parse(ran.out)["step_time_s"].get<double>(), 0);
}

TEST(RunCommand, WritesFilesAndASummary) {
  const Scratch scratch;
  const Ran ran = foretrain_with({"run", small, "--json", scratch / "r.json", "--trace", scratch / "t.json.gz"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(scratch.listing(), "r.json t.json.gz");
  EXPECT_LE(std::count(ran.out.begin(), ran.out.end(), '\n'), 40);
  const Json result = Json::parse(content_of(scratch / "r.json"));
  const Json trace = Json::parse(unzipped(scratch / "t.json.gz"));
  double last = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_LE(last * 1e-6, result["step_time_s"].get<double>() + 1e-9) << "nothing is traced after the step";
  EXPECT_GT(last * 1e-6, 0.5 * result["step_time_s"].get<double>());
}

TEST(RunCommand, SameScenarioSameBytes) {
  const Scratch scratch;
  std::vector<Json> results;
  for (const char* name : {"a", "b"}) {
    const Ran ran = foretrain_with({"run", small, "--json", "-", "--trace", scratch / name});
    ASSERT_EQ(ran.status, 0) << ran.err;
    results.push_back(Json::parse(ran.out));
    results.back()["engine"].erase("wall_s");
    results.back()["engine"].erase("peak_rss_bytes");
  }
  EXPECT_EQ(results[0].dump(), results[1].dump());
  EXPECT_TRUE(content_of(scratch / "a") == content_of(scratch / "b"));
}

TEST(RunCommand, SetAndFidelityReachTheScenario) {
  const Ran ran = foretrain_with({"run", small, "--fidelity", "analytic", "--set", "network.seed=7", "--json", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json result = Json::parse(ran.out);
  const Json& network = result["scenario"]["network"];
  EXPECT_EQ(network["fidelity"], "analytic");
  EXPECT_EQ(network["seed"], 7);
}

TEST(RunCommand, AMistakeLeavesFilesAlone) {
  const Scratch scratch;
  put(scratch / "r.json", "before");
  const Ran ran = foretrain_with({"run", small, "--set", "training.global_batch=-1", "--json", scratch / "r.json"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("training.global_batch"));
  EXPECT_EQ(content_of(scratch / "r.json"), "before");
  EXPECT_EQ(scratch.listing(), "r.json");
}

TEST(RunCommand, AMissingScenarioIsAMistake) {
  const Ran ran = foretrain_with({"run", "no/such.yaml"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("no/such.yaml"));
}

}  // namespace
}  // namespace foretrain
