// Does playing each schedule give the makespan, bubble and memory that another simulation of the same rules gave?
// 3,120 rows in shared/reference/schedules/expected_metrics.csv: 11 schedules, shapes, and times of F, I, W.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/workloads/reference.h"
#include "workloads/schedules/play.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

/// The table tells rules of the group's size apart by name.
ScheduleKind kind_named(const std::string& name) {
  if (name == "interleaved_1f1b_flex" || name == "interleaved_1f1b_n2p") return ScheduleKind::interleaved_1f1b;
  for (const ScheduleKind kind : all_schedule_kinds)
    if (to_text(kind) == name) return kind;
  ADD_FAILURE() << "unknown schedule " << name;
  return {};
}

std::vector<double> by_rank(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> values;
  for (std::string value; std::getline(in, value, ';');) values.push_back(std::stod(value));
  return values;
}

template <class Member>
std::vector<double> of_ranks(const SchedulePlay& played, Member member) {
  std::vector<double> values;
  for (const PlayedRank& rank : played.ranks) values.push_back(static_cast<double>(rank.*member));
  return values;
}

void expect_row(const ReferenceRow& row) {
  const auto number = [&](const char* column) { return std::stod(row.at(column)); };
  const auto integer = [&](const char* column) { return std::stoll(row.at(column)); };
  ScheduleSpec spec{.kind = kind_named(row.at("schedule")), .virtual_stages = integer("v")};
  if (!row.at("group").empty()) spec.microbatch_group = integer("group");
  const PipelineShape shape = pipeline_shape(spec, integer("p"), integer("m"));
  const PassTimes times{.forward = number("F"),
                        .backward_input = number("I"),
                        .backward_weight = number("W"),
                        .latency = number("comm"),
                        .block = number("FB")};
  const SchedulePlay played = play(all_actions(spec, shape), shape, times);
  EXPECT_EQ(played.stuck, "");
  EXPECT_EQ(played.makespan(), number("makespan"));
  EXPECT_NEAR(played.bubble_fraction(), number("bubble_fraction"), 1e-9);
  EXPECT_EQ(played.longest_span(), number("longest_rank_span"));
  EXPECT_EQ(of_ranks(played, &PlayedRank::peak), by_rank(row.at("peak_activations_per_rank")));
  EXPECT_EQ(of_ranks(played, &PlayedRank::work), by_rank(row.at("work_per_rank")));
  EXPECT_EQ(of_ranks(played, &PlayedRank::peak_until_input), by_rank(row.at("peak_until_I_per_rank")));
  for (std::int64_t r = 0; r < shape.ranks; ++r)
    EXPECT_LE(played.ranks[static_cast<std::size_t>(r)].peak, activation_budget(spec, shape, r));
}

TEST(ScheduleMetrics, equal_the_table) {
  const auto rows = reference_rows("schedules/expected_metrics.csv");
  if (rows.empty()) GTEST_SKIP() << "no reference data: schedules/expected_metrics.csv";
  ASSERT_EQ(rows.size(), 3120U);
  for (const ReferenceRow& row : rows) {
    SCOPED_TRACE(row.at("schedule") + " p " + row.at("p") + " m " + row.at("m") + " v " + row.at("v") + " F " +
                 row.at("F") + " c " + row.at("comm") + " FB " + row.at("FB"));
    expect_row(row);
    if (::testing::Test::HasFailure()) return;  // one row says enough
  }
}

}  // namespace
}  // namespace foretrain
