// Is what is played once for many the same, to the last bit, as if each were played by itself?
#include "sim/fold.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/player.h"
#include "sim/quotient.h"
#include "sim/simulate.h"
#include "tests/support/any_of.h"
#include "tests/support/measured_difference.h"
#include "tests/support/small_fabric.h"
#include "tests/topology/shapes.h"
#include "topology/faults.h"

namespace foretrain {
namespace {

// ---- jobs ---------------------------------------------------------------------------------------------------------

/// Ranks on a grid of three axes, as training lays them: tensor groups, pipelines and data-parallel groups.
struct Grid {
  std::size_t tp = 1, pp = 1, dp = 1;
  bool pipelines_outermost = false;
  [[nodiscard]] std::size_t ranks() const { return tp * pp * dp; }
  [[nodiscard]] RankId at(std::size_t t, std::size_t p, std::size_t d) const {
    return id_at<RankId>(t + tp * (pipelines_outermost ? d + dp * p : p + pp * d));
  }
};

enum GridSlot : std::uint16_t { tensor, data, from_before, to_next, everybody, grid_slots };

/// What a stage does for each microbatch and at the end; the same on all stages but for the durations.
struct GridSteps {
  std::size_t microbatches = 1;
  Collective tensor_op = Collective::all_reduce, data_op = Collective::all_reduce;
  std::int64_t tensor_bytes = 0, data_bytes = 0, pipeline_bytes = 0;
  bool data_every_time = false;  ///< after every microbatch, beside the next
  bool wait_for_data = false;
  bool barrier = false;
  std::vector<Duration> work;  ///< by stage
};

Program stage_program(const Grid& grid, const GridSteps& steps, std::size_t stage) {
  ProgramBuilder b;
  const StreamId tensor_stream = b.stream("tensor");
  const StreamId data_stream = b.stream("data");
  const StreamId in = b.stream("in");
  const StreamId out = b.stream("out");
  b.memory({.label = "weights", .change = bytes(1000)});
  std::vector<Event> ready;
  const auto exchange = [&](StreamId on, GridSlot slot, Collective op, std::int64_t size,
                            std::span<const Event> after) {
    return b.communicate(on, {.label = "call", .op = op, .size = bytes(size), .slot = slot, .after = after});
  };
  for (std::size_t m = 0; m < steps.microbatches; ++m) {
    std::vector<Event> after = ready;
    if (stage > 0) after.push_back(exchange(in, from_before, Collective::send_recv, steps.pipeline_bytes, {}));
    b.memory({.label = "activation", .change = bytes(100 + static_cast<std::int64_t>(m))});
    Event done = b.compute(main_stream, {.label = "F", .duration = steps.work[stage], .after = after});
    const Event reduced = exchange(tensor_stream, tensor, steps.tensor_op, steps.tensor_bytes, {&done, 1});
    done = b.compute(main_stream, {.label = "G", .duration = steps.work[stage], .after = {&reduced, 1}});
    ready.clear();
    if (stage + 1 < grid.pp) exchange(out, to_next, Collective::send_recv, steps.pipeline_bytes, {&done, 1});
    if (steps.data_every_time || m + 1 == steps.microbatches) {
      const Event summed = exchange(data_stream, data, steps.data_op, steps.data_bytes, {&done, 1});
      if (steps.wait_for_data) ready.push_back(summed);
    }
  }
  if (steps.barrier) exchange(main_stream, everybody, Collective::all_reduce, 4, ready);
  return std::move(b).build();
}

CommunicatorId add_group(Job& job, std::vector<RankId> members, std::uint8_t dimension) {
  job.communicators.push_back({std::move(members), dimension});
  return id_at<CommunicatorId>(job.communicators.size() - 1);
}

Job grid_job(const Grid& grid, const GridSteps& steps) {
  Job job;
  job.activities = {"compute"};
  job.memory_parts = {"all"};
  job.dimensions = {{"tp", false}, {"dp", false}, {"pp", true}, {"other", true}};
  for (std::size_t p = 0; p < grid.pp; ++p) job.programs.push_back(stage_program(grid, steps, p));
  job.ranks.resize(grid.ranks());
  for (std::size_t r = 0; r < grid.ranks(); ++r) job.placement.push_back(id_at<GpuId>(r));
  for (std::size_t t = 0; t < grid.tp; ++t)
    for (std::size_t p = 0; p < grid.pp; ++p)
      for (std::size_t d = 0; d < grid.dp; ++d) {
        const RankId here = grid.at(t, p, d);
        job.ranks[here.index()] = {static_cast<std::uint32_t>(p), std::vector<CommunicatorId>(grid_slots)};
      }
  const auto bind = [&](RankId r, GridSlot slot, CommunicatorId id) { job.ranks[r.index()].slots[slot] = id; };
  std::vector<RankId> all;
  for (std::size_t p = 0; p < grid.pp; ++p) {
    for (std::size_t d = 0; d < grid.dp; ++d) {
      std::vector<RankId> members;
      for (std::size_t t = 0; t < grid.tp; ++t) members.push_back(grid.at(t, p, d));
      const CommunicatorId id = add_group(job, members, 0);
      for (const RankId r : members) bind(r, tensor, id);
      all.insert(all.end(), members.begin(), members.end());
    }
    for (std::size_t t = 0; t < grid.tp; ++t) {
      std::vector<RankId> members;
      for (std::size_t d = 0; d < grid.dp; ++d) members.push_back(grid.at(t, p, d));
      const CommunicatorId id = add_group(job, members, 1);
      for (const RankId r : members) bind(r, data, id);
    }
  }
  for (std::size_t t = 0; t < grid.tp; ++t)
    for (std::size_t d = 0; d < grid.dp; ++d) {
      for (std::size_t p = 0; p + 1 < grid.pp; ++p) {
        const CommunicatorId id = add_group(job, {grid.at(t, p, d), grid.at(t, p + 1, d)}, 2);
        bind(grid.at(t, p, d), to_next, id);
        bind(grid.at(t, p + 1, d), from_before, id);
      }
      const RankId first = grid.at(t, 0, d);
      const RankId last = grid.at(t, grid.pp - 1, d);
      bind(first, from_before, add_group(job, {first}, 3));  // never called
      bind(last, to_next, add_group(job, {last}, 3));
    }
  const CommunicatorId world = add_group(job, all, 3);
  for (const RankId r : all) bind(r, everybody, world);
  return job;
}

GridSteps random_steps(std::size_t stages) {
  GridSteps s;
  s.microbatches = *rc::gen::inRange<std::size_t>(1, 5);
  s.tensor_op = *rc::gen::element(Collective::all_reduce, Collective::all_to_all, Collective::all_gather);
  s.data_op = *rc::gen::element(Collective::all_reduce, Collective::reduce_scatter, Collective::broadcast);
  s.tensor_bytes = any_of<std::int64_t>({0, 4096, 30'000'000, 268'435'456});
  s.data_bytes = any_of<std::int64_t>({1000, 50'000'000, 400'000'000});
  s.pipeline_bytes = any_of<std::int64_t>({100, 33'554'432, 100'000'000});
  s.data_every_time = *rc::gen::arbitrary<bool>();
  s.wait_for_data = *rc::gen::arbitrary<bool>();
  s.barrier = *rc::gen::arbitrary<bool>();
  const Duration usual = microseconds(any_of({10, 700, 5000}));
  for (std::size_t p = 0; p < stages; ++p) s.work.push_back(usual + microseconds(any_of({0, 0, 0, 3})));
  return s;
}

Fabric random_fabric() {
  const auto builder = *rc::gen::inRange<std::size_t>(0, std::size(all_shapes) + 4);
  if (builder < std::size(all_shapes) && all_shapes[builder] != Shape::two_planes)
    return build_shape(all_shapes[builder]);
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 9);
  return test::build({.nodes = nodes, .gpus = *rc::gen::inRange<std::uint32_t>(1, 5)});
}

/// Some links slower than their like.
Fabric with_slow_links(Fabric fabric) {
  if (*rc::gen::inRange(0, 3) > 0) return fabric;
  std::vector<double> remaining(fabric.link_count(), 1);
  const auto slow = *rc::gen::inRange(1, 4);
  for (int i = 0; i < slow; ++i)
    remaining[*rc::gen::inRange<std::size_t>(0, fabric.link_count())] = any_of({0.5, 0.9, 0.01});
  return with_faults(fabric, remaining);
}

Grid random_grid(std::size_t gpus) {
  Grid g;
  g.tp = std::min(gpus, *rc::gen::inRange<std::size_t>(1, 9));
  g.pp = std::min(gpus / g.tp, *rc::gen::inRange<std::size_t>(1, 5));
  g.dp = std::min(gpus / (g.tp * g.pp), *rc::gen::inRange<std::size_t>(1, 17));
  g.pipelines_outermost = *rc::gen::arbitrary<bool>();
  return g;
}

std::vector<Pace> random_paces(std::size_t ranks) {
  std::vector<Pace> pace;
  if (*rc::gen::inRange(0, 3) > 0) return pace;
  pace.assign(ranks, usual_pace);
  const auto slow = *rc::gen::inRange(1, 4);
  for (int i = 0; i < slow; ++i) pace[*rc::gen::inRange<std::size_t>(0, ranks)] = paced(any_of({1.3, 1.3, 2.0}));
  return pace;
}

/// Computation slowed by some streams' calls, and dimensions whose calls take longer, over fewer NICs.
void let_contend(Job& job) {
  for (Program& program : job.programs) {
    program.contention = rate_share(any_of({0.0, 0.57}));
    for (Stream& stream : program.streams) stream.contends = *rc::gen::arbitrary<bool>();
  }
  if (*rc::gen::inRange(0, 3) > 0) return;
  const double times[] = {any_of({1.0, 1.7}), any_of({1.0, 0.6}), 1, 1};
  const auto channels = *rc::gen::inRange<std::uint32_t>(0, 3);
  for (Communicator& c : job.communicators) {
    c.time_factor = times[c.dimension];
    c.channels = c.dimension == 1 ? channels : 0;
  }
}

struct Case {
  Fabric fabric;
  Job job;
  SimulateOptions options;
};

Case random_case() {
  Fabric fabric = with_slow_links(random_fabric());
  const Grid grid = random_grid(fabric.gpu_count());
  Job job = grid_job(grid, random_steps(grid.pp));
  job.pace = random_paces(grid.ranks());
  let_contend(job);
  SimulateOptions options{.fidelity = *rc::gen::element(Fidelity::fluid, Fidelity::fluid, Fidelity::analytic),
                          .routing = *rc::gen::elementOf(std::vector(std::begin(all_routings), std::end(all_routings))),
                          .seed = *rc::gen::inRange<std::uint64_t>(1, 1000),
                          .flows_per_pair = any_of<std::uint32_t>({1, 1, 4})};
  options.traced = {id_at<RankId>(0), id_at<RankId>(grid.ranks() / 2), id_at<RankId>(grid.ranks() - 1)};
  return {std::move(fabric), std::move(job), std::move(options)};
}

Measured play(const Case& c, bool fold) {
  SimulateOptions options = c.options;
  options.fold = fold;
  return simulate(c.fabric, Transport{}, c.job, options);
}

void check_exact(const Case& c) {
  RC_ASSERT(c.job.check().empty());
  const Measured folded = play(c, true);
  const Measured each = play(c, false);
  RC_ASSERT(test::difference(folded, each) == "");
  RC_ASSERT(each.engine.rank_classes == c.job.ranks.size());
  RC_ASSERT(folded.engine.rank_classes <= c.job.ranks.size());
  RC_ASSERT(folded.engine.rank_kinds <= folded.engine.rank_groupings);
  RC_ASSERT(folded.engine.rank_groupings <= folded.engine.rank_classes);
}

RC_GTEST_PROP(Fold, is_exact_on_random_plans_fabrics_routings_and_faults, ()) {
  constexpr int cases = 30;  // a time: 3,000 in all
  for (int i = 0; i < cases; ++i) check_exact(random_case());
}

// ---- how far ------------------------------------------------------------------------------------------------------

/// Takes out the communicators that no rank is bound to any more.
void drop_unbound(Job& job) {
  std::vector<bool> bound(job.communicators.size());
  for (const RankBinding& r : job.ranks)
    for (const CommunicatorId id : r.slots) bound[id.index()] = true;
  std::vector<CommunicatorId> renumbered(bound.size());
  std::vector<Communicator> kept;
  for (std::size_t c = 0; c < bound.size(); ++c) {
    if (!bound[c]) continue;
    renumbered[c] = id_at<CommunicatorId>(kept.size());
    kept.push_back(std::move(job.communicators[c]));
  }
  job.communicators = std::move(kept);
  for (RankBinding& r : job.ranks)
    for (CommunicatorId& id : r.slots) id = renumbered[id.index()];
}

/// Tensor groups of four, a server each, without anything between them.
Case lonely_groups(std::size_t groups) {
  const Grid grid{.tp = 4, .pp = 1, .dp = groups};
  GridSteps steps{.microbatches = 2, .work = {milliseconds(1)}};
  steps.tensor_bytes = 100'000'000;
  Job job = grid_job(grid, steps);
  for (std::size_t r = 0; r < grid.ranks(); ++r) job.ranks[r].slots[data] = add_group(job, {id_at<RankId>(r)}, 1);
  drop_unbound(job);
  return {test::build({.nodes = static_cast<std::uint32_t>(groups), .gpus = 4}), std::move(job), {}};
}

TEST(Fold, of_groups_that_do_the_same_is_one_rank) {
  Case c = lonely_groups(8);
  EXPECT_EQ(play(c, true).engine.rank_classes, 1U);
}

TEST(Fold, splits_for_a_straggler_only_as_far_as_its_group) {
  Case c = lonely_groups(8);
  c.job.pace.assign(c.job.ranks.size(), usual_pace);
  c.job.pace[5] = paced(1.5);
  const Measured folded = play(c, true);
  EXPECT_EQ(folded.engine.rank_classes, 3U);  // the straggler, its three peers, all the others
  EXPECT_EQ(folded.engine.rank_kinds, 2U);
  EXPECT_EQ(test::difference(folded, play(c, false)), "");
}

TEST(Fold, splits_for_a_slow_link_only_as_far_as_its_group) {
  Case c = lonely_groups(8);
  std::vector<double> remaining(c.fabric.link_count(), 1);
  const auto gpu = c.fabric.vertex_of(GpuId{9});
  for (LinkId l = c.fabric.out_links(gpu).first; l != c.fabric.out_links(gpu).last; ++l.value)
    if (c.fabric.tiers()[c.fabric.link(l).tier.index()].name == "nvlink") remaining[l.index()] = 0.5;
  c.fabric = with_faults(c.fabric, remaining);
  const Measured folded = play(c, true);
  EXPECT_EQ(folded.engine.rank_classes, 2U);  // a group ends together: its four ranks are alike
  EXPECT_EQ(folded.engine.rank_kinds, 1U);
  EXPECT_EQ(test::difference(folded, play(c, false)), "");
}

TEST(Fold, names_all_ranks_of_a_hang_as_if_each_were_played) {
  Case c = lonely_groups(3);
  ProgramBuilder b;
  b.compute(main_stream, {.label = "F", .duration = milliseconds(1)});
  b.communicate(b.stream("tensor"),
                {.label = "call", .op = Collective::all_reduce, .size = bytes(100), .slot = tensor});
  c.job.programs.push_back(std::move(b).build());
  c.job.ranks[6].program = 1;
  std::string messages[2];
  for (const bool fold : {false, true}) {
    try {
      static_cast<void>(play(c, fold));
    } catch (const Deadlock& hang) {
      messages[fold ? 1 : 0] = hang.what();
    }
  }
  EXPECT_NE(messages[0], "");
  EXPECT_EQ(messages[0], messages[1]);
}

// ---- communicators that lie alike, expanded once -----------------------------------------------------------------

using UsageByLink = std::map<LinkId, std::pair<double, double>>;  // wire, load

UsageByLink usage_of(const Expansion& e, std::size_t shape) {
  UsageByLink by_link;
  for (std::size_t i = 0; i < e.usage.links(shape).size(); ++i) {
    const UsageTable::Amount& amount = e.usage.amounts(shape)[i];
    by_link[e.usage.links(shape)[i]] = {amount.wire, amount.load};
  }
  return by_link;
}

void check_same_call(const PlannedCall& a, const PlannedCall& b) {
  RC_ASSERT(a.op == b.op);
  RC_ASSERT(a.size == b.size);
  RC_ASSERT(a.choice == b.choice);
  RC_ASSERT(a.latency == b.latency);
  RC_ASSERT(a.idle_time == b.idle_time);
  RC_ASSERT(a.moves == b.moves);
  RC_ASSERT(a.row == b.row);
  RC_ASSERT(!a.moves || a.shape == b.shape);
}

RC_GTEST_PROP(Expansion, of_communicators_that_lie_alike_is_as_if_each_were_expanded, ()) {
  Case c = random_case();
  c.options.fidelity = Fidelity::fluid;
  c.options.routing = *rc::gen::element(Routing::spread, Routing::rail);
  const Expansion alike = expand(c.fabric, Transport{}, c.job, c.options);
  c.options.fold = false;
  const Expansion each = expand(c.fabric, Transport{}, c.job, c.options);
  RC_ASSERT(alike.calls_begin == each.calls_begin);
  for (std::size_t i = 0; i < each.calls.size(); ++i) check_same_call(alike.calls[i], each.calls[i]);
  RC_ASSERT(alike.usage.shapes() == each.usage.shapes());
  for (std::size_t s = 0; s < each.usage.shapes(); ++s) RC_ASSERT(usage_of(alike, s) == usage_of(each, s));
  RC_ASSERT(alike.rate_cap == each.rate_cap);
  RC_ASSERT(alike.weight == each.weight);
  RC_ASSERT(alike.resources.capacity == each.resources.capacity);
  RC_ASSERT(alike.resources.links == each.resources.links);
}

TEST(Expansion, of_servers_that_are_alike_holds_what_they_load_once) {
  const Case c = lonely_groups(8);
  const Fabric fabric =
      build_fat_tree({.node = {.gpus = 4, .nics = 4}, .cable = {}, .gpus = 32, .tiers = 3, .radix = 8});
  const Expansion e = expand(fabric, Transport{}, c.job, c.options);
  ASSERT_EQ(e.usage.shapes(), 8U);
  for (std::size_t s = 1; s < 8; ++s) EXPECT_EQ(e.usage.amounts(s).data(), e.usage.amounts(0).data());
}

// ---- what a faulty refinement would do ----------------------------------------------------------------------------

/// Folds with a fault; true when that is noticed, by the quotient or by an answer that differs.
bool is_caught(const Case& c, const Expansion& expansion, FoldFault fault) {
  const auto measured = [&](const Fold& how) {
    return Player(c.fabric, c.job, c.options, expansion, how, quotient(c.job, expansion, how)).play();
  };
  const Measured each = measured(unfolded(c.job, expansion));
  try {
    return !test::difference(measured(fold(c.job, expansion, true, fault)), each).empty();
  } catch (const std::logic_error&) {
    return true;
  }
}

/// Eight GPUs that send in pairs; what of the network the pairs load is put in by hand.
Case pairs_of_senders() {
  const Grid grid{.tp = 2, .pp = 1, .dp = 4};
  GridSteps steps{.microbatches = 1, .work = {milliseconds(1)}};
  steps.tensor_op = Collective::send_recv;
  steps.tensor_bytes = 1'000'000;
  Job job = grid_job(grid, steps);
  for (std::size_t r = 0; r < grid.ranks(); ++r) job.ranks[r].slots[data] = add_group(job, {id_at<RankId>(r)}, 1);
  drop_unbound(job);
  return {test::build({.nodes = 8, .gpus = 1}), std::move(job), {}};
}

/// The four pairs share two resources of these capacities, two pairs each, with these loads and at most 4 GB/s alone.
Expansion sharing_two(const Case& c, double load, double other_load, double capacity, double other_capacity) {
  Expansion e = expand(c.fabric, Transport{}, c.job, c.options);
  e.resources = {};
  e.resources.capacity = {capacity, other_capacity};
  e.resources.links_begin = {0, 0, 0};
  for (std::uint32_t pair = 0; pair < 4; ++pair) {
    e.resources.loads.push_back({ResourceId{pair / 2}, pair < 2 ? load : other_load});
    e.resources.begin.push_back(e.resources.loads.size());
  }
  e.rate_cap.assign(4, 4e9);
  return e;
}

TEST(FoldFaults, loads_left_out_are_noticed) {
  const Case c = pairs_of_senders();
  const Expansion e = sharing_two(c, 1, 2, 10e9, 10e9);
  ASSERT_EQ(e.usage.shapes(), 4U);
  EXPECT_FALSE(is_caught(c, e, FoldFault::none));
  EXPECT_TRUE(is_caught(c, e, FoldFault::ignore_loads));
}

TEST(FoldFaults, capacities_left_out_are_noticed) {
  const Case c = pairs_of_senders();
  const Expansion e = sharing_two(c, 1, 1, 10e9, 5e9);
  EXPECT_FALSE(is_caught(c, e, FoldFault::none));
  EXPECT_TRUE(is_caught(c, e, FoldFault::ignore_capacities));
}

TEST(FoldFaults, a_pace_left_out_is_noticed) {
  Case c = pairs_of_senders();
  c.job.pace.assign(c.job.ranks.size(), usual_pace);
  c.job.pace[3] = paced(2);
  const Expansion e = expand(c.fabric, Transport{}, c.job, c.options);
  EXPECT_FALSE(is_caught(c, e, FoldFault::none));
  EXPECT_TRUE(is_caught(c, e, FoldFault::ignore_pace));
}

/// Ranks 0 and 1 call first the one and then the other of two partners. The slow partner comes first for rank 0 and
/// last for rank 1: only the slots tell the two apart.
TEST(FoldFaults, slots_left_out_are_noticed) {
  Case c{test::build({.nodes = 6, .gpus = 1}), {}, {}};
  Job& job = c.job;
  job.activities = {"compute"};
  job.dimensions = {{"x", false}};
  const auto program = [](std::vector<Duration> before_call) {
    ProgramBuilder b;
    std::uint16_t slot = 0;
    for (const Duration d : before_call) {
      b.compute(main_stream, {.label = "F", .duration = d});
      b.communicate(main_stream, {.label = "call", .op = Collective::all_reduce, .size = bytes(1000), .slot = slot++});
    }
    return std::move(b).build();
  };
  job.programs = {program({milliseconds(1), milliseconds(1)}), program({milliseconds(9)}), program({milliseconds(1)})};
  for (std::uint32_t r = 0; r < 6; ++r) job.placement.push_back(GpuId{r});
  job.communicators = {{{RankId{0}, RankId{2}}, 0},  // with a slow one
                       {{RankId{0}, RankId{3}}, 0},
                       {{RankId{1}, RankId{4}}, 0},
                       {{RankId{1}, RankId{5}}, 0}};  // with a slow one
  const auto id = [](std::uint32_t which) { return CommunicatorId{which}; };
  job.ranks = {{0, {id(0), id(1)}}, {0, {id(2), id(3)}}, {1, {id(0)}}, {2, {id(1)}}, {2, {id(2)}}, {1, {id(3)}}};
  ASSERT_EQ(job.check(), "");
  const Expansion e = expand(c.fabric, Transport{}, job, c.options);
  EXPECT_FALSE(is_caught(c, e, FoldFault::none));
  EXPECT_TRUE(is_caught(c, e, FoldFault::ignore_slots));
}

}  // namespace
}  // namespace foretrain
