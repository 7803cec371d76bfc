// Does playing the schedules with the times that the Zero Bubble authors profiled give the bubble rates they print?
// Qi 2023 (arXiv 2401.10241): times from the profile in its appendix, rates from Table 5, which is in
// shared/reference/pipeline_bubbles.csv.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/workloads/reference.h"
#include "workloads/schedules/play.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

/// One line of the profile; milliseconds of a whole stage and of a message.
struct Profile {
  const char* model;
  std::int64_t ranks, microbatches;
  double forward, input, weight, message;
};

constexpr Profile profiles[] = {
    {"GPT 1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601},    {"GPT 1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626},
    {"GPT 1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762},    {"GPT 6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527},
    {"GPT 6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577},   {"GPT 6.2B", 8, 64, 29.935, 29.621, 19.388, 0.535},
    {"GPT 14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377},  {"GPT 14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379},
    {"GPT 14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378}, {"GPT 28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408},
    {"GPT 28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408}, {"GPT 28.3B", 32, 256, 10.402, 10.248, 7.698, 0.460}};

/// (cost - m (F + I + W)) / cost, where the cost is the longest span of a rank: with post-validation nothing waits for
/// all ranks between steps.
double bubble_rate(const Profile& at, ScheduleKind kind, std::int64_t chunks) {
  const ScheduleSpec spec{.kind = kind, .virtual_stages = chunks};
  const PipelineShape shape = pipeline_shape(spec, at.ranks, at.microbatches);
  const auto part = 1 / static_cast<double>(chunks);
  const PassTimes times{.forward = at.forward * part,
                        .backward_input = at.input * part,
                        .backward_weight = at.weight * part,
                        .latency = at.message};
  const double work = static_cast<double>(at.microbatches) * (at.forward + at.input + at.weight);
  return 1 - work / play(all_actions(spec, shape), shape, times).longest_span();
}

struct Column {
  const char* name;  ///< in the table
  ScheduleKind kind;
  double tolerance;
};
/// The handcrafted schedules to the last printed digit. For the interleaved one the table does not tell the chunks, nor
/// what part of a message is hidden: one point, with a layer a chunk (the two ends count as one layer each).
constexpr Column columns[] = {{"1F1B", ScheduleKind::one_f_one_b, 0.0001},
                              {"ZB-H1", ScheduleKind::zb_h1, 0.0001},
                              {"ZB-H2", ScheduleKind::zb_h2, 0.0001},
                              {"1F1B-I", ScheduleKind::interleaved_1f1b, 0.01}};

void expect_row(const ReferenceRow& row, const Column& column) {
  for (const Profile& profile : profiles) {
    if (row.at("model") != profile.model || std::stoll(row.at("microbatches")) != profile.microbatches) continue;
    const bool chunked = column.kind == ScheduleKind::interleaved_1f1b;
    const std::int64_t chunks = chunked ? (std::stoll(row.at("layers")) + 2) / profile.ranks : 1;
    EXPECT_NEAR(bubble_rate(profile, column.kind, chunks), std::stod(row.at("bubble_rate")), column.tolerance)
        << row.at("id") << ' ' << row.at("schedule");
    return;
  }
  ADD_FAILURE() << "no profile for " << row.at("id");
}

TEST(ZeroBubblePaper, bubble_rates_come_out_as_printed) {
  const auto rows = reference_rows("pipeline_bubbles.csv");
  if (rows.empty()) GTEST_SKIP() << "no reference data: pipeline_bubbles.csv";
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    for (const Column& column : columns) {
      if (row.at("bubble_rate").empty() || row.at("schedule") != column.name) continue;
      expect_row(row, column);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 48);
}

}  // namespace
}  // namespace foretrain
