// Does a rank's pace stretch its computation, exactly, and does everybody else wait for it?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <stdexcept>

#include "sim/simulate.h"
#include "tests/support/small_fabric.h"

namespace foretrain {
namespace {

/// Every rank computes for `work`, then all reduce together.
Job work_then_reduce(Duration work, std::uint32_t ranks, std::vector<Pace> pace) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{.name = "dp"}};
  ProgramBuilder program;
  program.compute(main_stream, {.label = "F", .duration = work});
  program.communicate(main_stream, {.label = "ar", .op = Collective::all_reduce, .size = mebibytes(1), .slot = 0});
  job.programs.push_back(std::move(program).build());
  Communicator& all = job.communicators.emplace_back();
  for (std::uint32_t r = 0; r < ranks; ++r) {
    all.members.push_back(RankId{r});
    job.ranks.push_back({0, {CommunicatorId{0}}});
    job.placement.push_back(GpuId{r});
  }
  job.pace = std::move(pace);
  return job;
}

Measured play(const Job& job) { return simulate(test::build({}), Transport{}, job, {}); }

TEST(Pace, StragglerMakesTheStepLongerByItsOwnDelayAndOthersWaitThatLong) {
  const Duration work = microseconds(1000);
  const Measured usual = play(work_then_reduce(work, 4, {}));
  const Measured slow = play(work_then_reduce(work, 4, {usual_pace, usual_pace, paced(1.5), usual_pace}));
  const Duration late = microseconds(500);  // 1.5 is exact in binary
  EXPECT_EQ(slow.step, usual.step + late);
  EXPECT_EQ(slow.ranks[2].busy[0], work + late);
  EXPECT_EQ(slow.ranks[2].waiting[0], Duration{});
  for (const std::size_t other : {0U, 1U, 3U}) {
    EXPECT_EQ(slow.ranks[other].busy[0], work);
    EXPECT_EQ(slow.ranks[other].waiting[0], late);
  }
}

TEST(Pace, OfAllAtTheUsualIsNone) {
  const Duration work = picoseconds(123'456'789'123);
  EXPECT_EQ(play(work_then_reduce(work, 4, std::vector<Pace>(4, usual_pace))).step,
            play(work_then_reduce(work, 4, {})).step);
}

TEST(Pace, HasToFitTheRanks) {
  EXPECT_THROW(static_cast<void>(play(work_then_reduce(microseconds(1), 4, {usual_pace}))), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(paced(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(paced(4001)), std::invalid_argument);
}

RC_GTEST_PROP(Pace, IsWithinAMillionthOfWhatWasAskedAndNeverFasterAboveOne, ()) {
  const double factor = 1 + *rc::gen::inRange(0, 1'000'000) * 1e-5;
  const auto ps = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
  Job job;
  job.pace = {paced(factor)};
  const std::int64_t took = job.compute_ps(RankId{0}, ps);
  RC_ASSERT(took >= ps);
  RC_ASSERT(std::abs(static_cast<double>(took) - factor * static_cast<double>(ps)) <=
            1e-6 * static_cast<double>(ps) + 0.5);
}

}  // namespace
}  // namespace foretrain
