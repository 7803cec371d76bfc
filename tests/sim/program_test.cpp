// Does a program hold what was appended, and is misuse refused?
#include "sim/program.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

TEST(ProgramBuilder, keeps_an_event_only_where_somebody_waits) {
  ProgramBuilder b;
  const StreamId side = b.stream("side");
  const Event first = b.compute(main_stream, {.label = "a", .duration = picoseconds(5)});
  b.compute(main_stream, {.label = "b", .duration = picoseconds(7)});
  b.communicate(side, {.label = "c", .op = Collective::all_gather, .size = bytes(8), .after = {&first, 1}});
  const Program p = std::move(b).build();
  ASSERT_EQ(p.streams.size(), 2U);
  EXPECT_EQ(p.events, 1U);
  EXPECT_TRUE(p.streams[0].operations[0].sets.has_value());
  EXPECT_FALSE(p.streams[0].operations[1].sets.has_value());
  ASSERT_EQ(p.waits_of(p.streams[1].operations[0]).size(), 1U);
  EXPECT_EQ(p.waits_of(p.streams[1].operations[0])[0], *p.streams[0].operations[0].sets);
}

TEST(ProgramBuilder, needs_no_event_within_a_stream) {
  ProgramBuilder b;
  const Event first = b.compute(main_stream, {.label = "a", .duration = picoseconds(5)});
  b.compute(main_stream, {.label = "b", .duration = picoseconds(5), .after = {&first, 1}});
  EXPECT_EQ(std::move(b).build().events, 0U);
}

TEST(ProgramBuilder, refuses_misuse) {
  ProgramBuilder b;
  const Event future{42};
  EXPECT_THROW(b.compute(main_stream, {.label = "x", .duration = picoseconds(-1)}), std::invalid_argument);
  EXPECT_THROW(b.compute(main_stream, {.label = "x", .duration = {}, .after = {&future, 1}}), std::invalid_argument);
  EXPECT_THROW(b.compute(StreamId{9}, {.label = "x", .duration = {}}), std::invalid_argument);
  EXPECT_THROW(b.communicate(main_stream, {.label = "x", .size = bytes(-1)}), std::invalid_argument);
  b.communicate(main_stream, {.label = "x", .size = bytes(1), .slot = 3});
  EXPECT_THROW(b.communicate(b.stream("other"), {.label = "x", .size = bytes(1), .slot = 3}), std::invalid_argument);
}

Job one_rank_job() {
  Job job;
  ProgramBuilder b;
  b.communicate(main_stream, {.label = "x", .op = Collective::all_reduce, .size = bytes(1)});
  job.programs.push_back(std::move(b).build());
  job.communicators.push_back({{RankId{0}}, 0});
  job.ranks.push_back({0, {CommunicatorId{0}}});
  job.placement = {GpuId{0}};
  job.activities = {"compute"};
  job.dimensions = {{"tp", false}};
  return job;
}

TEST(Job, check_names_the_first_inconsistency) {
  EXPECT_EQ(one_rank_job().check(), "");
  Job job = one_rank_job();
  job.placement.clear();
  EXPECT_EQ(job.check(), "1 ranks, but 0 of them are placed on a GPU");
  job = one_rank_job();
  job.ranks[0].slots.clear();
  EXPECT_EQ(job.check(), "rank 0: its program calls 1 communicators, 0 are bound");
  job = one_rank_job();
  job.communicators[0].members = {RankId{7}};
  EXPECT_EQ(job.check(), "rank 0 is bound to communicator 0, of which it is no member");
  job = one_rank_job();
  job.dimensions.clear();
  EXPECT_EQ(job.check(), "communicator 0 has no dimension");
}

}  // namespace
}  // namespace foretrain
