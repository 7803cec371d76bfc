// Are the lists of actions, alone, with messages and with FSDP, those of PyTorch, Megatron-Core and DualPipe?
// shared/reference/schedules/NAME.csv holds lists generated from their rules.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/workloads/reference.h"
#include "workloads/schedules/runtime.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

struct Golden {
  const char* file;
  ScheduleSpec spec;
  std::int64_t ranks = 4;
  std::int64_t microbatches = 8;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.file; }

std::vector<Golden> goldens() {
  using K = ScheduleKind;
  return {
      {"gpipe_p4_m8", {.kind = K::gpipe}},
      {"1f1b_p4_m8", {.kind = K::one_f_one_b}},
      {"interleaved_1f1b_p2_m4", {.kind = K::interleaved_1f1b, .virtual_stages = 2}, 2, 4},
      {"interleaved_1f1b_p4_m8", {.kind = K::interleaved_1f1b, .virtual_stages = 2}},
      {"interleaved_1f1b_p4_m8_v4", {.kind = K::interleaved_1f1b, .virtual_stages = 4}},
      {"interleaved_1f1b_n6_p4_m12", {.kind = K::interleaved_1f1b, .virtual_stages = 2, .microbatch_group = 6}, 4, 12},
      {"interleaved_1f1b_flex_p4_m3", {.kind = K::interleaved_1f1b, .virtual_stages = 2}, 4, 3},
      {"interleaved_1f1b_flex_p4_m10", {.kind = K::interleaved_1f1b, .virtual_stages = 2}, 4, 10},
      {"interleaved_1f1b_ep_overlap_p4_m8", {.kind = K::interleaved_1f1b_ep_overlap, .virtual_stages = 2}},
      {"looped_bfs_p4_m8", {.kind = K::looped_bfs, .virtual_stages = 2}},
      {"zb_h1_p4_m8", {.kind = K::zb_h1}},
      {"zb_h2_p4_m8", {.kind = K::zb_h2}},
      {"zbv_p4_m8", {.kind = K::zbv, .virtual_stages = 2}},
      {"zbv_p4_m4", {.kind = K::zbv, .virtual_stages = 2}, 4, 4},
      {"interleaved_zb_p4_m8", {.kind = K::interleaved_zb, .virtual_stages = 2}},
      {"dualpipe_p4_m8", {.kind = K::dualpipe, .virtual_stages = 2}},
      {"dualpipev_p4_m8", {.kind = K::dualpipev, .virtual_stages = 2}},
      {"dualpipev_p4_m10", {.kind = K::dualpipev, .virtual_stages = 2}, 4, 10},
  };
}

std::string golden_text(const std::string& name) {
  std::ifstream in(reference_file("schedules/" + name + ".csv"));
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    text += line + '\n';
  }
  return text;
}

class ScheduleGolden : public ::testing::TestWithParam<Golden> {};

TEST_P(ScheduleGolden, lists_are_equal) {
  const Golden& golden = GetParam();
  const std::string compute = golden_text(golden.file);
  if (compute.empty()) GTEST_SKIP() << "no reference data: schedules/" << golden.file;
  const PipelineShape shape = pipeline_shape(golden.spec, golden.ranks, golden.microbatches);
  const ActionLists lists = all_actions(golden.spec, shape);
  EXPECT_EQ(to_csv(compute_only(lists, shape)), compute);
  EXPECT_EQ(to_csv(with_messages(lists, shape)), golden_text(std::string(golden.file) + "_comms"));
}

TEST_P(ScheduleGolden, shape_is_legal) {
  const Golden& golden = GetParam();
  EXPECT_TRUE(check_schedule(golden.spec, golden.ranks, golden.microbatches).empty());
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleGolden, ::testing::ValuesIn(goldens()),
                         [](const auto& golden) { return std::string("of_") + golden.param.file; });

TEST(ScheduleGolden, list_with_sharded_parameters_is_equal) {
  const std::string expected = golden_text("interleaved_1f1b_p4_m8_v4_fsdp");
  if (expected.empty()) GTEST_SKIP() << "no reference data: schedules/interleaved_1f1b_p4_m8_v4_fsdp.csv";
  const ScheduleSpec spec{.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 4};
  const PipelineShape shape = pipeline_shape(spec, 4, 8);
  EXPECT_EQ(to_csv(with_sharding(with_messages(all_actions(spec, shape), shape), shape)), expected);
}

}  // namespace
}  // namespace foretrain
