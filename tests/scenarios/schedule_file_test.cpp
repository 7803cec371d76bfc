// Does a schedule CSV come back as what it says, and does every mistake in one get a message at its place?
#include "scenarios/schedule_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "scenarios/schedule_cells.h"
#include "tests/scenarios/support.h"
#include "tests/workloads/reference.h"
#include "tests/workloads/schedules/specs.h"
#include "workloads/schedules/runtime.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Read {
  std::shared_ptr<const ListedSchedule> listed;
  std::string mistakes;
};

Read read(const std::string& text) {
  Problems problems;
  auto listed = read_schedule_text(problems.source("s.csv", text, ""), "", problems);
  return {std::move(listed), problems.text()};
}

/// The first line of each message, without the line of the file that it shows.
std::vector<std::string> mistakes_of(const std::string& text) {
  std::istringstream in(read(text).mistakes);
  std::vector<std::string> found;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("s.csv")) found.push_back(line);
  return found;
}

// Whatever a schedule is written as, the same lists come back: alone, with messages, and with what FSDP does.
RC_GTEST_PROP(ScheduleFile, what_is_written_reads_back, ()) {
  const ScheduleCase it = random_case();
  const ActionLists lists = all_actions(it.spec, it.shape);
  const auto written = *rc::gen::inRange(0, 3);
  RuntimeLists runtime = compute_only(lists, it.shape);
  if (written > 0) runtime = with_messages(lists, it.shape);
  if (written > 1) runtime = with_sharding(runtime, it.shape);
  const Read back = read(to_csv(runtime));
  RC_ASSERT(back.mistakes == "");
  RC_ASSERT(back.listed->shape.microbatches == it.shape.microbatches);
  RC_ASSERT(stage_count(back.listed->shape) == stage_count(it.shape));
  RC_ASSERT(to_csv(compute_only(back.listed->lists, back.listed->shape)) == to_csv(compute_only(lists, it.shape)));
  RC_ASSERT(verify(back.listed->lists, back.listed->shape) == "");
}

TEST(ScheduleFile, placements_are_seen) {
  EXPECT_EQ(read("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n").listed->shape.placement, Placement::loop);
  EXPECT_EQ(read("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n").listed->shape.placement, Placement::vee);
  EXPECT_EQ(read("0F0,1F1,0B0,1B1\n1F0,0F1,1B0,0B1\n").listed->shape.placement, Placement::bidirectional);
}

TEST(ScheduleFile, idle_steps_blanks_and_line_ends_mean_nothing) {
  const Read plain = read("0F0,0B0\n1F0,1B0\n");
  const Read spaced = read("0F0,,, 0B0\r\n,1F0,1B0,\r\n\r\n");
  ASSERT_EQ(spaced.mistakes, "");
  EXPECT_EQ(spaced.listed->lists, plain.listed->lists);
}

/// torch 2.4 wrote B for the input gradient and BW for the whole.
TEST(ScheduleFile, old_spelling_is_understood) {
  EXPECT_EQ(read("0F0,0B0,0W0\n1F0,1BW0\n").mistakes, "");
  const auto pass = [](const Read& it) { return it.listed->lists[0][1].pass; };
  EXPECT_EQ(pass(read("0F0,0B0,0W0\n1F0,1BW0\n")), Pass::backward_input);
  EXPECT_EQ(pass(read("0F0,0B0,0W0\n")), Pass::backward_input);
  EXPECT_EQ(pass(read("0F0,0B0\n1F0,1I0,1W0\n")), Pass::backward);
}

TEST(ScheduleFile, every_bad_cell_is_named_with_its_place) {
  EXPECT_THAT(mistakes_of("0F0,0X0,0B0\n1F0,1SEND_f0,1B0\n"),
              ::testing::ElementsAre(StartsWith("s.csv:1:5: found '0X0'; allowed: STAGE ACTION MICROBATCH as in 2F0"),
                                     StartsWith("s.csv:2:5: found '1SEND_f0', did you mean 'SEND_F'?; allowed: ")));
  for (const char* cell : {"F0", "0F", "0F0x", "0UNSHARD0", "0F99999", "9999F0", "(0F1;0B0", "(0F1)OVERLAP_F_B",
                           "(0F1;0B0)OVERLAP", "99999999999999999999F0", "\"0F0\"", "-1F0"}) {
    EXPECT_THAT(read_cell(cell).mistake, StartsWith(std::string("found '") + cell + "'")) << cell;
  }
  EXPECT_THAT(read_cell("(0B0;0F1)OVERLAP_F_B").mistake, HasSubstr("allowed in an overlapped block: a forward, then"));
}

TEST(ScheduleFile, what_does_not_fit_together_is_named) {
  using ::testing::ElementsAre;
  EXPECT_THAT(mistakes_of("0F0,0B0,1F0\n1B0,2F0,2B0\n"),
              ElementsAre(StartsWith("s.csv:1:1: 3 stages on 2 ranks; allowed")));
  EXPECT_THAT(
      mistakes_of("0F0,0B0,3F0\n1F0,1B0,2F0,2B0,3B0\n"),
      ElementsAre(StartsWith("s.csv:2:17: 3B0 on rank 1; allowed: stages in a loop (stage s on rank s mod 2)")));
  EXPECT_THAT(mistakes_of("0F0,0B0,0F0\n1F0,1W0,1I0,1B0\n"),
              ElementsAre("s.csv:1:9: 0F0 stands there twice; allowed: once",
                          "s.csv:2:1: stage 1 has BIW of microbatch 0; allowed: B, or I and W"));
  EXPECT_THAT(mistakes_of("0F0,0F1,0B0\n1F0,1B0,1I1\n"),
              ElementsAre("s.csv:1:1: stage 0 has no backward of microbatch 1; allowed: B, or I and W",
                          "s.csv:2:1: no 1F1; allowed: each microbatch once forward",
                          "s.csv:2:1: stage 1 has I of microbatch 1; allowed: B, or I and W"));
  EXPECT_THAT(mistakes_of("0F0,0B0\n\n1F0,1B0\n"), ElementsAre("s.csv:2:1: rank 1 does nothing; allowed: a row of "
                                                               "actions for each rank"));
}

TEST(ScheduleFile, an_order_that_hangs_is_named_where_it_hangs) {
  EXPECT_THAT(
      mistakes_of("0F0,0B0\n1B0,1F0\n"),
      ::testing::ElementsAre("s.csv:1:5: rank 0 waits for ever before 0B0; allowed: an order in which all ranks "
                             "come to their ends",
                             "s.csv:2:1: rank 1 waits for ever before 1B0; allowed: an order in which all ranks "
                             "come to their ends"));
}

TEST(ScheduleFile, messages_must_be_whole) {
  using ::testing::ElementsAre;
  EXPECT_EQ(read("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n").mistakes, "");
  EXPECT_THAT(mistakes_of("0F0,0SEND_F0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0,1SEND_F0\n"),
              ElementsAre("s.csv:1:14: 0B0 without 0RECV_B0 before it; allowed: no messages at all, or each",
                          "s.csv:2:1: 1F0 without 1RECV_F0 before it; allowed: no messages at all, or each",
                          StartsWith("s.csv:2:27: 1SEND_F0 has no partner on another rank")));
  EXPECT_THAT(mistakes_of("0F0,,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
              ElementsAre(StartsWith("s.csv:1:5: an idle step beside messages")));
}

TEST(ScheduleFile, what_is_no_text_is_refused) {
  EXPECT_THAT(read("").mistakes, HasSubstr("nothing stands there"));
  EXPECT_THAT(read("\n \n").mistakes, HasSubstr("nothing stands there"));
  EXPECT_THAT(read("0F0\x01").mistakes, HasSubstr("the byte 0x01 at offset 3 is no text"));
  EXPECT_THAT(read("0F0\xff").mistakes, HasSubstr("the byte 0xff at offset 3 is no text"));
}

/// One cell with large numbers must not cost time or memory of that size.
TEST(ScheduleFile, large_numbers_end_in_a_few_messages) { EXPECT_LE(mistakes_of("4095F32767\n").size(), 50U); }

TEST(ScheduleFile, all_reference_lists_read) {
  const auto folder = reference_file("schedules");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data: schedules/";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() == "expected_metrics.csv") continue;
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    EXPECT_EQ(read(text.str()).mistakes, "") << entry.path();
  }
}

// ---- in a scenario ----

std::string scenario_with(const std::string& schedule) {
  return "model: llama3-8b\ncluster: {use: dgx-h100-ndr, gpus: 16}\ntraining: {sequence_length: 8192, global_batch: "
         "8}\n"
         "parallelism:\n  tp: 8\n  pp: 2\n  schedule: " +
         schedule + "\n";
}

TEST(ScheduleOfAScenario, rows_in_the_scenario_are_read_and_written) {
  // Four microbatches of 1F1B: global batch 8, data parallel 1, microbatch 2.
  std::string text =
      scenario_with("{actions: [\"0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\", \"1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\"]}");
  const Scenario s = testing::parse(text, {"training.microbatch=2"});
  EXPECT_EQ(s.plan.schedule.kind, ScheduleKind::file);
  const PipelineShape shape = pipeline_shape(s.plan, s.training);
  EXPECT_EQ(all_actions(s.plan.schedule, shape), all_actions({}, {.ranks = 2, .microbatches = 4}));
  EXPECT_EQ(to_yaml(testing::parse(to_yaml(s))), to_yaml(s));
}

TEST(ScheduleOfAScenario, mistakes_point_into_the_row) {
  const std::string text = scenario_with("{actions: [\"0F0,0B0\", \"1F0,1C0\"]}");
  EXPECT_THAT(testing::mistakes(text), StartsWith("s.yaml:7:40: parallelism.schedule.actions: found '1C0'"));
}

TEST(ScheduleOfAScenario, must_agree_with_the_plan) {
  EXPECT_THAT(
      testing::mistakes(scenario_with("{actions: [\"0F0,0B0\", \"1F0,1B0\"]}")),
      HasSubstr("microbatches is 8, but the schedule of parallelism.schedule.actions has 1 microbatches; allowed: "
                "1"));
  EXPECT_THAT(
      testing::mistakes(scenario_with("{file: no-such.csv}")),
      StartsWith("s.yaml:7:20: parallelism.schedule.file: 'no-such.csv' cannot be read: no such file; allowed"));
  EXPECT_THAT(testing::mistakes(scenario_with("{kind: file}")), HasSubstr("schedule file without a file; allowed"));
  EXPECT_THAT(testing::mistakes(scenario_with("{kind: 1f1b, actions: [\"0F0,0B0\", \"1F0,1B0\"]}")),
              HasSubstr("with schedule 1f1b; allowed: with kind file"));
  EXPECT_THAT(testing::mistakes(scenario_with("{actions: []}")),
              HasSubstr("found a list; allowed: a list of texts, one"));
}

TEST(ScheduleOfAScenario, kinds_have_their_usual_chunks_and_write_back) {
  for (const ScheduleKind kind : ruled_kinds()) {
    const std::string word(to_text(kind));
    const Scenario s = testing::parse(scenario_with("{kind: " + word + "}"));
    EXPECT_EQ(s.plan.schedule.virtual_stages, std::min<std::int64_t>(2, chunks_allowed(kind).most)) << word;
    EXPECT_EQ(to_yaml(testing::parse(to_yaml(s))), to_yaml(s));
  }
  const Scenario s = testing::parse(scenario_with("{kind: interleaved_1f1b, microbatch_group: 4}"));
  EXPECT_EQ(pipeline_shape(s.plan, s.training).group, 4);
  EXPECT_THAT(to_yaml(s), HasSubstr("microbatch_group: 4"));
}

}  // namespace
}  // namespace foretrain
