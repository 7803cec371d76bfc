// Does a generated step show the bubbles, the traffic and the memory that the papers derive?
#include "workloads/generate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/simulate.h"
#include "tests/support/small_fabric.h"
#include "tests/workloads/any_plan.h"
#include "tests/workloads/messages.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

Model tiny(std::int64_t layers) {
  return {.name = "tiny",
          .layers = layers,
          .hidden = 256,
          .ffn_hidden = 1024,
          .heads = 8,
          .kv_heads = 8,
          .head_dim = 32,
          .vocabulary = 1024,
          .max_positions = 64};
}

Gpu some_gpu() {
  return {.name = "test",
          .peak = teraflops(100),
          .matmul = teraflops(80),
          .flash_attention = teraflops(50),
          .memory = gigabytes_per_second(1000),
          .memory_achieved = gigabytes_per_second(900),
          .memory_size = gibibytes(80),
          .memory_usable = gibibytes(79),
          .multiprocessors = 100};
}

/// Forward f and backward b a layer and microbatch; embedding and loss cost nothing.
StageCost flat_cost(Duration f, Duration b) {
  StageCost cost;
  for (LayerCost& layer : cost.layers) layer.qkv = {.forward = f, .backward_input = b};
  return cost;
}

/// A network that costs nothing: messages of a few kilobytes at 1e15 bytes a second, no step latencies.
Transport free_transport() {
  Transport t;
  t.node.launch = t.node.ll128_step = t.node.ring_step = t.node.nvls_fill = {};
  t.network.ll_step = t.network.ll128_step = t.network.ring_step = t.network.tree_step = {};
  t.node.ll_rate = t.node.ll128_rate = t.node.ring_rate = t.network.ll_rate = bytes_per_second(1'000'000'000'000'000);
  return t;
}

Measured play(const Workload& w, const Transport& transport, std::uint32_t gpus_a_node = 1,
              SimulateOptions options = {}) {
  const auto gpus = static_cast<std::uint32_t>(w.job.ranks.size());
  const Bandwidth fast = bytes_per_second(1'000'000'000'000'000);
  const Fabric fabric = test::build({.nodes = gpus / gpus_a_node, .gpus = gpus_a_node, .nvlink = fast, .nic = fast});
  return simulate(fabric, transport, w.job, options);
}

double bubble_of(const Measured& m, const Job& job, std::size_t rank) {
  Duration bubble = m.ranks[rank].tail;
  for (std::size_t i = 0; i < m.communication.size(); ++i)
    if (job.dimensions[m.communication[i].dimension].waiting_is_bubble) bubble += m.ranks[rank].waiting[i];
  return bubble / m.step;
}

struct Pipeline {
  std::int64_t p, m, v;
  ScheduleKind kind;
};

void expect_bubble(const Pipeline& c, double expected) {
  const Model model = tiny(c.p * c.v);
  const Plan plan{.pp = c.p, .schedule = {c.kind, c.v}};
  const Training training{.sequence_length = 4, .global_batch = c.m};
  const StageCost cost = flat_cost(milliseconds(1000), milliseconds(2000));
  const Workload w = generate(model, plan, training, some_gpu(), cost, false);
  const Measured m = play(w, free_transport());
  for (std::size_t rank = 0; rank < w.job.ranks.size(); ++rank)
    EXPECT_NEAR(bubble_of(m, w.job, rank), expected, 1e-9)
        << "p " << c.p << " m " << c.m << " v " << c.v << " rank " << rank;
  // The step itself: m microbatches of v chunks, plus p-1 chunks of ramp up and down (Narayanan 2021, section 2.2).
  const double chunk = 3.0;
  EXPECT_NEAR(m.step.seconds(), chunk * static_cast<double>(c.m * c.v + c.p - 1), 1e-9 * m.step.seconds());
}

TEST(Bubble, gpipe_and_1f1b_with_equal_stages) {
  for (std::int64_t p : {1, 2, 3, 4, 8})
    for (std::int64_t m : {1, 2, 4, 7, 16}) {
      const double expected = static_cast<double>(p - 1) / static_cast<double>(m + p - 1);
      expect_bubble({p, m, 1, ScheduleKind::gpipe}, expected);
      expect_bubble({p, m, 1, ScheduleKind::one_f_one_b}, expected);
    }
}

/// (p-1)/v of ramp against m of work: of the step, (p-1) / (v m + p - 1).
TEST(Bubble, interleaving_divides_the_ramp_by_the_chunks) {
  for (std::int64_t p : {2, 4, 8})
    for (std::int64_t m : {p, 2 * p, 4 * p})
      for (std::int64_t v : {2, 3, 4})
        expect_bubble({p, m, v, ScheduleKind::interleaved_1f1b},
                      static_cast<double>(p - 1) / static_cast<double>(v * m + p - 1));
}

/// Figures that introductions print: 8 stages idle for 46.7 % of a step of 8 microbatches and 9.9 % of one of 64; 12
/// stages cost at most 5 % of the ideal time, (p-1)/m, from 220 microbatches on.
TEST(Bubble, published_figures) {
  const auto fraction = [](double p, double m) { return (p - 1) / (m + p - 1); };
  EXPECT_NEAR(fraction(8, 8), 0.467, 5e-4);
  EXPECT_NEAR(fraction(8, 64), 0.099, 5e-4);
  expect_bubble({8, 8, 1, ScheduleKind::one_f_one_b}, fraction(8, 8));
  expect_bubble({8, 64, 1, ScheduleKind::one_f_one_b}, fraction(8, 64));
  const auto over_ideal = [&](double m) { return fraction(12, m) / (1 - fraction(12, m)); };
  EXPECT_NEAR(over_ideal(220), 0.05, 1e-12);
  EXPECT_GT(over_ideal(219), 0.05);
  expect_bubble({12, 220, 1, ScheduleKind::one_f_one_b}, fraction(12, 220));
}

TEST(Generate, one_microbatch_on_four_stages_shows_three_quarters_bubble) {
  expect_bubble({4, 1, 1, ScheduleKind::one_f_one_b}, 0.75);
}

/// The weight gradient w of the output layer makes the last of p stages the slowest: the step is the ramp up, m
/// microbatches there, and the backward ramp behind the last. Late, all m of them wait until its last backward, while
/// the stages before do their last backwards.
TEST(Bubble, late_output_gradients_fill_the_cool_down) {
  const double f = 1, b = 2, w = 0.5;
  const StageCost flat = flat_cost(milliseconds(1000), milliseconds(2000));
  for (const std::int64_t p : {2, 4, 8})
    for (const std::int64_t m : {p, 4 * p}) {
      const Model model = tiny(p);
      const Plan plan{.pp = p, .schedule = {ScheduleKind::one_f_one_b, 1}};
      Training training{.sequence_length = 4, .global_batch = m};
      StageCost cost = flat;
      cost.end.output.backward_weight = milliseconds(500);
      const auto step = [&](bool late) {
        training.stack.late_output_gradient = late;
        return play(generate(model, plan, training, some_gpu(), cost, false), free_transport()).step.seconds();
      };
      const auto ramp = static_cast<double>(p - 1), count = static_cast<double>(m);
      EXPECT_NEAR(step(false), ramp * (f + b) + count * (f + b + w), 1e-6) << p << " " << m;
      EXPECT_NEAR(step(true), ramp * f + count * (f + b) + std::max(ramp * b, count * w), 1e-6) << p << " " << m;
    }
}

// ---- traffic ----

/// Korthikanti 2022, section 4.2.2: with SP a layer has 2 gathers and 2 scatters forward, the same backward, and 2 more
/// gathers of the saved inputs; without, 2 all-reduces each way. All of the whole activation b s h.
TEST(Generate, tensor_parallel_messages_of_a_layer) {
  const Model model = tiny(6);
  const Training training{.sequence_length = 16, .global_batch = 3};
  for (bool sp : {false, true}) {
    const Plan plan{.tp = 4, .pp = 3, .sequence_parallel = sp, .schedule = {ScheduleKind::one_f_one_b, 1}};
    const StageCost cost = flat_cost(milliseconds(1), milliseconds(2));
    const Workload w = generate(model, plan, training, some_gpu(), cost, false);
    const std::int64_t message = activation_message(model, plan, training).count();
    EXPECT_EQ(message, 2 * 16 * 256);
    const std::int64_t passes = 2 * 3;  // layers of the middle stage x microbatches
    const Program& middle = w.job.programs[1];
    if (sp) {
      EXPECT_EQ(message_bytes(middle, Collective::all_gather, Slot::tp), passes * (2 + 2 + 2) * message);
      EXPECT_EQ(message_bytes(middle, Collective::reduce_scatter, Slot::tp), passes * (2 + 2) * message);
    } else {
      EXPECT_EQ(message_bytes(middle, Collective::all_reduce, Slot::tp), passes * (2 + 2) * message);
    }
    // To the next and to the previous stage: 1/tp of the activation a rank and microbatch.
    EXPECT_EQ(message_bytes(middle, Collective::send_recv, Slot::forward_to_next), 3 * message / 4);
    EXPECT_EQ(message_bytes(middle, Collective::send_recv, Slot::backward_to_previous), 3 * message / 4);
  }
}

/// Without SP every rank of a tensor-parallel group has the whole activation. Scattered, each sends its part, gathered
/// on arrival; whole, each sends all.
TEST(Generate, pipeline_messages_are_scattered_or_whole) {
  const Model model = tiny(6);
  const Plan plan{.tp = 4, .pp = 3, .schedule = {ScheduleKind::one_f_one_b, 1}};
  const Training scattered{.sequence_length = 16, .global_batch = 3};
  Training whole = scattered;
  whole.stack.scattered_messages = false;
  const std::int64_t message = activation_message(model, plan, scattered).count();
  const auto sent = [&](const Training& training, Collective op, Slot slot) {
    const StageCost cost = flat_cost(milliseconds(1), milliseconds(2));
    return message_bytes(generate(model, plan, training, some_gpu(), cost, false).job.programs[1], op, slot);
  };
  EXPECT_EQ(sent(scattered, Collective::send_recv, Slot::forward_to_next), 3 * message / 4);
  EXPECT_EQ(sent(scattered, Collective::all_gather, Slot::tp), 2 * 3 * message);  // of activations and of gradients
  EXPECT_EQ(sent(whole, Collective::send_recv, Slot::forward_to_next), 3 * message);
  EXPECT_EQ(sent(whole, Collective::all_gather, Slot::tp), 0);
}

/// What a gather brings at once, broadcasts bring owner by owner: as many calls as ranks, the same bytes in all, and so
/// much later each.
TEST(Generate, parameters_are_gathered_or_broadcast) {
  const Model model = tiny(4);
  const Plan plan{.dp = 4, .zero = 1};
  Training training{.sequence_length = 8, .global_batch = 8};
  training.stack.owner_broadcast = milliseconds(2);
  const StageCost cost = flat_cost(milliseconds(1), milliseconds(2));
  const Workload w = generate(model, plan, training, some_gpu(), cost, true);
  const Program& program = w.job.programs.front();
  EXPECT_EQ(message_bytes(program, Collective::all_gather, Slot::dp), 0);
  EXPECT_EQ(message_bytes(program, Collective::broadcast, Slot::dp), 2 * model.parameters());
  std::int64_t calls = 0;
  for (const Stream& s : program.streams)
    calls += std::count_if(s.operations.begin(), s.operations.end(), [](const Operation& o) {
      return o.kind == OperationKind::communicate && o.op == Collective::broadcast;
    });
  EXPECT_EQ(calls, 4);
  training.stack.owner_broadcast = milliseconds(5);
  const Duration longer = play(generate(model, plan, training, some_gpu(), cost, true), free_transport()).step;
  EXPECT_EQ(longer - play(w, free_transport()).step, 4 * milliseconds(3));
}

/// A stack's factors go to the groups of their dimension, and to no other.
TEST(Generate, communicators_take_the_times_of_their_stack) {
  Model model = tiny(4);
  model.experts = Experts{.count = 4, .topk = 2, .ffn_hidden = 64};
  const Plan plan{.tp = 2, .dp = 4, .ep = 4, .sequence_parallel = true};
  Training training{.sequence_length = 8, .global_batch = 8};
  training.stack.tp_time = 1.25;
  training.stack.ep_time = 1.5;
  training.stack.data_channels = 1;
  const Workload w = generate(model, plan, training, some_gpu(), flat_cost({}, {}), true);
  const double expected[] = {1.25, 1, 1.5, 1, 1, 1};  // tp, cp, ep, dp, pp, other
  for (const Communicator& c : w.job.communicators) {
    EXPECT_EQ(c.time_factor, expected[c.dimension]) << w.job.dimensions[c.dimension].name;
    EXPECT_EQ(c.channels, c.dimension == static_cast<std::uint8_t>(Traffic::dp) ? 1U : 0U);
  }
}

/// Compute beside collectives of any kind is slowed; beside pipeline messages it is not.
TEST(Generate, programs_say_which_streams_slow_their_compute) {
  Gpu gpu = some_gpu();
  gpu.contention = 0.5;
  const Model model = tiny(8);
  const Plan plan{.tp = 2, .cp = 2, .pp = 2, .dp = 2, .sequence_parallel = true};
  const Training training{.sequence_length = 16, .global_batch = 8};
  for (const Program& p : generate(model, plan, training, gpu, flat_cost({}, {}), true).job.programs) {
    EXPECT_EQ(p.contention, rate_share(0.5));
    EXPECT_FALSE(p.streams.front().contends);
    for (std::size_t s = 1; s < p.streams.size(); ++s)
      EXPECT_EQ(p.streams[s].contends, !p.streams[s].name.starts_with("pp ")) << p.streams[s].name;
  }
}

/// ZeRO 0: one all-reduce of all gradients. ZeRO 1: reduce-scatter of gradients, all-gather of parameters.
TEST(Generate, data_parallel_messages_of_a_step) {
  const Model model = tiny(4);
  const Training training{.sequence_length = 8, .global_batch = 8};
  for (int zero : {0, 1})
    for (bool overlap : {false, true})
      for (std::int64_t pp : {1, 2}) {
        const Plan plan{.pp = pp,
                        .dp = 4,
                        .zero = zero,
                        .schedule = {ScheduleKind::one_f_one_b, 1},
                        .overlap = {.dp = overlap},
                        .bucket_parameters = 100'000};
        const StageCost cost = flat_cost(milliseconds(1), milliseconds(2));
        const Workload w = generate(model, plan, training, some_gpu(), cost, true);
        std::int64_t parameters = 0;
        std::int64_t gradients = 0;
        std::int64_t gathered = 0;
        for (std::int64_t s = 0; s < pp; ++s) {
          parameters += stage_parameters(model, plan, s);
          const Program& program = w.job.programs[static_cast<std::size_t>(s)];
          gradients += message_bytes(program, zero ? Collective::reduce_scatter : Collective::all_reduce, Slot::dp);
          gathered += message_bytes(program, Collective::all_gather, Slot::dp);
        }
        EXPECT_EQ(gradients, 4 * parameters);            // fp32
        EXPECT_EQ(gathered, zero ? 2 * parameters : 0);  // bf16
      }
}

// ---- whole steps ----

TEST(Generate, stragglers_cost_the_same_for_every_doubling_of_nodes) {
  EXPECT_EQ(straggler_slowdown(0.005, 1), 1.0);
  EXPECT_NEAR(straggler_slowdown(0.005, 2048) - straggler_slowdown(0.005, 1024), 0.005, 1e-15);
}

RC_GTEST_PROP(Generate, a_faster_network_never_makes_an_idle_one_slower, ()) {
  const test::Drawn d = test::any_drawn();
  const Workload w =
      generate(d.model, d.plan, d.training, some_gpu(), stage_cost(some_gpu(), d.model, d.plan, d.training, 1), true);
  const auto step = [&](std::int64_t factor) {
    const Fabric fabric = test::build(
        {.nodes = static_cast<std::uint32_t>(d.plan.ranks()), .gpus = 1, .nic = gigabytes_per_second(5) * factor});
    return simulate(fabric, Transport{}, w.job, {.fidelity = Fidelity::analytic}).step;
  };
  RC_ASSERT(step(4) <= step(1));
}

}  // namespace
}  // namespace foretrain
