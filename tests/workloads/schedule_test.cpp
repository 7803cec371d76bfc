// Are the schedules complete, free of deadlock and within their activation budget?
#include "workloads/schedules/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/workloads/reference.h"

namespace foretrain {
namespace {

TEST(Schedule, all_are_complete_and_free_of_deadlock) {
  for (std::int64_t p = 1; p <= 8; ++p)
    for (std::int64_t m = 1; m <= 24; ++m) {
      EXPECT_EQ(verify(ScheduleKind::gpipe, {p, 1, m}), "") << p << ' ' << m;
      EXPECT_EQ(verify(ScheduleKind::one_f_one_b, {p, 1, m}), "") << p << ' ' << m;
      if (p == 1 || m % p != 0) continue;
      for (std::int64_t v : {2, 3, 4})
        EXPECT_EQ(verify(ScheduleKind::interleaved_1f1b, {p, v, m}), "") << p << ' ' << m;
    }
}

/// schedules.md, section 2: GPipe m; 1F1B min(m, p-r); interleaved min(mv, (v-1)p + 2(p-1-r) + 1).
TEST(Schedule, peak_of_live_activations_is_the_formula) {
  for (std::int64_t p : {2, 4, 8})
    for (std::int64_t m : {p, 2 * p, 5 * p})
      for (std::int64_t r = 0; r < p; ++r) {
        EXPECT_EQ(peak_alive(ScheduleKind::gpipe, {p, 1, m}, r), m);
        EXPECT_EQ(peak_alive(ScheduleKind::one_f_one_b, {p, 1, m}, r), std::min(m, p - r));
        for (std::int64_t v : {2, 3})
          EXPECT_EQ(peak_alive(ScheduleKind::interleaved_1f1b, {p, v, m}, r),
                    std::min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1));
      }
}

/// PyTorch's schedule CSV: one row a rank, cells like 2F0 (global stage, pass, microbatch).
std::vector<std::vector<std::string>> read_rows(std::istream& in) {
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    auto& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');)
      if (!cell.empty() && cell != "\r") row.push_back(cell);
  }
  return rows;
}

void expect_golden(ScheduleKind kind, const PipelineShape& shape, const std::string& file) {
  std::ifstream in(reference_file("schedules/" + file));
  if (!in) GTEST_SKIP() << "no reference data: schedules/" << file;
  const auto rows = read_rows(in);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(shape.ranks));
  for (std::int64_t r = 0; r < shape.ranks; ++r) {
    std::vector<std::string> ours;
    for (const Action& a : actions(kind, shape, r)) {
      std::ostringstream cell;
      cell << a.chunk * shape.ranks + r << (a.pass == Pass::forward ? 'F' : 'B') << a.microbatch;
      ours.push_back(cell.str());
    }
    EXPECT_EQ(ours, rows[static_cast<std::size_t>(r)]) << file << " rank " << r;
  }
}

TEST(Schedule, gpipe_equals_the_golden_list) { expect_golden(ScheduleKind::gpipe, {4, 1, 8}, "gpipe_p4_m8.csv"); }
TEST(Schedule, one_f_one_b_equals_the_golden_list) {
  expect_golden(ScheduleKind::one_f_one_b, {4, 1, 8}, "1f1b_p4_m8.csv");
}
TEST(Schedule, interleaved_equals_the_golden_list) {
  expect_golden(ScheduleKind::interleaved_1f1b, {4, 2, 8}, "interleaved_1f1b_p4_m8.csv");
}
TEST(Schedule, interleaved_with_four_chunks_equals_the_golden_list) {
  expect_golden(ScheduleKind::interleaved_1f1b, {4, 4, 8}, "interleaved_1f1b_p4_m8_v4.csv");
}

}  // namespace
}  // namespace foretrain
