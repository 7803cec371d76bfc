// foretrain validate: the figures of its summary, what it writes, and how far the predictions are off.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "tests/tools/run_foretrain.h"
#include "tests/tools/scratch.h"
#include "tools/output/validation_plot.h"
#include "tools/validate/validation.h"

namespace foretrain {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::filesystem::path source = FORETRAIN_SOURCE_DIR;
const std::string runs = (source / "scenarios/published/runs.csv").string();

#if defined(__SANITIZE_ADDRESS__)
constexpr bool slow_build = true;
#else
constexpr bool slow_build = false;
#endif

// ---- the summary ----

TEST(ErrorSummary, OfElevenErrors) {
  std::vector<double> errors;
  for (int i = -5; i <= 5; ++i) errors.push_back(0.1 * i);
  const ErrorSummary s = summary_of(errors);  // sizes: 0, and 0.1 to 0.5 twice each
  EXPECT_EQ(s.count, 11U);
  EXPECT_NEAR(s.median_abs_error, 0.3, 1e-12);
  EXPECT_NEAR(s.mean_abs_error, 2 * (0.1 + 0.2 + 0.3 + 0.4 + 0.5) / 11, 1e-12);
  EXPECT_NEAR(s.p90_abs_error, 0.5, 1e-12);
  EXPECT_NEAR(s.bias, 0, 1e-12);
}

TEST(ErrorSummary, BetweenRanksLinear) {
  const ErrorSummary s = summary_of({0.1, -0.3});
  EXPECT_NEAR(s.median_abs_error, (0.1 + 0.3) / 2, 1e-12);
  EXPECT_NEAR(s.p90_abs_error, 0.1 + 0.9 * (0.3 - 0.1), 1e-12);
  EXPECT_NEAR(s.bias, (0.1 - 0.3) / 2, 1e-12);
  EXPECT_EQ(summary_of({}).count, 0U);
}

// ---- the command ----

TEST(Validate, JsonOfTheShippedTable) {
  const Ran ran = foretrain_with({"validate", runs, "--only", "korthikanti22", "--json", "-"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json json = Json::parse(ran.out);
  EXPECT_EQ(json["schema"], "foretrain.validation/1");
  ASSERT_EQ(json["rows"].size(), 9U);
  double sum = 0;
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["family"], "korthikanti22");
    EXPECT_EQ(row["gpu"], "a100-80gb");
    EXPECT_EQ(row["skipped"], "");
    const double error = row["predicted_s"].get<double>() / row["published_s"].get<double>() - 1;
    EXPECT_THAT(row["error"].get<double>(), DoubleNear(error, 1e-12));
    sum += std::abs(error);
  }
  const Json& all = json["summary"][0];
  EXPECT_EQ(all["group"], "all");
  EXPECT_EQ(all["count"], 9);
  EXPECT_THAT(all["mean_abs_error"].get<double>(), DoubleNear(sum / 9, 1e-12));
}

TEST(Validate, TheSameWhateverPlaysAtTheSameTime) {
  const auto with = [](const char* jobs) {
    return foretrain_with({"validate", runs, "--only", "mbridge-notes", "--only", "torchtitan-00*", "--jobs", jobs})
        .out;
  };
  EXPECT_EQ(with("1"), with("4"));
}

TEST(Validate, ARowThatCannotBePlayedHoldsUpNoOther) {
  const Scratch scratch;
  const std::string header =
      "id,family,source,system,gpu,n_gpus,model,layers,seq,tp,pp,mbs,gbs,precision,step_time_s\n";
  put(scratch / "t.csv", header + "good,mine,,DGX-H100,H100-80GB,8,Llama-3-8B,32,2048,1,1,1,8,bf16,1\n" +
                             "odd,mine,,DGX-H100,H100-80GB,8,Llama-3-8B,32,2048,3,1,1,8,bf16,1\n");
  const Ran ran = foretrain_with({"validate", scratch / "t.csv"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("Not played\n  odd: no legal scenario: "));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("all +1 "));
}

TEST(Validate, ScenarioOfARowLoads) {
  const Scratch scratch;
  const Ran ran = foretrain_with({"validate", runs, "--scenario", "narayanan21-007"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("# chunks a rank as in Megatron-LM examples/sc21/run_table_1.sh\n"));
  put(scratch / "s.yaml", ran.out);
  const Ran memory = foretrain_with({"memory", scratch / "s.yaml"});
  EXPECT_EQ(memory.status, 0) << memory.err;
}

TEST(Validate, Mistakes) {
  const Ran nobody = foretrain_with({"validate", runs, "--only", "korthikanti"});
  EXPECT_EQ(nobody.status, 2);
  EXPECT_THAT(nobody.err, HasSubstr("no row's family or id is 'korthikanti', did you mean 'korthikanti22'?"));
  const Ran nothing = foretrain_with({"validate", "nowhere.csv"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nowhere.csv: cannot be read"));
}

TEST(Validate, PlotHasAPointARow) {
  const Scratch scratch;
  const Ran ran = foretrain_with({"validate", runs, "--only", "korthikanti22", "--plot", scratch / "p.svg"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  pugi::xml_document svg;
  ASSERT_TRUE(svg.load_string(content_of(scratch / "p.svg").c_str()));
  EXPECT_EQ(svg.select_nodes("//circle[title]").size(), 9U);
  EXPECT_EQ(content_of(scratch / "p.svg").find("href"), std::string::npos);  // needs no other file
}

// ---- how far off ----

/// Every thirteenth row of the whole table, so that all families are among them. Bounds: half as much again as what is
/// asked of the whole table (3.5, 5.5 and 12 % of the step; 3 % of memory), because a sample scatters.
TEST(Validate, ErrorsStayWithinBounds) {
  if (slow_build) GTEST_SKIP() << "minutes under the sanitizers";
  const std::filesystem::path catalogue = source / "scenarios";
  const PublishedTable table = load_published(runs);
  const PublishedRules rules = load_published_rules(catalogue);
  std::vector<PublishedCase> cases;
  for (std::size_t i = 0; i < table.runs.size(); i += 13) cases.push_back(case_of(table.runs[i], rules, {}, catalogue));
  const Validation validation = validate(std::move(cases));
  const ValidationGroup all = groups_of(validation).front();
  EXPECT_EQ(all.name, "all");
  EXPECT_GE(all.step.count, 50U);
  EXPECT_LE(all.step.median_abs_error, 1.5 * 0.035);
  EXPECT_LE(all.step.mean_abs_error, 1.5 * 0.055);
  EXPECT_LE(all.step.p90_abs_error, 1.5 * 0.12);
  EXPECT_LE(all.memory.median_abs_error, 1.5 * 0.03);
}

}  // namespace
}  // namespace foretrain
