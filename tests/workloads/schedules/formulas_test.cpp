// Do the published formulas of bubble and memory come out of playing the schedules, for any shape and any times?
// Sources and limits of each formula: docs/schedules.md.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/workloads/schedules/specs.h"
#include "workloads/schedules/play.h"

namespace foretrain {
namespace {

std::int64_t in(std::int64_t least, std::int64_t most) { return *rc::gen::inRange<std::int64_t>(least, most + 1); }

/// Whole numbers, so that sums are exact.
PassTimes random_times() {
  PassTimes times;
  times.forward = static_cast<double>(in(1, 30));
  times.backward_input = static_cast<double>(in(1, 30));
  times.backward_weight = static_cast<double>(in(1, 30));
  return times;
}

/// A block that takes the longer of its two at least, and no longer than one after the other.
double random_block(const PassTimes& times) {
  const auto least = static_cast<std::int64_t>(std::max(times.forward, times.backward()));
  return static_cast<double>(in(least, static_cast<std::int64_t>(times.forward + times.backward())));
}

SchedulePlay played(const ScheduleSpec& spec, std::int64_t p, std::int64_t m, const PassTimes& times) {
  const PipelineShape shape = pipeline_shape(spec, p, m);
  return play(all_actions(spec, shape), shape, times);
}

/// Idle time of the rank that works least; without blocks all work the same.
double bubble(const SchedulePlay& played, double time) {
  double work = time;
  for (const PlayedRank& rank : played.ranks) work = std::min(work, rank.work);
  return time - work;
}
double bubble(const SchedulePlay& played) { return bubble(played, played.makespan()); }

double steps(std::int64_t n) { return static_cast<double>(n); }

RC_GTEST_PROP(BubbleFormula, gpipe_and_1f1b, ()) {
  const auto kind = *rc::gen::element(ScheduleKind::gpipe, ScheduleKind::one_f_one_b);
  const auto p = in(1, 10);
  const auto t = random_times();
  RC_ASSERT(bubble(played({.kind = kind}, p, in(1, 40), t)) == steps(p - 1) * (t.forward + t.backward()));
}

/// m >= p, in whole groups.
RC_GTEST_PROP(BubbleFormula, interleaved_in_groups_of_any_size, ()) {
  const auto p = in(2, 8);
  const auto group = in(p, 12);
  const ScheduleSpec spec{
      .kind = ScheduleKind::interleaved_1f1b, .virtual_stages = in(2, 4), .microbatch_group = group};
  const auto t = random_times();
  RC_ASSERT(bubble(played(spec, p, group * in(1, 4), t)) == steps(p - 1) * (t.forward + t.backward()));
}

/// The same for looped BFS; few microbatches cost more.
RC_GTEST_PROP(BubbleFormula, with_fewer_microbatches_than_ranks, ()) {
  const auto kind = *rc::gen::element(ScheduleKind::interleaved_1f1b, ScheduleKind::looped_bfs);
  const auto p = in(2, 8);
  const auto m = in(1, p);
  const ScheduleSpec spec{.kind = kind, .virtual_stages = in(2, 4)};
  const auto t = random_times();
  const auto times = steps(p - 1) + steps((spec.virtual_stages - 1) * (p - m));
  RC_ASSERT(bubble(played(spec, p, m, t)) == times * (t.forward + t.backward()));
}

RC_GTEST_PROP(BubbleFormula, expert_overlap_whatever_a_block_takes, ()) {
  const auto p = in(2, 8);
  const ScheduleSpec spec{.kind = ScheduleKind::interleaved_1f1b_ep_overlap, .virtual_stages = in(2, 4)};
  auto t = random_times();
  t.block = random_block(t);
  RC_ASSERT(bubble(played(spec, p, p * in(1, 4), t)) == steps(p - 1) * (t.forward + t.backward()));
}

RC_GTEST_PROP(BubbleFormula, zb_h1_and_interleaved_zero_bubble, ()) {
  const bool chunked = *rc::gen::arbitrary<bool>();
  const ScheduleSpec spec{.kind = chunked ? ScheduleKind::interleaved_zb : ScheduleKind::zb_h1,
                          .virtual_stages = chunked ? in(1, 4) : 1};
  const auto p = in(1, 8);
  const auto m = chunked ? p * in(1, 4) : in(p, 40);
  const auto t = random_times();
  const double filled = std::min({t.forward, t.backward_input, t.backward_weight});
  RC_ASSERT(bubble(played(spec, p, m, t)) == steps(p - 1) * (t.forward + t.backward_input - filled));
}

RC_GTEST_PROP(BubbleFormula, zb_h2, ()) {
  const auto p = in(1, 8);
  const auto t = random_times();
  const double filled = std::min({t.forward, t.backward_input, t.backward_weight});
  const auto it = played({.kind = ScheduleKind::zb_h2}, p, in(2 * p - 1, 40), t);
  RC_ASSERT(bubble(it) == steps(p - 1) * std::max(t.forward, t.forward + t.backward_input - 2 * filled));
  if (t.backward_weight > filled) return;
  RC_ASSERT(bubble(it, it.longest_span()) == steps(p - 1) * (t.forward + t.backward_input - 2 * t.backward_weight));
}

/// W <= F <= I.
RC_GTEST_PROP(BubbleFormula, zbv, ()) {
  const auto p = in(1, 8);
  PassTimes t;
  t.backward_weight = static_cast<double>(in(1, 30));
  t.forward = t.backward_weight + static_cast<double>(in(0, 10));
  t.backward_input = t.forward + static_cast<double>(in(0, 10));
  const double rest = t.backward_input - t.backward_weight;
  const auto it = played({.kind = ScheduleKind::zbv, .virtual_stages = 2}, p, in(2 * p - 1, 40), t);
  RC_ASSERT(bubble(it) == steps(p - 1) * std::max(t.backward_input, 2 * rest));
  RC_ASSERT(bubble(it, it.longest_span()) == 2 * steps(p - 1) * rest);
}

/// I <= F.
RC_GTEST_PROP(BubbleFormula, dualpipe_and_dualpipev, ()) {
  const bool folded = *rc::gen::arbitrary<bool>();
  const auto half = in(1, 4);
  const auto p = folded ? half : 2 * half;
  auto t = random_times();
  t.forward = t.backward_input + static_cast<double>(in(0, 10));
  t.block = random_block(t);
  const auto m = 2 * p + (folded ? in(0, 10) : 2 * in(0, 5));
  const ScheduleSpec spec{.kind = folded ? ScheduleKind::dualpipev : ScheduleKind::dualpipe, .virtual_stages = 2};
  const double a_rank = *t.block + t.forward - t.backward_weight - std::min(t.backward_input, t.backward_weight);
  RC_ASSERT(bubble(played(spec, p, m, t)) == steps(half - 1) * a_rank);
}

/// schedules.md: a message is exposed in every microbatch of 1F1B.
RC_GTEST_PROP(BubbleFormula, latency_in_1f1b, ()) {
  const auto p = in(2, 8);
  const auto m = p * in(1, 5);
  auto t = random_times();
  t.latency = static_cast<double>(in(0, 10));
  const double exposed = t.latency * steps(2 * (p - 1) * m / p + 2 * (p - 2));
  RC_ASSERT(bubble(played({}, p, m, t)) == steps(p - 1) * (t.forward + t.backward()) + exposed);
}

/// Once in interleaved 1F1B, and the less the larger the group; c <= F and c <= B.
RC_GTEST_PROP(BubbleFormula, latency_in_interleaved_1f1b, ()) {
  const auto p = in(2, 8);
  const auto group = in(p, 12);
  const ScheduleSpec spec{
      .kind = ScheduleKind::interleaved_1f1b, .virtual_stages = in(2, 4), .microbatch_group = group};
  auto t = random_times();
  t.latency = static_cast<double>(in(0, static_cast<std::int64_t>(std::min(t.forward, t.backward()))));
  const auto not_hidden = [&](double pass) { return std::max(0.0, steps(p) * t.latency - steps(group - p) * pass); };
  const double exposed = 2 * steps(p - 1) * t.latency +
                         steps(spec.virtual_stages - 1) * (not_hidden(t.forward) + not_hidden(t.backward()));
  RC_ASSERT(bubble(played(spec, p, group * in(1, 4), t)) == steps(p - 1) * (t.forward + t.backward()) + exposed);
}

/// With m >= 2p microbatches every rank comes to its budget.
RC_GTEST_PROP(ActivationBudget, is_used_to_the_full, ()) {
  ScheduleSpec spec{.kind = *rc::gen::elementOf(ruled_kinds())};
  const ChunkRange chunks = chunks_allowed(spec.kind);
  spec.virtual_stages = in(chunks.least, std::min<std::int64_t>(chunks.most, 4));
  const auto p = in(1, 8);
  const auto m = p * in(2, 5);
  RC_PRE(legal(spec, p, m));
  const auto it = played(spec, p, m, {});
  const PipelineShape shape = pipeline_shape(spec, p, m);
  for (std::int64_t r = 0; r < p; ++r)
    RC_ASSERT(it.ranks[static_cast<std::size_t>(r)].peak == activation_budget(spec, shape, r));
}

/// Narayanan 2021, section 2.2: (p-1)/m of the ideal time, (p-1)/(v m) with v chunks; of the step (p-1)/(m+p-1).
TEST(BubbleFormula, fractions_of_narayanan) {
  const auto part = [](const ScheduleSpec& spec, std::int64_t p, std::int64_t m) {
    return played(spec, p, m, {}).bubble_fraction();
  };
  EXPECT_DOUBLE_EQ(part({}, 8, 64), 7.0 / 71);
  EXPECT_DOUBLE_EQ(part({.kind = ScheduleKind::gpipe}, 8, 64), 7.0 / 71);
  EXPECT_DOUBLE_EQ(part({.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 4}, 8, 64), 7.0 / (4 * 64 + 7));
  EXPECT_DOUBLE_EQ(part({}, 4, 1), 0.75);  // one microbatch: three of four stages idle
}

/// DeepSeek-V3, Table 2, for F = I = W: DualPipe leaves (p/2 - 1)(F&B + B - 3W); here with F&B = F + B.
TEST(BubbleFormula, dualpipe_of_deepseek) {
  const auto it = played({.kind = ScheduleKind::dualpipe, .virtual_stages = 2}, 8, 20, {});
  EXPECT_EQ(bubble(it), (8 / 2 - 1) * (3 + 2 - 3 * 1));
}

}  // namespace
}  // namespace foretrain
