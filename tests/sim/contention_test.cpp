// Does communication slow what a rank computes beside it, by the closed form, and nothing else?
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "sim/simulate.h"
#include "tests/support/measured_difference.h"
#include "tests/support/small_fabric.h"

namespace foretrain {
namespace {

constexpr double lost = 0.5;  // exact in binary

Duration part_of(Duration d, int parts) { return picoseconds(d.ps() / parts); }

/// Two ranks that run the same program; slot s is a communicator of both.
Job pair_of(Program program) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{.name = "dp"}};
  job.memory_parts = {"activations"};
  const std::uint16_t slots = program.slots;
  job.programs.push_back(std::move(program));
  for (std::uint32_t r = 0; r < 2; ++r) {
    job.ranks.push_back({0, {}});
    job.placement.push_back(GpuId{r});
  }
  for (std::uint32_t s = 0; s < slots; ++s) {
    job.communicators.push_back({.members = {RankId{0}, RankId{1}}});
    for (RankBinding& rank : job.ranks) rank.slots.push_back(CommunicatorId{s});
  }
  return job;
}

/// Nothing shares: a call takes what it takes alone.
Measured play(const Job& job) {
  return simulate(test::build({}), Transport{}, job, {.fidelity = Fidelity::analytic, .traced = {RankId{0}}});
}

Duration gather_time(Bytes size) {
  const Fabric fabric = test::build({});
  return idle_call(fabric, Transport{}, *make_router(Routing::spread, fabric, 1), Collective::all_gather, size,
                   {GpuId{0}, GpuId{1}}, {})
      .time;
}

/// `calls` gathers from the start, each on a stream of its own, beside computation of `work` in `pieces`.
Job beside(Duration work, int pieces, Bytes size, std::uint16_t calls, double contention) {
  ProgramBuilder b;
  b.set_contention(rate_share(contention));
  for (std::uint16_t c = 0; c < calls; ++c) {
    const StreamId stream = b.stream(fmt::format("side {}", c));
    b.contend(stream);
    b.communicate(stream, {.label = "ag", .op = Collective::all_gather, .size = size, .slot = c});
  }
  for (int i = 0; i < pieces; ++i) b.compute(main_stream, {.label = "F", .duration = part_of(work, pieces)});
  return pair_of(std::move(b).build());
}

constexpr Bytes message = mebibytes(64);

TEST(Contention, ComputationThatOutlastsACallTakesPartOfItLonger) {
  const Duration call = gather_time(message), work = 4 * call;
  for (const int pieces : {1, 4, 8}) {
    const Measured m = play(beside(work, pieces, message, 1, lost));
    EXPECT_NEAR((m.step - (work + part_of(call, 2))).seconds(), 0, 2e-12 * pieces) << pieces;
    EXPECT_NEAR((m.ranks[0].slowed - part_of(call, 2)).seconds(), 0, 2e-12 * pieces);
    EXPECT_EQ(m.ranks[0].busy[0], m.step);
  }
}

TEST(Contention, ComputationThatACallOutlastsIsSlowAllTheTime) {
  const Duration call = gather_time(message);
  const Duration work = part_of(call, 4);
  const Measured m = play(beside(work, 1, message, 1, lost));
  EXPECT_EQ(m.step, call);
  EXPECT_EQ(m.ranks[0].busy[0], 2 * work);  // work / (1 - 1/2)
  EXPECT_EQ(m.ranks[0].slowed, work);
}

TEST(Contention, SeveralCallsAtOnceSlowNoMoreThanOne) {
  const Duration call = gather_time(message);
  EXPECT_EQ(play(beside(4 * call, 1, message, 3, lost)).step, play(beside(4 * call, 1, message, 1, lost)).step);
}

TEST(Contention, IsOffByDefaultAndForStreamsThatDoNotContend) {
  const Duration call = gather_time(message);
  const Measured m = play(beside(4 * call, 2, message, 1, 0));
  EXPECT_EQ(m.step, 4 * call);
  EXPECT_EQ(m.ranks[0].slowed, Duration{});
  Job job = beside(4 * call, 2, message, 1, lost);
  for (Stream& s : job.programs[0].streams) s.contends = false;
  EXPECT_EQ(test::difference(play(job), m), "");
}

/// The call waits for its other member, which computes first: until then nothing is in flight.
TEST(Contention, BeginsWhenTheLastMemberArrives) {
  const Duration call = gather_time(message);
  const Duration late = 2 * call, work = 6 * call;
  Job job = beside(work, 1, message, 1, lost);
  ProgramBuilder b;
  const Event first = b.compute(main_stream, {.label = "F", .duration = late});
  b.communicate(b.stream("side 0"),
                {.label = "ag", .op = Collective::all_gather, .size = message, .after = {&first, 1}});
  job.programs.push_back(std::move(b).build());
  job.ranks[1].program = 1;
  const Measured m = play(job);
  EXPECT_NEAR((m.step - (work + part_of(call, 2))).seconds(), 0, 2e-12);
  const TracedOperation& traced =
      *std::find_if(m.traces[0].begin(), m.traces[0].end(), [](const TracedOperation& t) { return t.stream == 0; });
  EXPECT_EQ(traced.end - traced.start, m.step);
  EXPECT_EQ(m.ranks[1].slowed, Duration{});  // its program has no contention
}

TEST(Contention, SharesAreBelowOne) {
  EXPECT_THROW(static_cast<void>(rate_share(1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(rate_share(-0.1)), std::invalid_argument);
  EXPECT_EQ(rate_share(0.5), whole_rate / 2);
}

// ---- any program ----

/// Computations one after another on the main stream, and calls one after another beside it, each behind a computation;
/// at the end the main stream waits for all.
struct Drawn {
  std::vector<std::int64_t> work;  ///< ps
  struct Call {
    std::size_t after = 0;  ///< computations that are over before it
    Bytes size;
  };
  std::vector<Call> calls;
};

Drawn drawn() {
  Drawn d;
  const auto some = *rc::gen::inRange<std::size_t>(1, 8);
  for (std::size_t i = 0; i < some; ++i) d.work.push_back(*rc::gen::inRange<std::int64_t>(1, 900'000'000));
  const auto calls = *rc::gen::inRange<std::size_t>(0, 6);
  for (std::size_t i = 0; i < calls; ++i)
    d.calls.push_back(
        {*rc::gen::inRange<std::size_t>(0, some + 1), bytes(*rc::gen::inRange<std::int64_t>(1, 1 << 27))});
  return d;
}

/// `through`: each call waits for what it is behind through a third stream.
Job job_of(const Drawn& d, double contention, bool through) {
  ProgramBuilder b;
  b.set_contention(rate_share(contention));
  std::vector<Event> ends;
  for (const std::int64_t work : d.work) {
    ends.push_back(b.compute(main_stream, {.label = "F", .duration = picoseconds(work)}));
    b.memory({.label = "a", .change = bytes(1), .part = 0});
  }
  const StreamId side = b.stream("side");
  b.contend(side);
  std::vector<Event> done;
  for (const Drawn::Call& call : d.calls) {
    std::vector<Event> after;
    if (call.after > 0) after.push_back(ends[call.after - 1]);
    if (through) after = {b.compute(b.stream("between"), {.label = "x", .duration = {}, .after = after})};
    done.push_back(
        b.communicate(side, {.label = "ag", .op = Collective::all_gather, .size = call.size, .after = after}));
  }
  b.compute(main_stream, {.label = "end", .duration = {}, .after = done});
  return pair_of(std::move(b).build());
}

/// The same step by step, in real numbers: from instant to instant at which a computation or a call ends.
double oracle(const Drawn& d, double contention) {
  double now = 0;
  std::size_t computed = 0, called = 0;
  double work = static_cast<double>(d.work.front()), transfer = -1;  // left; a call that has not begun: -1
  while (computed < d.work.size() || called < d.calls.size()) {
    if (transfer < 0 && called < d.calls.size() && d.calls[called].after <= computed)
      transfer = static_cast<double>(gather_time(d.calls[called].size).ps());
    const double rate = transfer >= 0 ? 1 - contention : 1;
    const double to_computed = computed < d.work.size() ? work / rate : INFINITY;
    const double step = transfer >= 0 ? std::min(transfer, to_computed) : to_computed;
    now += step;
    const bool call_ends = transfer >= 0 && transfer <= to_computed, compute_ends = to_computed <= step;
    work -= step * rate;
    if (transfer >= 0) transfer -= step;
    if (call_ends) {
      ++called;
      transfer = -1;
    }
    if (compute_ends && ++computed < d.work.size()) work = static_cast<double>(d.work[computed]);
  }
  return now;
}

RC_GTEST_PROP(Contention, AnyProgramTakesWhatItsStretchesAddUpTo, ()) {
  const Drawn d = drawn();
  const double contention = *rc::gen::elementOf(std::vector<double>{0, 0.25, 0.57, 0.9});
  const Measured m = play(job_of(d, contention, false));
  // Each end is rounded up to a picosecond, and a share to a millionth.
  const double exact = oracle(d, rate_share(contention) / static_cast<double>(whole_rate));
  RC_ASSERT(std::abs(static_cast<double>(m.step.ps()) - exact) <= 2.0 * static_cast<double>(d.work.size() + 1));
  RC_ASSERT(test::difference(m, play(job_of(d, contention, false))).empty());
  const Measured through = play(job_of(d, contention, true));
  RC_ASSERT(through.step == m.step);
  RC_ASSERT(through.ranks[0].slowed == m.ranks[0].slowed);
}

RC_GTEST_PROP(Contention, MoreOfItNeverMakesAStepShorterNorMovesBytesOrMemory, ()) {
  const Drawn d = drawn();
  const Measured none = play(job_of(d, 0, false));
  Measured before = none;
  for (const double contention : {0.25, 0.5, 0.75}) {
    Measured m = play(job_of(d, contention, false));
    RC_ASSERT(m.step >= before.step);
    RC_ASSERT(m.ranks[0].slowed == m.ranks[0].busy[0] - none.ranks[0].busy[0]);
    RC_ASSERT(m.memory[0].peak == none.memory[0].peak);
    for (std::size_t l = 0; l < m.links.size(); ++l) RC_ASSERT(m.links[l].bytes == none.links[l].bytes);
    before = std::move(m);
  }
}

}  // namespace
}  // namespace foretrain
