// Are shapes refused that a schedule cannot run, with what is allowed instead, and only those?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/workloads/schedules/specs.h"

namespace foretrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using K = ScheduleKind;

std::vector<std::string> mistakes(const ScheduleSpec& spec, std::int64_t p, std::optional<std::int64_t> m) {
  std::vector<std::string> messages;
  for (const PlanError& error : check_schedule(spec, p, m)) messages.push_back(error.message);
  return messages;
}

TEST(CheckSchedule, usual_group_is_pytorchs) {
  EXPECT_EQ(usual_group(4, 8), 4);
  EXPECT_EQ(usual_group(4, 10), 5);  // two rounds of five
  EXPECT_EQ(usual_group(4, 3), 3);
  EXPECT_EQ(usual_group(4, 9), 4);  // no two equal rounds
}

/// Megatron-Core: p <= N <= m, m mod N = 0 or >= p. With one group of all, any m.
TEST(CheckSchedule, groups) {
  const auto fits = [](std::int64_t p, std::int64_t m, std::int64_t group) {
    return legal({.kind = K::interleaved_1f1b, .virtual_stages = 2, .microbatch_group = group}, p, m);
  };
  for (std::int64_t p = 2; p <= 6; ++p) {
    for (std::int64_t m = 1; m <= 20; ++m) {
      for (std::int64_t group = 1; group <= m + 1; ++group) {
        const bool megatron = p <= group && group <= m && (m % group == 0 || m % group >= p);
        EXPECT_EQ(fits(p, m, group), megatron || group == m) << p << ' ' << m << ' ' << group;
      }
    }
  }
  EXPECT_THAT(
      mistakes({.kind = K::interleaved_zb, .virtual_stages = 2, .microbatch_group = 3}, 4, 8),
      ElementsAre("microbatch_group 3 for 8 microbatches on pp 4; allowed: 8, or 4 or more with none or at least "
                  "4 left for a last group; nearest: 4"));
  EXPECT_THAT(mistakes({.kind = K::interleaved_1f1b_ep_overlap, .virtual_stages = 2}, 4, 9),
              ElementsAre("9 microbatches do not make 2 equal groups, as interleaved_1f1b_ep_overlap on pp 4 needs; "
                          "allowed: multiples of 4, or another microbatch_group; nearest: 8 microbatches, or "
                          "microbatch_group 5"));
  EXPECT_THAT(mistakes({.kind = K::gpipe, .microbatch_group = 2}, 4, 8),
              ElementsAre("microbatch_group 2 with schedule gpipe; allowed: with interleaved_1f1b, "
                          "interleaved_1f1b_ep_overlap, interleaved_zb"));
}

TEST(CheckSchedule, chunks) {
  EXPECT_THAT(mistakes({.kind = K::zb_h1, .virtual_stages = 2}, 4, 8),
              ElementsAre("virtual_stages 2 with schedule zb_h1; allowed: 1, or more with interleaved_1f1b"));
  EXPECT_THAT(mistakes({.kind = K::zbv, .virtual_stages = 3}, 4, 8),
              ElementsAre("virtual_stages 3 with schedule zbv; allowed: 2"));
  EXPECT_THAT(mistakes({.kind = K::interleaved_1f1b_ep_overlap}, 4, 8),
              ElementsAre("virtual_stages 1 with schedule interleaved_1f1b_ep_overlap; allowed: 2 or more, or schedule "
                          "1f1b"));
  EXPECT_THAT(mistakes({.kind = K::interleaved_1f1b_ep_overlap}, 1, 8), IsEmpty());
}

TEST(CheckSchedule, dualpipe) {
  EXPECT_THAT(mistakes({.kind = K::dualpipe, .virtual_stages = 2}, 4, 8), IsEmpty());
  EXPECT_THAT(
      mistakes({.kind = K::dualpipe, .virtual_stages = 2}, 4, 9),
      ElementsAre("9 microbatches with schedule dualpipe on pp 4; allowed: an even number, 8 or more; nearest: 8 "
                  "or 10"));
  EXPECT_THAT(mistakes({.kind = K::dualpipe, .virtual_stages = 2}, 3, 6),
              ElementsAre("schedule dualpipe with pp 3; allowed: even numbers; nearest: 2 or 4"));
  EXPECT_THAT(mistakes({.kind = K::dualpipev, .virtual_stages = 2}, 3, 5),
              ElementsAre("5 microbatches with schedule dualpipev on pp 3; allowed: 6 or more; nearest: 6"));
  EXPECT_THAT(mistakes({.kind = K::dualpipev, .virtual_stages = 2}, 3, 7), IsEmpty());
}

/// Where the batch does not split, the number of microbatches is not known: no second message about it.
TEST(CheckSchedule, unknown_microbatches_break_no_rule) {
  for (const ScheduleKind kind : ruled_kinds())
    EXPECT_THAT(mistakes({.kind = kind, .virtual_stages = usual_chunks(kind)}, 4, std::nullopt), IsEmpty());
}

TEST(CheckSchedule, of_a_plan) {
  Plan plan{.pp = 2, .schedule = {.kind = K::interleaved_1f1b, .virtual_stages = 2}, .overlap = {.pp = false}};
  Training training{.sequence_length = 2048, .global_batch = 8};
  const auto first = [&] {
    const auto errors = check_schedule(plan, training);
    return errors.size() == 1 ? errors.front().message : std::string();
  };
  EXPECT_EQ(first(),
            "schedule interleaved_1f1b with pp 2 and without overlap of pp; allowed: overlap pp true, or pp 3 or "
            "more");
  plan.pp = 4;
  EXPECT_THAT(check_schedule(plan, training), IsEmpty());
  plan.schedule.kind = K::interleaved_1f1b_ep_overlap;
  training.recompute = Recompute::full;
  EXPECT_EQ(first(), "recompute full with schedule interleaved_1f1b_ep_overlap; allowed: none, selective");
}

}  // namespace
}  // namespace foretrain
