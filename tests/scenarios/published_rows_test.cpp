// Rows of published runs: reading the table, its mistakes, and what the rules make of a row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "scenarios/csv.h"
#include "scenarios/published/predict.h"
#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace foretrain::testing;

// ---- CSV ----

std::vector<std::vector<std::string>> fields_of(const std::string& text, std::string* mistakes = nullptr) {
  Problems problems;
  std::vector<std::vector<std::string>> records;
  for (const CsvRecord& record : parse_csv(problems.source("t.csv", text, ""), problems)) {
    records.emplace_back();
    for (const CsvField& field : record.fields) records.back().push_back(field.text);
  }
  if (mistakes != nullptr) *mistakes = problems.text();
  return records;
}

TEST(Csv, QuotesProtectCommasQuotesAndLineEnds) {
  EXPECT_THAT(fields_of("a,\"b, \"\"c\"\"\nd\",\r\n\n,e"),
              ElementsAre(ElementsAre("a", "b, \"c\"\nd", ""), ElementsAre("", "e")));
}

RC_GTEST_PROP(CsvProperty, WhatIsWrittenComesBack, ()) {
  const auto field = rc::gen::container<std::string>(rc::gen::element('a', ',', '"', '\n', ' ', '7'));
  const auto fields = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(field));
  RC_PRE(fields.size() > 1);  // one empty field is an empty line, which is no record
  std::string line;
  for (const std::string& f : fields) line += (line.empty() && &f == &fields.front() ? "" : ",") + csv_text(f);
  std::string mistakes;
  const auto back = fields_of(line + "\n", &mistakes);
  RC_ASSERT(mistakes.empty());
  RC_ASSERT(back.size() == 1U);
  RC_ASSERT(back.front() == fields);
}

TEST(Csv, Mistakes) {
  std::string mistakes;
  static_cast<void>(fields_of("a,b\"c\n\"d\"e,f\n\"g\n", &mistakes));
  EXPECT_THAT(mistakes, HasSubstr("t.csv:1:4: a quote inside a field; allowed: the whole field in quotes"));
  EXPECT_THAT(mistakes, HasSubstr("t.csv:2:4: text behind a closing quote; allowed: a comma or the line's end"));
  EXPECT_THAT(mistakes, HasSubstr("t.csv:3:1: a quote that never closes; allowed: a closing quote"));
}

// ---- the table ----

/// A row of 8 H100s as a table; `changes` replace columns or add them.
PublishedTable table_of(std::map<std::string, std::string> changes) {
  std::map<std::string, std::string> cells = {{"id", "r1"},
                                              {"family", "megatron-core"},
                                              {"source", ""},
                                              {"gpu", "H100-80GB"},
                                              {"system", "DGX-H100"},
                                              {"n_gpus", "8"},
                                              {"model", "Llama-3-8B"},
                                              {"layers", "32"},
                                              {"seq", "8192"},
                                              {"tp", "1"},
                                              {"cp", "1"},
                                              {"pp", "1"},
                                              {"mbs", "1"},
                                              {"gbs", "128"},
                                              {"precision", "bf16"},
                                              {"step_time_s", "10"}};
  for (const auto& [column, value] : changes) cells[column] = value;
  std::string header;
  std::string line;
  for (const auto& [column, value] : cells) {
    header += (header.empty() ? "" : ",") + csv_text(column);
    line += (column == cells.begin()->first ? "" : ",") + csv_text(value);
  }
  return parse_published(header + "\n" + line + "\n", "runs.csv");
}

const PublishedRules& rules() {
  static const PublishedRules all = load_published_rules(catalogue());
  return all;
}

PublishedCase case_with(const std::map<std::string, std::string>& changes) {
  return case_of(table_of(changes).runs.front(), rules(), {}, catalogue());
}

TEST(PublishedTable, SaysAllThatIsWrongAtOnce) {
  try {
    static_cast<void>(
        parse_published("id,family,source,system,gpu,n_gpus,model,seq,tp,pp,mbs,step_time_s,gsb\n"
                        "a,f,s,y,g,8,m,4096,two,1,1,-3,8\n"
                        "a,f,s,y,g,8,m,4096,1,1,1,nan,8\n"
                        "b,f\n",
                        "runs.csv"));
    FAIL() << "taken";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("runs.csv:1:1: gbs: the column is absent, did you mean 'gsb'?"));
    EXPECT_THAT(text, HasSubstr("runs.csv:2:20: tp: found 'two'; allowed: a whole number, or nothing"));
    EXPECT_THAT(text, HasSubstr("runs.csv:2:28: step_time_s: found '-3'; allowed: a number above 0"));
    EXPECT_THAT(text, HasSubstr("runs.csv:3:1: id: two runs are called 'a'"));
    EXPECT_THAT(text, HasSubstr("step_time_s: found 'nan'"));
    EXPECT_THAT(text, HasSubstr("runs.csv:4:1: 2 fields under 13 columns"));
  }
}

// ---- rules ----

TEST(PublishedRules, Patterns) {
  EXPECT_TRUE(matches_pattern("interleaved 1F1B", "*1F1B"));
  EXPECT_TRUE(matches_pattern("abab", "*ab"));
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_TRUE(matches_pattern("", "*"));
  EXPECT_FALSE(matches_pattern("1F1B-I", "*1F1B"));
  EXPECT_FALSE(matches_pattern("a", ""));
}

RC_GTEST_PROP(PublishedRulesProperty, AStarTakesAnything, (const std::string& before, const std::string& within)) {
  RC_PRE(before.find('*') == std::string::npos);
  RC_ASSERT(matches_pattern(before + within + before, before + "*" + before));
}

TEST(PublishedRules, ApplyInTheirOrder) {
  const PublishedRules two = parse_published_rules(
      "- when: {model: [\"Llama*\", other]}\n  why: first\n  columns: {vpp: 3}\n  scenario: {model: {use: llama3-8b}, "
      "cluster: {use: dgx-h100-ndr}, training: {loss: fused}}\n"
      "- when: {vpp: 3, precision: \"*\", recompute: \"\"}\n  scenario: {training: {loss: unfused, gradients: bf16}}\n"
      "- when: {vpp: 4}\n  skip: not this one\n",
      "rules.yaml");
  const PublishedScenario s = scenario_of(table_of({}).runs.front(), two);
  ASSERT_EQ(s.skipped, "");
  EXPECT_THAT(s.reasons, ElementsAre("first"));
  const Scenario scenario = parse_scenario(s.yaml, "r1", {}, catalogue());
  EXPECT_EQ(scenario.training.loss, LossKernel::unfused);
  EXPECT_EQ(scenario.training.gradients, Precision::bf16);
  EXPECT_EQ(scenario_of(table_of({{"vpp", "4"}, {"model", "x"}}).runs.front(), two).skipped, "not this one");
}

TEST(PublishedRules, MistakesNameTheirPlace) {
  try {
    static_cast<void>(parse_published_rules("- when: {a: {}}\n  wy: typo\n- why: no condition\n", "rules.yaml"));
    FAIL() << "taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rules.yaml:1:13: [0].when.a: found a map; allowed: text or a number"));
    EXPECT_THAT(error.what(), HasSubstr("rules.yaml:2:3: [0].wy: unknown key 'wy', did you mean 'why'?"));
    EXPECT_THAT(error.what(), HasSubstr("[1].when"));
  }
}

// ---- what a row becomes ----

TEST(PublishedRow, StatesItsPlan) {
  const PublishedCase c = case_with({{"zero_stage/fsdp", "1 (distributed optimizer)"},
                                     {"vpp", "5"},
                                     {"pp", "4"},
                                     {"n_gpus", "64"},
                                     {"tp", "2"},
                                     {"model", "Llama-3-70B"},
                                     {"layers", "80"},
                                     {"pp_schedule", "interleaved 1F1B"},
                                     {"precision", "FP8 (TE)"}});
  ASSERT_TRUE(c.scenario) << c.published.skipped;
  EXPECT_EQ(c.scenario->gpus, 64);
  EXPECT_EQ(c.scenario->plan.dp, 64 / (2 * 4));
  EXPECT_EQ(c.scenario->plan.zero, 1);
  EXPECT_EQ(c.scenario->plan.schedule.kind, ScheduleKind::interleaved_1f1b);
  EXPECT_EQ(c.scenario->plan.schedule.virtual_stages, 5);
  EXPECT_EQ(c.scenario->training.stack.name, "nemo-2024");
  EXPECT_EQ(c.step_s, 10);
}

TEST(PublishedRow, InterleavedWithoutChunksHasTwo) {
  const PublishedCase c = case_with({{"pp", "4"}, {"pp_schedule", "interleaved 1F1B"}});
  ASSERT_TRUE(c.scenario) << c.published.skipped;
  EXPECT_EQ(c.scenario->plan.schedule.virtual_stages, 2);
  EXPECT_THAT(c.published.reasons, ::testing::Contains(HasSubstr("2 chunks a rank")));
}

TEST(PublishedRow, ShardingWords) {
  const auto plan = [](const std::string& words) { return case_with({{"zero_stage/fsdp", words}}).scenario->plan; };
  EXPECT_EQ(plan("FSDP2 full shard").zero, 3);
  EXPECT_EQ(plan("FSDP2 full shard").hsdp_shard, 0);
  EXPECT_EQ(plan("FSDP 4 (ICI) x DP 2 (DCN)").hsdp_shard, 4);
  EXPECT_EQ(plan("FSDP2 8").hsdp_shard, 0);  // all of them
  EXPECT_EQ(plan("1 (zero1 group 4)").zero, 1);
  EXPECT_EQ(plan("1 (zero1 group 4)").hsdp_shard, 4);
}

/// The same step by each of the ways in which it can be published.
TEST(PublishedRow, StepTimeFromRates) {
  const double tokens = 128 * 8192 / (8 * 10.0);
  EXPECT_NEAR(case_with({{"step_time_s", ""}, {"tokens_per_s_per_gpu", std::to_string(tokens)}}).step_s, 10, 1e-6);
  const Scenario s = *case_with({}).scenario;
  const double flops = step_flops(s.model, 8192, 128, AttentionFlops::full) / (8 * 10.0);
  const auto with = [&](const char* column, double value) {
    return case_with({{"step_time_s", ""}, {column, std::to_string(value)}, {"flops_convention", "model"}}).step_s;
  };
  EXPECT_NEAR(with("tflops_per_gpu", flops / 1e12), 10, 1e-4);
  EXPECT_NEAR(with("mfu_pct", 100 * flops / s.cluster.gpu.peak.per_second()), 10, 1e-4);
}

TEST(PublishedRow, SaysWhyItCannotBePlayed) {
  const auto why = [](const std::map<std::string, std::string>& changes) {
    return case_with(changes).published.skipped;
  };
  EXPECT_EQ(why({{"use", "no: a fault"}}), "no: a fault");
  EXPECT_EQ(why({{"mbs", ""}, {"tp", ""}}), "missing tp, mbs");
  EXPECT_EQ(why({{"step_time_s", ""}}), "missing step time");
  EXPECT_EQ(why({{"system", "a garage"}}), "no rule makes a cluster of its system and GPU: a garage, H100-80GB");
  EXPECT_EQ(why({{"precision", "int1"}}), "no rule knows its precision: int1");
  EXPECT_THAT(why({{"tp", "3"}}), HasSubstr("no legal scenario: "));
}

/// Layers go to stages until their share of the cost, the output layer's among it, is passed (nanotron,
/// pipeline_parallel/engine: the layer that crosses a share still belongs to it).
TEST(PublishedRow, NanotronsStagesByCost) {
  const struct {
    int layers, hidden, ffn;
    int pp;
  } plans[] = {
      {16, 2048, 8192, 2}, {28, 3072, 8192, 2}, {32, 4096, 14336, 2}, {32, 4096, 14336, 4}, {80, 8192, 28672, 16}};
  for (const auto& p : plans) {
    const double layer = static_cast<double>(p.hidden) * (4.0 * p.hidden + 3.0 * p.ffn);
    const double share = (p.layers * layer + p.hidden * 131072.0) / p.pp;
    std::vector<std::int64_t> expected(static_cast<std::size_t>(p.pp));
    std::size_t stage = 0;
    for (int l = 1; l <= p.layers; ++l) {
      ++expected[stage];
      if (l * layer > share * static_cast<double>(stage + 1)) ++stage;
    }
    const PublishedCase c = case_with({{"family", "nanotron"},
                                       {"system", "Hugging Face H100 cluster"},
                                       {"n_gpus", "64"},
                                       {"model", "Llama-like"},
                                       {"layers", std::to_string(p.layers)},
                                       {"hidden", std::to_string(p.hidden)},
                                       {"ffn_hidden", std::to_string(p.ffn)},
                                       {"heads", "32"},
                                       {"vocab", "131072"},
                                       {"pp", std::to_string(p.pp)}});
    ASSERT_TRUE(c.scenario) << c.published.skipped;
    EXPECT_EQ(c.scenario->plan.stage_layers, expected);
  }
}

// ---- the table that ships ----

const PublishedTable& shipped() {
  static const PublishedTable table = load_published(catalogue() / "published" / "runs.csv");
  return table;
}

TEST(ShippedTable, EveryRowHasAScenario) {
  for (const PublishedRun& run : shipped().runs) EXPECT_EQ(scenario_of(run, rules()).skipped, "") << run.id();
  for (std::size_t i = 0; i < shipped().runs.size(); i += 17)
    EXPECT_EQ(case_of(shipped().runs[i], rules(), {}, catalogue()).published.skipped, "");
}

TEST(ShippedTable, EveryRowNamesItsSource) {
  for (const PublishedRun& run : shipped().runs) {
    EXPECT_FALSE(run.text("source").empty()) << run.id();
    EXPECT_THAT(run.text("url"), HasSubstr("://")) << run.id();
  }
}

/// No rule is dead: each changes what becomes of some row.
TEST(ShippedTable, EveryRuleMatchesARow) {
  std::vector<bool> used(rules().size());
  for (const PublishedRun& run : shipped().runs) {
    PublishedRun read = run;
    for (std::size_t i = 0; i < rules().size(); ++i) {
      if (!rules()[i].matches(read)) continue;
      used[i] = true;
      for (const auto& [column, value] : rules()[i].columns) read.set(column, value);
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) EXPECT_TRUE(used[i]) << i << ": " << rules()[i].why;
}

}  // namespace
}  // namespace foretrain
