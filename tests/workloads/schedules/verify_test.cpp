// Are all schedules complete, free of deadlock and within their activation budgets, and does `verify` see when not?
#include "workloads/schedules/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/workloads/schedules/specs.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;

void expect_sound(const ScheduleSpec& spec, std::int64_t p, std::int64_t m) {
  if (!legal(spec, p, m)) return;
  EXPECT_EQ(verify(spec, pipeline_shape(spec, p, m)), "")
      << to_text(spec.kind) << " p " << p << " m " << m << " v " << spec.virtual_stages << " group "
      << spec.microbatch_group.value_or(0);
}

TEST(ScheduleVerify, all_small_shapes_are_sound) {
  for (const ScheduleKind kind : ruled_kinds()) {
    const ChunkRange chunks = chunks_allowed(kind);
    for (std::int64_t v = chunks.least; v <= std::min<std::int64_t>(chunks.most, 3); ++v) {
      for (std::int64_t p = 1; p <= 6; ++p) {
        for (std::int64_t m = 1; m <= 16; ++m) {
          expect_sound({.kind = kind, .virtual_stages = v}, p, m);
          for (std::int64_t n = 1; n <= m; ++n)
            expect_sound({.kind = kind, .virtual_stages = v, .microbatch_group = n}, p, m);
        }
      }
    }
  }
}

RC_GTEST_PROP(ScheduleVerifyProperties, legal_shapes_are_sound, ()) {
  const ScheduleCase it = random_case();
  RC_ASSERT(verify(it.spec, it.shape) == "");
}

// Messages go both ways: whoever an action is sent to has it from there.
RC_GTEST_PROP(ScheduleVerifyProperties, neighbours_agree, ()) {
  const ScheduleCase it = random_case();
  for (std::int64_t rank = 0; rank < it.shape.ranks; ++rank) {
    for (const Action& a : actions(it.spec, it.shape, rank)) {
      RC_ASSERT((holder_of(it.shape, stage_of(it.shape, rank, a.chunk), a.microbatch) == Holder{rank, a.chunk}));
      const auto receiver = receiver_of(it.shape, rank, a);
      if (!receiver) continue;
      Action next = a;
      next.chunk = receiver->chunk;
      RC_ASSERT((sender_to(it.shape, receiver->rank, next) == Holder{rank, a.chunk}));
    }
  }
}

/// Any one action left out, doubled, or moved to the front of a list of 1F1B breaks it.
RC_GTEST_PROP(ScheduleVerifyProperties, spoilt_lists_are_seen, ()) {
  const PipelineShape shape = pipeline_shape({}, *rc::gen::inRange<std::int64_t>(2, 6), 8);
  ActionLists lists = all_actions({}, shape);
  auto& list = lists[*rc::gen::inRange<std::size_t>(0, lists.size())];
  const auto at = *rc::gen::inRange<std::size_t>(0, list.size());
  const Action chosen = list[at];
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      list.push_back(chosen);
      break;
    default:
      RC_PRE(chosen.pass == Pass::backward);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      list.insert(list.begin(), chosen);
  }
  RC_ASSERT(verify(lists, shape) != "");
}

const PipelineShape two_ranks{.ranks = 2, .chunks = 1, .microbatches = 1};
const Action forward{Pass::forward, 0, 0};
const Action backward{Pass::backward, 0, 0};
const Action input{Pass::backward_input, 0, 0};
const Action weight{Pass::backward_weight, 0, 0};

TEST(ScheduleVerify, says_what_is_wrong) {
  EXPECT_EQ(verify({{forward, backward}, {forward, input, weight}}, two_ranks), "");
  EXPECT_EQ(verify({{forward, backward}}, two_ranks), "1 lists for 2 ranks");
  EXPECT_EQ(verify({{forward, backward}, {forward}}, two_ranks),
            "stage 1 has 0 backwards instead of one of microbatch 0");
  EXPECT_EQ(verify({{forward, backward}, {forward, input}}, two_ranks),
            "stage 1 has 0 weight gradients instead of one of microbatch 0");
  EXPECT_EQ(verify({{forward, backward}, {forward, backward, weight}}, two_ranks),
            "stage 1 has 1 weight gradients beside a backward instead of one of microbatch 0");
  EXPECT_EQ(verify({{forward, backward}, {backward, forward}}, two_ranks),
            "rank 0 waits for ever before backward of microbatch 0 on chunk 0");
  EXPECT_EQ(verify({{forward, backward}, {forward, weight, input}}, two_ranks),
            "rank 0 waits for ever before backward of microbatch 0 on chunk 0");
  EXPECT_THAT(verify({{forward, backward}, {forward, {Pass::backward, 1, 0}}}, two_ranks),
              HasSubstr("but there are 1 chunks and 1 microbatches"));
  EXPECT_THAT(verify({{forward, {Pass::backward, 0, 0, true}}, {forward, backward}}, two_ranks),
              HasSubstr("begins an overlapped block"));
}

/// Two of one microbatch cannot overlap: the backward waits for the forward.
TEST(ScheduleVerify, sees_a_block_that_waits_for_itself) {
  const Action overlapped{Pass::forward, 0, 0, true};
  EXPECT_EQ(verify({{forward, backward}, {overlapped, backward}}, two_ranks),
            "rank 0 waits for ever before backward of microbatch 0 on chunk 0");
}

/// With groups smaller than p, all but the last of them, the warm-up waits for itself (schedules.md, section 2).
TEST(ScheduleVerify, small_groups_deadlock) {
  const ScheduleSpec spec{.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 2, .microbatch_group = 2};
  EXPECT_FALSE(legal(spec, 4, 8));
  EXPECT_THAT(verify(spec, pipeline_shape(spec, 4, 8)), HasSubstr("waits for ever"));
}

TEST(ScheduleVerify, a_microbatch_on_the_wrong_side_of_dualpipe_is_seen) {
  const ScheduleSpec spec{.kind = ScheduleKind::dualpipe, .virtual_stages = 2};
  const PipelineShape shape = pipeline_shape(spec, 2, 4);
  ActionLists lists = all_actions(spec, shape);
  lists[0][0].chunk = 1 - lists[0][0].chunk;
  EXPECT_THAT(verify(lists, shape), HasSubstr("which is for chunk"));
}

}  // namespace
}  // namespace foretrain
