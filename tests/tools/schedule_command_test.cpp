// `foretrain schedule`: the picture, the numbers, the files, and the text of every mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/run_foretrain.h"
#include "tests/tools/scratch.h"
#include "tools/output/schedule_picture.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Ran schedule(std::vector<std::string> args) {
  args.insert(args.begin(), "schedule");
  return foretrain_with(args);
}

std::string mistake(const std::vector<std::string>& args) {
  const Ran ran = schedule(args);
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  return ran.err;
}

std::string picture(const ScheduleSpec& spec, std::int64_t p, std::int64_t m, std::size_t width) {
  const PipelineShape shape = pipeline_shape(spec, p, m);
  return schedule_picture(play(all_actions(spec, shape), shape, {}), shape.chunks, width);
}

/// Three columns a unit of time; a backward is twice as long as a forward.
TEST(SchedulePicture, is_the_familiar_staircase) {
  EXPECT_EQ(picture({}, 2, 2, 80),
            "time 0 to 9\n"
            "0 |F0|F1|.....|B0   |..|B1   |\n"
            "1 ...|F0|B0   |F1|B1   |......\n");
}

TEST(SchedulePicture, splits_backward_and_names_chunks_and_blocks) {
  EXPECT_THAT(picture({.kind = ScheduleKind::zb_h1}, 1, 2, 80), HasSubstr("0 |F0|I0|W0|F1|I1|W1|\n"));
  EXPECT_THAT(picture({.kind = ScheduleKind::zbv, .virtual_stages = 2}, 1, 1, 80),
              HasSubstr("0 |F0a|F0b|I0b|W0b|I0a|W0a|\n"));
  EXPECT_THAT(picture({.kind = ScheduleKind::interleaved_1f1b_ep_overlap, .virtual_stages = 2}, 2, 4, 400),
              HasSubstr("|F3a&B0b "));
}

/// 27 columns and a last bar, 20 at a time behind "0 ".
TEST(SchedulePicture, goes_on_below_when_it_is_wide) {
  EXPECT_EQ(picture({}, 2, 2, 22),
            "time 0 to 6.333\n"
            "0 |F0|F1|.....|B0   |.\n"
            "1 ...|F0|B0   |F1|B1  \n"
            "time 6.667 to 9\n"
            "0 .|B1   |\n"
            "1  |......\n");
}

TEST(SchedulePicture, leaves_the_middle_of_a_long_one_out) {
  const std::string text = picture({}, 2, 400, 80);
  EXPECT_THAT(text, HasSubstr("are left out"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 8 * 3 + 1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U);
}

TEST(ScheduleCommand, tells_bubble_and_memory) {
  const Ran ran = schedule({"1f1b", "--pp", "4", "--microbatches", "1", "--draw"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("bubble 75.0 %"));  // three of four ranks idle
  EXPECT_THAT(ran.out, HasSubstr("1f1b: 4 ranks, 4 stages, 1 microbatches"));
  EXPECT_THAT(ran.out, HasSubstr("\n3 "));
}

/// 1F1B, F + B = 3: makespan 3 (m + p - 1), bubble (p-1)/(m+p-1); rank r holds p - r.
TEST(ScheduleCommand, json_has_the_numbers) {
  const Ran ran = schedule({"1f1b", "--pp", "4", "--microbatches", "8", "--json", "-"});
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["makespan"], 3 * (8 + 4 - 1));
  EXPECT_DOUBLE_EQ(json["bubble_fraction"], 3.0 / 11);
  ASSERT_EQ(json["by_rank"].size(), 4U);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(json["by_rank"][r]["peak"], 4 - r);
    EXPECT_EQ(json["by_rank"][r]["budget"], 4 - r);
    EXPECT_EQ(json["by_rank"][r]["stages"][0], r);
  }
}

TEST(ScheduleCommand, csv_reads_back) {
  const Scratch scratch;
  const std::string file = scratch / "s.csv";
  const Ran written =
      schedule({"dualpipev", "--pp", "2", "--microbatches", "6", "--csv", file, "--csv-format", "compute_comms"});
  EXPECT_EQ(written.status, 0);
  const Ran kind = schedule({"dualpipev", "--pp", "2", "--microbatches", "6", "--csv", "-"});
  const Ran back = schedule({file, "--csv", "-"});
  EXPECT_EQ(back.out, kind.out);
  EXPECT_THAT(kind.out, HasSubstr("OVERLAP_F_B"));
}

TEST(ScheduleCommand, takes_the_schedule_of_a_scenario) {
  const std::string file = std::string(FORETRAIN_SOURCE_DIR) + "/scenarios/llama3-405b.yaml";
  EXPECT_THAT(schedule({file}).out, StartsWith("Schedule  interleaved_1f1b: 16 ranks, 128 stages, 16 microbatches, 8 "
                                               "chunks a rank (loop), groups of 16"));
}

TEST(ScheduleCommand, times_and_latency_count) {
  // One rank, one microbatch: F + I + W; two ranks: F + F + B + B and a message each way.
  const auto makespan = [](const std::string& pp, const std::string& latency) {
    const Ran ran = schedule(
        {"1f1b", "--pp", pp, "--microbatches", "1", "--times", "2,3,4.5", "--latency", latency, "--json", "-"});
    return nlohmann::json::parse(ran.out)["makespan"].get<double>();
  };
  EXPECT_DOUBLE_EQ(makespan("1", "7"), 9.5);
  EXPECT_DOUBLE_EQ(makespan("2", "7"), 2 * 9.5 + 2 * 7);
}

TEST(ScheduleCommand, mistakes) {
  EXPECT_THAT(mistake({"1f1c", "--pp", "4", "--microbatches", "8"}),
              StartsWith("foretrain schedule: unknown schedule '1f1c', did you mean '1f1b'?; allowed: gpipe, 1f1b, "));
  EXPECT_EQ(mistake({"1f1b", "--pp", "4"}), "foretrain schedule: --microbatches is missing\n");
  EXPECT_EQ(mistake({"1f1b", "--pp", "0", "--microbatches", "8"}), "foretrain schedule: --pp 0: allowed: 1 to 4096\n");
  EXPECT_EQ(mistake({"dualpipe", "--pp", "3", "--microbatches", "7"}),
            "foretrain schedule: schedule dualpipe with pp 3; allowed: even numbers; nearest: 2 or 4\n"
            "foretrain schedule: 7 microbatches with schedule dualpipe on pp 3; allowed: an even number, 6 or more; "
            "nearest: 6 or 8\n");
  EXPECT_EQ(mistake({"gpipe", "--pp", "2", "--microbatches", "2", "--times", "1,2"}),
            "foretrain schedule: --times: allowed: three numbers with commas between, as 1,1,1\n");
  EXPECT_EQ(mistake({"gpipe", "--pp", "2", "--microbatches", "2", "--times", "1,-2,1"}),
            "foretrain schedule: --times: '-2' is no time; allowed: a number above 0, in any unit\n");
  EXPECT_EQ(mistake({"gpipe", "--pp", "2", "--microbatches", "2", "--block", "4"}),
            "foretrain schedule: --block 4: allowed: 0 to 3\n");
  EXPECT_THAT(mistake({"no-such.csv"}), HasSubstr("'no-such.csv' cannot be read: no such file; allowed"));
  EXPECT_EQ(mistake({"x.csv", "--pp", "4"}),
            "foretrain schedule: --pp with x.csv; allowed: with a schedule by its name\n");
  EXPECT_EQ(mistake({"1f1b", "--pp", "4096", "--microbatches", "32768"}),
            "foretrain schedule: up to 402653184 actions; allowed: 8388608\n");
}

TEST(ScheduleCommand, mistakes_in_a_csv_have_their_place) {
  const Scratch scratch;
  const std::string file = scratch / "bad.csv";
  std::ofstream(file) << "0F0,0Q0\n1F0,1B\n";
  const std::string text = mistake({file});
  EXPECT_THAT(text, StartsWith(file + ":1:5: found '0Q0'"));
  EXPECT_THAT(text, HasSubstr(file + ":2:5: found '1B'"));
}

}  // namespace
}  // namespace foretrain
