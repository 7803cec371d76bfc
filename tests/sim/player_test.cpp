// Does the player keep CUDA's and NCCL's rules, does time divide exactly, do bytes survive?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "sim/simulate.h"
#include "tests/support/small_fabric.h"

namespace foretrain {
namespace {

constexpr Duration ms(std::int64_t n) { return picoseconds(n * 1'000'000'000); }

/// A job of `ranks` ranks with one communicator of all of them, on slot 0, in dimension "tp".
Job job_of(std::vector<Program> programs) {
  Job job;
  job.activities = {"compute", "other"};
  job.dimensions = {{"tp", false}, {"pp", true}};
  job.memory_parts = {"parameters", "activations"};
  Communicator all;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    all.members.push_back(id_at<RankId>(r));
    job.ranks.push_back({static_cast<std::uint32_t>(r), {CommunicatorId{0}}});
    job.placement.push_back(id_at<GpuId>(r));
  }
  job.communicators.push_back(std::move(all));
  job.programs = std::move(programs);
  return job;
}

Measured play(const Job& job, const SimulateOptions& options = {}, test::SmallFabric shape = {}) {
  return simulate(test::build(shape), Transport{}, job, options);
}

Duration total(const RankAccount& a) {
  Duration sum = a.tail;
  for (const auto* parts : {&a.busy, &a.exposed, &a.waiting})
    for (Duration d : *parts) sum += d;
  return sum;
}

Program compute_then_gather(Duration work, Bytes size, Collective op = Collective::all_gather) {
  ProgramBuilder b;
  const StreamId tp = b.stream("tp");
  const Event done = b.compute(main_stream, {.label = "F", .duration = work});
  const Event gathered = b.communicate(tp, {.label = "ag", .op = op, .size = size, .after = {&done, 1}});
  b.compute(main_stream, {.label = "F", .duration = ms(1), .after = {&gathered, 1}});
  return std::move(b).build();
}

TEST(Player, operations_of_a_stream_run_in_order) {
  ProgramBuilder b;
  b.compute(main_stream, {.label = "a", .duration = ms(2)});
  b.compute(main_stream, {.label = "b", .duration = ms(3)});
  const Measured m = play(job_of({std::move(b).build()}), {.traced = {RankId{0}}});
  EXPECT_EQ(m.step, ms(5));
  ASSERT_EQ(m.traces[0].size(), 2U);
  EXPECT_EQ(m.traces[0][0].end, m.traces[0][1].start);
  EXPECT_EQ(m.ranks[0].busy[0], ms(5));
}

TEST(Player, streams_overlap_and_wait_only_for_events) {
  ProgramBuilder b;
  const StreamId side = b.stream("side");
  const Event a = b.compute(main_stream, {.label = "a", .duration = ms(2)});
  const Event c = b.compute(side, {.label = "c", .duration = ms(7), .after = {&a, 1}});
  b.compute(main_stream, {.label = "b", .duration = ms(3)});
  b.compute(main_stream, {.label = "d", .duration = ms(1), .after = {&c, 1}});
  EXPECT_EQ(play(job_of({std::move(b).build()})).step, ms(2 + 7 + 1));
}

TEST(Player, a_collective_starts_with_its_last_member_and_the_wait_is_split_there) {
  const Bytes size = mebibytes(64);
  const Job job = job_of({compute_then_gather(ms(2), size), compute_then_gather(ms(5), size)});
  const Measured m = play(job);
  const Duration call = m.step - ms(5) - ms(1);  // what is left is the collective itself
  EXPECT_GT(call, Duration{});
  EXPECT_EQ(m.ranks[0].waiting[0], ms(5) - ms(2));
  EXPECT_EQ(m.ranks[0].exposed[0], call);
  EXPECT_EQ(m.ranks[1].waiting[0], Duration{});
  EXPECT_EQ(m.ranks[1].exposed[0], call);
  EXPECT_EQ(m.communication[0].time, 2 * call);
  EXPECT_EQ(m.communication[0].idle_time, 2 * call);
  EXPECT_EQ(m.communication[0].calls, 2U);
  EXPECT_EQ(m.communication[0].bytes, 2.0 * static_cast<double>(size.count()));
}

TEST(Player, idle_network_fluid_is_the_closed_form_to_the_picosecond) {
  const Fabric fabric = test::build({});
  const auto router = make_router(Routing::spread, fabric, 1);
  std::vector<GpuId> group(8);
  for (std::size_t i = 0; i < group.size(); ++i) group[i] = id_at<GpuId>(i);
  for (Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                        Collective::broadcast, Collective::reduce, Collective::all_to_all})
    for (std::int64_t size : {1LL, 1000LL, 1LL << 20, (1LL << 28) + 7}) {
      const IdleCall idle = idle_call(fabric, Transport{}, *router, op, bytes(size), group, {});
      const Job job = job_of(std::vector<Program>(8, compute_then_gather(ms(2), bytes(size), op)));
      for (Fidelity fidelity : {Fidelity::fluid, Fidelity::analytic}) {
        const Measured m = simulate(fabric, Transport{}, job, {.fidelity = fidelity});
        EXPECT_EQ(m.step, ms(2) + idle.time + ms(1)) << to_text(op) << " of " << size;
      }
    }
}

TEST(Player, a_single_rank_group_and_an_empty_message_cost_no_bytes) {
  const Measured alone = play(job_of({compute_then_gather(ms(2), mebibytes(1))}));
  EXPECT_EQ(alone.step, ms(3));
  const Measured empty = play(job_of({compute_then_gather(ms(2), bytes(0)), compute_then_gather(ms(2), bytes(0))}));
  for (const LinkUse& l : empty.links) EXPECT_EQ(l.bytes, 0);
}

TEST(Player, two_rings_on_one_nic_take_twice_as_long) {
  // Ranks 0-1 and 2-3 of two nodes; a NIC each, but both pairs are placed on the same two GPUs' NICs in turn.
  ProgramBuilder b;
  b.communicate(main_stream, {.label = "x", .op = Collective::send_recv, .size = mebibytes(512)});
  const Program p = std::move(b).build();
  const auto step_with = [&](std::vector<GpuId> placement) {
    Job job = job_of(std::vector<Program>(4, p));
    job.communicators = {{{RankId{0}, RankId{1}}, 0}, {{RankId{2}, RankId{3}}, 0}};
    for (std::size_t r = 0; r < 4; ++r) job.ranks[r].slots = {id_at<CommunicatorId>(r / 2)};
    job.placement = std::move(placement);
    return play(job, {}, {.nodes = 2, .gpus = 2}).step;
  };
  const Duration apart = step_with({GpuId{0}, GpuId{2}, GpuId{1}, GpuId{3}});
  const Duration together = step_with({GpuId{0}, GpuId{2}, GpuId{0}, GpuId{2}});
  const auto latency = idle_call(test::build({.nodes = 2, .gpus = 2}), Transport{},
                                 *make_router(Routing::spread, test::build({.nodes = 2, .gpus = 2}), 1),
                                 Collective::send_recv, bytes(0), {GpuId{0}, GpuId{2}}, {})
                           .latency;
  EXPECT_NEAR((together - latency) / (apart - latency), 2.0, 1e-9);
}

TEST(Player, memory_peaks_where_the_running_sum_does) {
  ProgramBuilder b;
  b.memory({.label = "p", .change = bytes(100), .part = 0});
  b.compute(main_stream, {.label = "F", .duration = ms(2)});
  b.memory({.label = "a", .change = bytes(50), .part = 1});
  b.compute(main_stream, {.label = "F", .duration = ms(3)});
  b.memory({.label = "a", .change = bytes(-50), .part = 1});
  b.memory({.label = "a", .change = bytes(20), .part = 1});
  const Measured m = play(job_of({std::move(b).build()}));
  EXPECT_EQ(m.memory[0].peak, bytes(150));
  EXPECT_EQ(m.memory[0].parts[0], bytes(100));
  EXPECT_EQ(m.memory[0].parts[1], bytes(50));
  EXPECT_EQ(m.memory[0].at.since_start(), ms(2));
}

std::string deadlock_of(const Job& job) {
  try {
    play(job);
  } catch (const Deadlock& d) {
    return d.what();
  }
  return "no deadlock";
}

TEST(Player, says_who_waits_for_whom) {
  ProgramBuilder idle;
  idle.compute(main_stream, {.label = "F", .duration = ms(1)});
  EXPECT_EQ(deadlock_of(job_of({compute_then_gather(ms(1), bytes(64)), std::move(idle).build()})),
            "the job hangs: 1 of 2 ranks wait for ever:\n"
            "  rank 0, stream main, operation 1 (F): waits for event 1 of its own rank\n"
            "  rank 0, stream tp, operation 0 (ag): waits in all_gather of 64B on communicator 0 (tp), call 0; "
            "missing: rank 1");
}

TEST(Player, names_mismatched_collectives) {
  EXPECT_EQ(deadlock_of(job_of({compute_then_gather(ms(1), bytes(64)), compute_then_gather(ms(1), bytes(32))})),
            "the job hangs: on communicator 0 (tp), call 0, rank 1 calls all_gather of 32B where others call "
            "all_gather of 64B");
}

TEST(Player, crossed_sends_hang) {
  // 0 -> 1 and 1 -> 0 on two communicators, but each rank calls its own send first, from one stream.
  const auto program = [](std::uint16_t first, std::uint16_t second) {
    ProgramBuilder b;
    b.communicate(main_stream, {.label = "x", .op = Collective::send_recv, .size = bytes(8), .slot = first});
    b.communicate(main_stream, {.label = "x", .op = Collective::send_recv, .size = bytes(8), .slot = second});
    return std::move(b).build();
  };
  Job job = job_of({program(0, 1), program(1, 0)});
  job.communicators = {{{RankId{0}, RankId{1}}, 1}, {{RankId{1}, RankId{0}}, 1}};
  for (RankBinding& r : job.ranks) r.slots = {CommunicatorId{0}, CommunicatorId{1}};
  EXPECT_NE(deadlock_of(job).find("2 of 2 ranks wait for ever"), std::string::npos);
}

/// Random SPMD jobs on two nodes: ranks compute for random times and call random collectives on their column (all of
/// their node) or row (their twin in the other node), every rank in the same order.
struct RandomJob {
  Job job;
  test::SmallFabric shape{.nodes = 2, .gpus = 4};
};

RandomJob random_job() {
  RandomJob r;
  const std::size_t ranks = r.shape.nodes * r.shape.gpus;
  const auto steps = *rc::gen::inRange<std::size_t>(1, 12);
  struct Step {
    bool row;
    Collective op;
    std::int64_t size;
    bool wait;
  };
  std::vector<Step> plan;
  for (std::size_t i = 0; i < steps; ++i) {
    const bool row = *rc::gen::arbitrary<bool>();
    plan.push_back({row,
                    *rc::gen::element(Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                      Collective::all_to_all),
                    *rc::gen::inRange<std::int64_t>(0, 100'000'000), *rc::gen::arbitrary<bool>()});
  }
  std::vector<Program> programs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ProgramBuilder b;
    const std::array<StreamId, 2> streams = {b.stream("column"), b.stream("row")};
    for (const Step& s : plan) {
      const Event done = b.compute(main_stream, {.label = "F", .duration = microseconds(*rc::gen::inRange(0, 5000))});
      const Event end = b.communicate(streams[s.row ? 1 : 0], {.label = "c",
                                                               .op = s.op,
                                                               .size = bytes(s.size),
                                                               .slot = static_cast<std::uint16_t>(s.row ? 1 : 0),
                                                               .after = {&done, 1}});
      if (s.wait) b.compute(main_stream, {.label = "F", .duration = microseconds(10), .after = {&end, 1}});
    }
    programs.push_back(std::move(b).build());
  }
  r.job = job_of(std::move(programs));
  r.job.communicators.clear();
  for (std::size_t n = 0; n < r.shape.nodes; ++n) {
    Communicator column;
    for (std::size_t g = 0; g < r.shape.gpus; ++g) column.members.push_back(id_at<RankId>(n * r.shape.gpus + g));
    r.job.communicators.push_back(std::move(column));
  }
  for (std::size_t g = 0; g < r.shape.gpus; ++g)
    r.job.communicators.push_back({{id_at<RankId>(g), id_at<RankId>(r.shape.gpus + g)}, 1});
  for (std::size_t rank = 0; rank < ranks; ++rank)
    r.job.ranks[rank].slots = {id_at<CommunicatorId>(rank / r.shape.gpus),
                               id_at<CommunicatorId>(r.shape.nodes + rank % r.shape.gpus)};
  return r;
}

RC_GTEST_PROP(Player, every_ranks_account_adds_up_to_the_step, ()) {
  const RandomJob r = random_job();
  const Measured m = play(r.job, {}, r.shape);
  for (const RankAccount& a : m.ranks) RC_ASSERT(total(a) == m.step);
}

RC_GTEST_PROP(Player, bytes_that_enter_leave_and_no_link_is_above_capacity, ()) {
  const RandomJob r = random_job();
  const Fabric fabric = test::build(r.shape);
  const Measured m = simulate(fabric, Transport{}, r.job, {});
  std::vector<double> net(fabric.vertex_count());
  for (std::size_t l = 0; l < m.links.size(); ++l) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    net[link.to.index()] += m.links[l].bytes;
    net[link.from.index()] -= m.links[l].bytes;
    const double most = static_cast<double>(link.bandwidth.bytes_per_s()) * m.step.seconds();
    RC_ASSERT(m.links[l].bytes <= most * (1 + 1e-9));
    RC_ASSERT(m.links[l].saturated <= m.step);
  }
  // Switches and NICs keep nothing. NVLS is reduced in the switch, so the NVSwitch is left out.
  for (std::size_t v = 0; v < net.size(); ++v) {
    const VertexKind kind = fabric.vertex(id_at<VertexId>(v)).kind;
    if (kind == VertexKind::nic || kind == VertexKind::leaf) RC_ASSERT(std::abs(net[v]) <= 1e-6);
  }
}

RC_GTEST_PROP(Player, contention_only_ever_slows_a_call_and_play_is_repeatable, ()) {
  const RandomJob r = random_job();
  const Measured fluid = play(r.job, {}, r.shape);
  const Measured again = play(r.job, {}, r.shape);
  RC_ASSERT(fluid.step == again.step);
  for (std::size_t i = 0; i < fluid.communication.size(); ++i)
    RC_ASSERT(fluid.communication[i].time >= fluid.communication[i].idle_time);
}

RC_GTEST_PROP(Player, relabelling_ranks_along_a_symmetry_changes_nothing, ()) {
  RandomJob r = random_job();
  const Measured before = play(r.job, {}, r.shape);
  // Swap the two nodes: rank i's program and place go to its twin.
  const std::size_t half = r.shape.gpus;
  for (std::size_t i = 0; i < half; ++i) {
    std::swap(r.job.ranks[i].program, r.job.ranks[half + i].program);
  }
  const Measured after = play(r.job, {}, r.shape);
  RC_ASSERT(before.step == after.step);
  for (std::size_t i = 0; i < half; ++i) {
    RC_ASSERT(before.ranks[i].busy == after.ranks[half + i].busy);
    RC_ASSERT(before.ranks[i].exposed == after.ranks[half + i].exposed);
    RC_ASSERT(before.ranks[i].tail == after.ranks[half + i].tail);
  }
}

}  // namespace
}  // namespace foretrain
