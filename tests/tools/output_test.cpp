// Summary, JSON and tables, from results made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/samples.h"
#include "tools/output/collective_table.h"
#include "tools/output/json.h"
#include "tools/output/memory_table.h"
#include "tools/output/summary.h"
#include "tools/output/topology_table.h"
#include "tools/output/yaml_to_json.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// UTF-8 characters: bytes that do not continue one.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

Result crowded_result() {
  Result r = sample_result();
  r.scenario.name = std::string(200, 'n');
  r.communication.resize(40, r.communication.front());
  r.tiers.resize(20, r.tiers.front());
  r.hottest.resize(20, {std::string(80, 'f'), std::string(80, 't'), "nic", 1, 123456});
  r.memory.verdict = Verdict::does_not_fit;
  return r;
}

void expect_fits_a_screen(const Result& result) {
  for (const bool unicode : {false, true}) {
    const auto lines = lines_of(summary(result, {.colour = false, .unicode = unicode}));
    EXPECT_LE(lines.size(), summary_lines_max);
    for (const std::string& line : lines) EXPECT_LE(columns(line), summary_columns_max) << line;
  }
}

TEST(Summary, FitsAScreen) {
  expect_fits_a_screen(sample_result());
  expect_fits_a_screen(crowded_result());
}

TEST(Summary, TheAnswerComesFirst) {
  const auto lines = lines_of(summary(sample_result(), {}));
  EXPECT_EQ(lines[0], "10.00 s a step   400 TFLOP/s per GPU   MFU 40.5 %   HFU 42.0 %   1.68 M tokens/s");
  EXPECT_EQ(lines[1], "llama3-405b on 16,384 x h100-80gb of h100-roce-clos, fluid network");
}

TEST(Summary, SaysHowExpertsContextAndShardsAreSpread) {
  Result r = sample_result();
  r.scenario.model.experts = Experts{.count = 256, .topk = 8, .ffn_hidden = 2048};
  r.scenario.plan.ep = 64;
  r.scenario.plan.experts = ExpertExchange::two_hop;
  EXPECT_EQ(lines_of(summary(r, {}))[3], "experts ep 64 by two_hop, busiest at 1.00 of the mean");
  r.scenario.plan.expert_capacity = 1.25;
  r.scenario.plan.cp = 16;
  r.scenario.plan.context = ContextExchange::all_gather;
  r.scenario.plan.etp = 2;
  r.scenario.plan.hsdp_shard = 1024;
  EXPECT_EQ(lines_of(summary(r, {}))[3],
            "experts ep 64 x etp 2 by two_hop, padded to 1.25 of the mean; cp by all_gather; HSDP sets of 1,024");
  r.communication.resize(40, r.communication.front());
  expect_fits_a_screen(r);
}

TEST(Summary, SortsWhatTheTimeGoesTo) {
  const std::string text = summary(sample_result(), {});
  EXPECT_LT(text.find("  compute "), text.find("  waiting for tp "));
  EXPECT_LT(text.find("  waiting for tp "), text.find("  pipeline bubble "));
  EXPECT_THAT(text, HasSubstr("6.000 s    60.0 %"));
  EXPECT_THAT(text, HasSubstr("10.000 s   100.0 %"));
}

// The bar is 40 columns: 60 % is 24 of them.
TEST(Summary, BarsAreAsLongAsTheirShare) {
  EXPECT_THAT(summary(sample_result(), {}), HasSubstr(" " + std::string(24, '#') + std::string(16, '.') + " "));
}

TEST(Summary, PlainUnlessAsked) {
  const std::string plain = summary(sample_result(), {});
  EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
  for (const char c : plain) EXPECT_EQ(static_cast<unsigned char>(c) & 0x80U, 0U);
  EXPECT_THAT(summary(sample_result(), {.colour = true, .unicode = false}), HasSubstr("\x1b[1m"));
  EXPECT_THAT(summary(sample_result(), {.colour = false, .unicode = true}), HasSubstr("█"));
}

TEST(Summary, SaysWhetherItFits) {
  Result r = sample_result();
  EXPECT_THAT(summary(r, {}), HasSubstr("peak 70.0 GiB of 80.0 GiB on stage 0 at 3.500 s: fits, 10.0 GiB free"));
  r.memory.verdict = Verdict::at_risk;
  r.memory.pressure = 1.05;
  r.memory.peak_bytes = 84LL << 30;
  EXPECT_THAT(summary(r, {}), HasSubstr("at 3.500 s: AT RISK (105 %), 4.00 GiB over"));
  r.memory.verdict = Verdict::does_not_fit;
  r.memory.pressure = 1.1;
  r.memory.peak_bytes = 88LL << 30;
  EXPECT_THAT(summary(r, {}), HasSubstr("peak 88.0 GiB of 80.0 GiB on stage 0 at 3.500 s: DOES NOT FIT (110 %), "
                                        "8.00 GiB over"));
}

TEST(MemoryTable, HasTheVerdictTheLargestPartsAndALineAStage) {
  const auto lines = lines_of(memory_text(sample_result()));
  EXPECT_EQ(lines[0], "llama3-405b on 16,384 x h100-80gb: fits, 10.0 GiB free");
  EXPECT_EQ(lines[1], "  peak 70.0 GiB of 80.0 GiB on stage 0 at 3.500 s of the step");
  EXPECT_EQ(lines[2],
            "  largest: activations 47.0 GiB (67.1 %), gradients 12.0 GiB (17.1 %), parameters 6.00 GiB (8.6 %)");
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_EQ(
      lines[7],
      "stage 0      63         6.0        12.0         1.0        47.0         1.0         3.0    70.0    10.0     "
      "3.500 s");
  EXPECT_THAT(lines[8], HasSubstr("    60.0    20.0 "));
}

std::set<std::string> keys(const Json& object) {
  std::set<std::string> names;
  for (const auto& [key, value] : object.items()) names.insert(key);
  return names;
}
using Keys = std::set<std::string>;

TEST(ResultJson, HasTheSchemasKeys) {
  const Json json = Json::parse(result_json(sample_result()));
  EXPECT_EQ(json["schema"], "foretrain.result/1");
  EXPECT_EQ(keys(json), (Keys{"schema", "scenario", "step_time_s", "tokens_per_s", "tokens_per_s_per_gpu",
                              "model_tflops_per_gpu", "mfu", "hfu", "bubble_fraction", "breakdown_s", "stages",
                              "memory", "communication", "links", "engine", "slowed_s"}));
  EXPECT_EQ(keys(json["breakdown_s"]),
            (Keys{"compute", "recompute", "tp", "cp", "ep", "dp", "pp", "bubble", "optimizer", "other"}));
  EXPECT_EQ(keys(json["stages"][0]), (Keys{"stage", "compute_s", "bubble_s", "peak_memory_bytes"}));
  EXPECT_EQ(keys(json["memory"]),
            (Keys{"fits", "verdict", "pressure", "peak_bytes", "capacity_bytes", "peak_stage", "parts_bytes"}));
  EXPECT_EQ(keys(json["memory"]["parts_bytes"]),
            (Keys{"parameters", "gradients", "optimizer", "activations", "buffers", "overhead"}));
  EXPECT_EQ(keys(json["communication"][0]),
            (Keys{"dimension", "op", "calls", "bytes", "time_s", "exposed_s", "busbw_Bps", "slowdown"}));
  EXPECT_EQ(keys(json["links"]), (Keys{"tiers", "hottest"}));
  EXPECT_EQ(keys(json["links"]["tiers"][0]), (Keys{"tier", "links", "bytes", "mean_utilization", "max_utilization"}));
  EXPECT_EQ(keys(json["links"]["hottest"][0]), (Keys{"from", "to", "tier", "utilization", "saturated_s"}));
  EXPECT_EQ(keys(json["engine"]), (Keys{"ranks", "rank_classes", "asymmetries", "events", "wall_s", "peak_rss_bytes"}));
}

TEST(MemoryJson, HasTheVerdictAndEveryStage) {
  const Json json = Json::parse(memory_json(sample_result()));
  EXPECT_EQ(keys(json), (Keys{"schema", "scenario", "memory", "stages"}));
  EXPECT_EQ(json["schema"], "foretrain.memory/1");
  EXPECT_EQ(json["memory"]["verdict"], "fits");
  ASSERT_EQ(json["stages"].size(), 2U);
  EXPECT_EQ(keys(json["stages"][0]),
            (Keys{"stage", "layers", "peak_bytes", "peak_at_s", "margin_bytes", "parts_bytes"}));
  EXPECT_EQ(json["stages"][0]["peak_at_s"], 3.5);
  EXPECT_EQ(json["stages"][1]["margin_bytes"], 20LL << 30);
  EXPECT_EQ(json["stages"][0]["parts_bytes"]["gradients"], 12LL << 30);
}

TEST(ResultJson, CarriesTheValues) {
  const Result r = sample_result();
  const Json json = Json::parse(result_json(r));
  EXPECT_EQ(json["step_time_s"], r.step_time_s);
  EXPECT_EQ(json["breakdown_s"]["tp"], r.breakdown.tp);
  EXPECT_EQ(json["stages"][1]["bubble_s"], r.stages[1].bubble_s);
  EXPECT_EQ(json["memory"]["parts_bytes"]["activations"], 47LL << 30);
  EXPECT_EQ(json["communication"][3]["slowdown"], 1.3);
  EXPECT_EQ(json["links"]["hottest"][0]["from"], "leaf17");
  double sum = 0;
  for (const auto& [key, value] : json["breakdown_s"].items()) sum += value.get<double>();
  EXPECT_NEAR(sum, r.step_time_s, 1e-12 * r.step_time_s);
  EXPECT_TRUE(json["scenario"].is_object());
  EXPECT_EQ(result_json(r), result_json(r));
}

TEST(ResultJson, ScenarioKeepsTypesAndOrder) {
  EXPECT_EQ(yaml_to_json("b: 1\na: [true, ~, 1.5us]\nc: {x: 0.5, y: '12', z: inf}\n").dump(),
            R"({"b":1,"a":[true,null,"1.5us"],"c":{"x":0.5,"y":"12","z":"inf"}})");
}

CollectiveTable sample_table() {
  const IdleCall call{.choice = {Algorithm::ring, Protocol::simple},
                      .latency = microseconds(10),
                      .time = microseconds(100),
                      .limit = "nvlink"};
  return {.cluster = "c", .ranks = 4, .rows = {{Collective::all_reduce, bytes(4'000'000), call}}};
}

// nccl-tests: algbw = size / time; busbw = algbw * 2(n-1)/n.
TEST(CollectiveTable, BandwidthsAreNcclTests) {
  const CollectiveTable table = sample_table();
  EXPECT_DOUBLE_EQ(algbw(table.rows[0]), 4e6 / 100e-6);
  EXPECT_DOUBLE_EQ(busbw(table.rows[0], 4), 4e6 / 100e-6 * 2 * 3 / 4);
}

TEST(CollectiveTable, LooksLikeNcclTests) {
  const auto lines = lines_of(to_text(sample_table()));
  EXPECT_EQ(lines[2],
            "#       size         count    type   redop       time    algbw    busbw  algorithm  protocol  limit");
  EXPECT_EQ(lines[4],
            "     4000000       1000000   float     sum      100.0    40.00    60.00  ring       simple    nvlink");
}

// nccl-tests counts a rank's part of an all-gather: size / type / ranks.
TEST(CollectiveTable, CountsElementsOfARanksPart) {
  CollectiveTable table = sample_table();
  table.rows[0].op = Collective::all_gather;
  EXPECT_THAT(to_text(table), HasSubstr("     4000000        250000   float    none"));
}

TEST(CollectiveTable, JsonHasTheSchemasKeys) {
  const Json json = Json::parse(to_json(sample_table()));
  EXPECT_EQ(keys(json), (Keys{"cluster", "ranks", "rows"}));
  EXPECT_EQ(keys(json["rows"][0]), (Keys{"op", "bytes", "algorithm", "protocol", "time_us", "algbw_GBps", "busbw_GBps",
                                         "limit", "limit_link"}));
  EXPECT_DOUBLE_EQ(json["rows"][0]["time_us"].get<double>(), 100);
}

TEST(TopologyTable, SaysWhatTheReportHolds) {
  const TopologyReport report{
      .gpus = 1024,
      .nodes = 128,
      .nics = 1024,
      .vertices = 2500,
      .links = 10000,
      .switches = {{VertexKind::leaf, 64, 16, 24}, {VertexKind::spine, 16, 64, 64}},
      .tiers = {{"nvlink", 2048, gigabytes_per_second(450), gigabytes_per_second(450), nanoseconds(500), std::nullopt},
                {"leaf-spine", 512, gigabits_per_second(400), gigabits_per_second(400), nanoseconds(600), 7.0}},
      .bisection = gigabytes_per_second(12800),
      .bisection_of_injection = 0.5,
      .diameter_hops = 8};
  const std::string text = topology_text("c", report);
  EXPECT_THAT(text, HasSubstr("c: 1,024 GPUs in 128 nodes, 1,024 NICs"));
  EXPECT_THAT(text, HasSubstr("12.8 TB/s (50.0 % of what half of the GPUs can send"));
  EXPECT_THAT(text, HasSubstr("16 - 24"));
  EXPECT_THAT(text, HasSubstr("7.00 : 1"));
  const Json json = Json::parse(topology_json("c", report));
  EXPECT_EQ(json["tiers"][1]["oversubscription"], 7.0);
  EXPECT_TRUE(json["tiers"][0]["oversubscription"].is_null());
  EXPECT_EQ(json["bisection_Bps"], 12'800'000'000'000);
  EXPECT_FALSE(json.contains("collisions"));
}

TEST(TopologyTable, CollisionsAsTextAndJson) {
  CollisionTable table{
      .pattern = TrafficPattern::ring, .routing = Routing::ecmp, .seed = 7, .report = {}, .busiest = {}};
  EXPECT_THAT(collisions_text(table), HasSubstr("no flow crosses a link between switches"));
  table.busiest = "leaf3 > spine1";
  table.report = {.pairs = 2048,
                  .flows_per_pair = 16,
                  .tiers = {{.tier = "leaf-spine",
                             .direction = Direction::up,
                             .links = 5,
                             .idle = 1,
                             .flows_min = 0,
                             .flows_mean = 1.5,
                             .flows_max = 3,
                             .histogram = {{0, 1}, {1, 2}, {3, 2}}}},
                  .lost_bandwidth = 0.25};
  const std::string text = collisions_text(table);
  EXPECT_THAT(text, HasSubstr("2,048 pairs (ring) send at once, 16 flows each, ecmp routing, seed 7"));
  EXPECT_THAT(text, HasSubstr("1 x 0, 2 x 1, 2 x 3"));
  EXPECT_THAT(text, HasSubstr("25.0 % of what an even spread gives"));
  const Json json = Json::parse(topology_json("c", {}, table))["collisions"];
  EXPECT_EQ(json["lost_bandwidth"], 0.25);
  EXPECT_EQ(json["tiers"][0]["direction"], "up");
  EXPECT_EQ(json["tiers"][0]["histogram"][2], Json({{"flows", 3}, {"links", 2}}));
}

}  // namespace
}  // namespace foretrain
