// What one layer plays: messages of every dimension as section 6 of the stacks' own code has them, all of its compute
// and nothing else, and overlap that hides what it can and no more.
#include "workloads/program/layer_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "tests/workloads/layer_play.h"

namespace foretrain {
namespace {

using namespace test;

void forward(LayerWriter& w) { w.forward(Work::compute, "F", here); }
void backward(LayerWriter& w) { w.backward(here); }
void split_backward(LayerWriter& w) {
  w.backward_input(here);
  w.backward_weight(here);
}
void both(LayerWriter& w) { w.forward_and_backward(here, there); }

// ---- messages ----

using Messages = std::map<std::pair<Slot, Collective>, std::int64_t>;  ///< bytes, of what is called at all

Messages messages_of(const Program& p) {
  Messages sums;
  for (const Stream& s : p.streams)
    for (const Operation& o : s.operations)
      if (o.kind == OperationKind::communicate) sums[{static_cast<Slot>(o.slot), o.op}] += o.amount;
  return sums;
}
Messages messages_of(const Setting& s, const Steps& steps) { return messages_of(play_on_track(s, steps)); }

Messages operator+(Messages a, const Messages& b) {
  for (const auto& [key, size] : b) a[key] += size;
  return a;
}

/// b microbatch, s sequence, h hidden, e bytes an element, t = tp, c = cp, as in the comments below.
struct Symbols {
  std::int64_t e, b, s, h, t, c;
};
Symbols symbols_of(const Setting& s) {
  return {2, s.training.microbatch, s.training.sequence_length, s.model.hidden, s.plan.tp, s.plan.cp};
}

/// Megatron-Core: with SP a pair of products has AG and RS of e b s h / c forward; backward AG of the output gradient,
/// AG of the saved input, RS of the input gradient. Without, an all-reduce each way. (Korthikanti 2022, section 4.2.2)
Messages of_pairs(const Setting& s, std::int64_t pairs, bool is_forward) {
  const auto [e, b, q, h, t, c] = symbols_of(s);
  const std::int64_t whole = e * b * q * h / c;
  if (t == 1 || pairs == 0) return {};
  if (!s.plan.sequence_parallel) return {{{Slot::tp, Collective::all_reduce}, pairs * whole}};
  return {{{Slot::tp, Collective::all_gather}, (is_forward ? 1 : 2) * pairs * whole},
          {{Slot::tp, Collective::reduce_scatter}, pairs * whole}};
}

/// Ring: c-1 steps of K and V; backward as many of them and of their gradients. Gathered: all K and V each way, and
/// their gradients scattered. Ulysses: q, k, v and the output, each way.
Messages of_context(const Setting& s, bool is_forward) {
  const auto [e, b, q, h, t, c] = symbols_of(s);
  const std::int64_t share = e * b * (q / c);
  const std::int64_t kv = 2 * s.model.kv_heads * s.model.head_dim / t;
  const std::int64_t heads = 2 * s.model.heads * s.model.head_dim / t;  // queries and output
  if (c == 1) return {};
  switch (s.plan.context) {
    case ContextExchange::ring:
      return {{{Slot::cp, Collective::shift}, (is_forward ? 1 : 2) * (c - 1) * share * kv}};
    case ContextExchange::all_gather: {
      Messages m = {{{Slot::cp, Collective::all_gather}, c * share * kv}};
      if (!is_forward) m[{Slot::cp, Collective::reduce_scatter}] = c * share * kv;
      return m;
    }
    case ContextExchange::all_to_all:
      return {{{Slot::cp, Collective::all_to_all}, share * (heads + kv)}};
  }
  return {};
}

/// T = b s / (c t) tokens, k copies each to their experts and back, in both passes; the ranks of one expert gather and
/// scatter them. Or all tokens, once, gathered over both groups.
Messages of_experts(const Setting& s) {
  const auto [e, b, q, h, t, c] = symbols_of(s);
  const Plan& plan = s.plan;
  if (!s.model.experts) return {};
  const std::int64_t tokens = b * q / c / (plan.sequence_parallel ? t : 1);
  Messages m;
  if (plan.experts == ExpertExchange::all_gather) {
    const std::int64_t once = tokens * h * e;
    if (plan.ep > 1) m[{Slot::ep, Collective::all_gather}] = m[{Slot::ep, Collective::reduce_scatter}] = once * plan.ep;
    if (plan.etp > 1)
      m[{Slot::etp, Collective::all_gather}] = m[{Slot::etp, Collective::reduce_scatter}] = once * plan.ep * plan.etp;
    return m;
  }
  const std::int64_t copies = tokens * s.model.experts->topk * h * e;
  if (plan.ep > 1) m[{Slot::ep, Collective::all_to_allv}] = m[{Slot::ep, Collective::all_to_allv_back}] = copies;
  if (plan.etp > 1)
    m[{Slot::etp, Collective::all_gather}] = m[{Slot::etp, Collective::reduce_scatter}] = copies * plan.etp;
  return m;
}

/// Attention, and a dense MLP or shared experts.
std::int64_t pairs_of(const Setting& s) { return !s.model.experts || s.model.experts->shared_ffn_hidden > 0 ? 2 : 1; }
Messages expected_forward(const Setting& s) {
  return of_pairs(s, pairs_of(s), true) + of_context(s, true) + of_experts(s);
}
Messages expected_backward(const Setting& s) {
  return of_pairs(s, pairs_of(s), false) + of_context(s, false) + of_experts(s);
}

// ---- random layers ----

PartCost some_part(bool matrices) {
  const auto duration = [] { return picoseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000)); };
  PartCost p{.forward = duration(), .backward_input = duration()};
  if (matrices) p.backward_weight = duration();
  return p;
}

StageCost some_cost(const Model& model) {
  StageCost cost;
  for (const LayerKind kind : all_layer_kinds) {
    LayerCost& l = cost.layers[kind.index()];
    for (PartCost* p : {&l.attention_norm, &l.core, &l.attention_residual, &l.mlp_norm, &l.mlp_residual})
      *p = some_part(false);
    for (PartCost* p : {&l.down, &l.qkv, &l.projection}) *p = some_part(true);
    if (!kind.experts) {
      for (PartCost* p : {&l.mlp_in, &l.mlp_out}) *p = some_part(true);
      continue;
    }
    for (PartCost* p : {&l.experts.permute, &l.experts.unpermute}) *p = some_part(false);
    for (PartCost* p : {&l.experts.router, &l.experts.in, &l.experts.out}) *p = some_part(true);
    if (model.experts && model.experts->shared_ffn_hidden > 0) l.experts.shared = some_part(true);
  }
  return cost;
}

Setting some_setting() {
  Setting s;
  s.model = some_model(*rc::gen::arbitrary<bool>());
  if (s.model.experts) s.model.experts->shared_ffn_hidden = *rc::gen::element(0, 64);
  s.plan.tp = *rc::gen::element(1, 2, 4, 8);
  s.plan.cp = *rc::gen::element(1, 2, 4);
  s.plan.dp = 4;
  if (s.model.experts) {
    s.plan.ep = *rc::gen::element(1, 2, 4);
    s.plan.etp = s.plan.tp == 1 ? 1 : *rc::gen::element(1, 2);
    s.plan.experts = *rc::gen::element(ExpertExchange::all_to_all, ExpertExchange::all_gather, ExpertExchange::two_hop);
  }
  s.plan.sequence_parallel = s.plan.tp > 1 && (s.model.experts || *rc::gen::arbitrary<bool>());
  s.plan.context = *rc::gen::element(ContextExchange::ring, ContextExchange::all_gather, ContextExchange::all_to_all);
  s.plan.overlap.tp = *rc::gen::arbitrary<bool>();
  s.plan.overlap.ep = *rc::gen::arbitrary<bool>();
  s.training = {.sequence_length = 64, .global_batch = 8, .microbatch = *rc::gen::element(1, 2)};
  s.cost = some_cost(s.model);
  return s;
}

RC_GTEST_PROP(Layers, messages_are_the_closed_forms_of_their_stacks, ()) {
  const Setting s = some_setting();
  RC_ASSERT(messages_of(s, forward) == expected_forward(s));
  RC_ASSERT(messages_of(s, backward) == expected_backward(s));
  RC_ASSERT(messages_of(s, split_backward) == expected_backward(s));
  RC_ASSERT(messages_of(s, both) == expected_forward(s) + expected_backward(s));
}

/// Latent attention exchanges keys wider than values (DeepSeek-V2: 192 and 128 a head).
TEST(Layers, latent_attention_sends_keys_and_values_of_their_own_widths) {
  Setting s{.model = some_model(false), .plan = {.cp = 4}, .training = {.sequence_length = 64}};
  s.model.kv_heads = s.model.heads;
  s.model.latent = LatentAttention{.kv_rank = 32, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
  EXPECT_EQ(messages_of(s, forward), (Messages{{{Slot::cp, Collective::shift}, 3 * (2 * 16 * 16 * (12 + 8))}}));
}

/// Megatron-Core projects into latents on the sequence shard and gathers those: of width 24 + 32 + 4 instead of 96; an
/// uncompressed query needs the activation.
TEST(Layers, latent_attention_gathers_latents) {
  Setting s{
      .model = some_model(false), .plan = {.tp = 4, .sequence_parallel = true}, .training = {.sequence_length = 64}};
  s.model.kv_heads = s.model.heads;
  for (const std::int64_t rank : {24, 0}) {
    s.model.latent = LatentAttention{.query_rank = rank, .kv_rank = 32, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
    const std::int64_t activation = 2 * 64 * 96;
    const std::int64_t latents = 2 * 64 * ((rank > 0 ? rank : 96) + 32 + 4);
    EXPECT_EQ(messages_of(s, forward), (Messages{{{Slot::tp, Collective::all_gather}, latents + activation},
                                                 {{Slot::tp, Collective::reduce_scatter}, 2 * activation}}));
    // Of the output gradients, then of the saved inputs, whose gradients are scattered.
    EXPECT_EQ(messages_of(s, backward),
              (Messages{{{Slot::tp, Collective::all_gather}, 2 * activation + latents + activation},
                        {{Slot::tp, Collective::reduce_scatter}, latents + activation}}));
  }
}

/// Experts padded to 1.25 times the mean take so many copies, whoever asks for them.
TEST(Layers, a_capacity_sizes_the_message) {
  Setting s{.model = some_model(true), .plan = {.dp = 4, .ep = 4}, .training = {.sequence_length = 64}};
  s.plan.expert_capacity = 1.25;
  const std::int64_t copies = 64 * 2 * 96 * 2;
  EXPECT_EQ(messages_of(s, forward), (Messages{{{Slot::ep, Collective::all_to_allv}, copies * 5 / 4},
                                               {{Slot::ep, Collective::all_to_allv_back}, copies * 5 / 4}}));
}

// ---- compute ----

Duration computed(const Program& p, Work work) {
  Duration sum;
  for (const Stream& s : p.streams)
    for (const Operation& o : s.operations)
      if (o.kind == OperationKind::compute && o.activity == static_cast<std::uint8_t>(work))
        sum += picoseconds(o.amount);
  return sum;
}

RC_GTEST_PROP(Layers, all_of_the_compute_is_played_and_nothing_else, ()) {
  const Setting s = some_setting();
  const LayerCost& here_costs = s.cost.of(s.model.kind_of(0));
  const LayerCost& there_costs = s.cost.of(s.model.kind_of(1));
  RC_ASSERT(computed(play_on_track(s, forward), Work::compute) == here_costs.forward());
  RC_ASSERT(computed(play_on_track(s, backward), Work::compute) == here_costs.backward());
  RC_ASSERT(computed(play_on_track(s, split_backward), Work::compute) == here_costs.backward());
  RC_ASSERT(computed(play_on_track(s, both), Work::compute) == here_costs.forward() + there_costs.backward());
}

/// The input's gradient first, whole: what leaves to the stage before must not wait for a weight gradient.
RC_GTEST_PROP(Layers, the_halves_of_a_backward_are_its_input_and_weight_gradients, ()) {
  const Setting s = some_setting();
  const LayerCost& c = s.cost.of(s.model.kind_of(0));
  Duration input, weight;
  for_each_part(c, [&](const PartCost& p) {
    input += p.backward_input;
    weight += p.backward_weight;
  });
  RC_ASSERT(computed(play_on_track(s, [](LayerWriter& w) { w.backward_input(here); }), Work::compute) == input);
  RC_ASSERT(computed(play_on_track(s, [](LayerWriter& w) { w.backward_weight(here); }), Work::compute) == weight);
}

Setting with_recompute(bool experts, RecomputeModule module) {
  Setting s{.model = some_model(experts),
            .plan = {.tp = 2, .cp = 2, .dp = 4, .ep = 4, .sequence_parallel = true},
            .training = {.sequence_length = 64, .recompute = Recompute::selective, .recompute_modules = {module}}};
  if (!experts) s.plan.ep = 1;
  std::int64_t next = 1000;
  for (LayerCost& l : s.cost.layers)
    for_each_part(l, [&](PartCost& p) { p = {picoseconds(next++), picoseconds(next++), Duration{}}; });
  return s;
}

/// A checkpoint around a block plays its forward again with its collectives (Megatron-Core's modules `mlp`, `moe`).
TEST(Recompute, a_block_is_played_again_with_its_messages) {
  for (const bool experts : {false, true}) {
    const RecomputeModule module = experts ? RecomputeModule::experts : RecomputeModule::mlp;
    const Setting s = with_recompute(experts, module);
    const LayerCost& c = s.cost.of(s.model.kind_of(0));
    const Messages again = experts ? of_experts(s) : of_pairs(s, 1, true);
    const ExpertCost& x = c.experts;
    const Duration repeated =
        experts ? x.router.forward + x.permute.forward + x.in.forward + x.out.forward + x.unpermute.forward
                : c.mlp_in.forward + c.mlp_out.forward;
    for (const Steps& steps : {Steps(backward), Steps(split_backward)}) {
      EXPECT_EQ(messages_of(s, steps), expected_backward(s) + again);
      EXPECT_EQ(computed(play_on_track(s, steps), Work::recompute), repeated);
    }
  }
}

TEST(Recompute, attention_exchanges_keys_and_values_again) {
  Setting s = with_recompute(false, RecomputeModule::attention);
  LayerCost& c = s.cost.layers[LayerKind{}.index()];
  c.attention_recompute = c.core.forward;
  EXPECT_EQ(messages_of(s, backward), expected_backward(s) + of_context(s, true));
  EXPECT_EQ(computed(play_on_track(s, backward), Work::recompute), c.core.forward);
}

/// The projection's sum over ranks is scattered again, or reduced.
TEST(Recompute, projection_is_summed_again) {
  for (const bool sequence_parallel : {true, false}) {
    Setting s = with_recompute(false, RecomputeModule::projection);
    s.plan.sequence_parallel = sequence_parallel;
    const std::int64_t whole = 2 * 64 * s.model.hidden / s.plan.cp;
    const Collective sum = sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce;
    const Messages again = {{{Slot::tp, sum}, whole}};
    EXPECT_EQ(messages_of(s, backward), expected_backward(s) + again);
    EXPECT_EQ(computed(play_on_track(s, backward), Work::recompute), s.cost.of({}).projection.forward);
  }
}

/// What nobody reads is not played: the MLP's second product with its scatter, and the residual.
TEST(Recompute, pruned_it_ends_before_the_last_product) {
  Setting s = with_recompute(false, RecomputeModule::mlp);
  s.training.stack.prunes_recompute = true;
  const LayerCost& c = s.cost.of({});
  const std::int64_t whole = 2 * 64 * s.model.hidden / s.plan.cp;
  const Messages gather = {{{Slot::tp, Collective::all_gather}, whole}};
  EXPECT_EQ(messages_of(s, backward), expected_backward(s) + gather);
  EXPECT_EQ(computed(play_on_track(s, backward), Work::recompute), c.mlp_in.forward);
  s.training.recompute = Recompute::full;
  const auto again = [](LayerWriter& w) { w.forward(Work::recompute, "recompute", here); };
  EXPECT_EQ(computed(play_on_track(s, again), Work::recompute),
            computed(play_on_track(s, forward), Work::compute) - c.mlp_out.forward - c.mlp_residual.forward);
}

TEST(Recompute, latents_are_gathered_again) {
  Setting s = with_recompute(false, RecomputeModule::latent);
  s.model.latent = LatentAttention{.query_rank = 24, .kv_rank = 32, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
  LayerCost& c = s.cost.layers[LayerKind{}.index()];
  c.attention_recompute = c.qkv.forward;
  Setting kept = s;
  kept.training.recompute = Recompute::none;
  kept.cost.layers[LayerKind{}.index()].attention_recompute = {};
  const Messages latents = {{{Slot::tp, Collective::all_gather}, 2 * 64 / 2 * (24 + 32 + 4)}};
  EXPECT_EQ(messages_of(s, backward), messages_of(kept, backward) + latents);
  EXPECT_EQ(computed(play_on_track(s, backward), Work::recompute), c.qkv.forward);
}

// ---- time ----

Duration time_of(const Setting& s, const Steps& steps) { return measure(s, steps).step; }

Duration on_wire(std::int64_t size) { return seconds(static_cast<double>(size) / static_cast<double>(rate)); }
void expect_near(Duration actual, Duration expected) {
  EXPECT_NEAR(actual.seconds(), expected.seconds(), 1e-9 * expected.seconds() + 1e-10);
}

/// With a the attention of one step and x the time of its K and V: forward (c-1) max(a, x) + a; backward K and V leave
/// in all steps but the last and their gradients in all but the first, so 2 max(a, x) + (c-2) max(a, 2x). Nothing of it
/// is seen where attention takes longer.
TEST(Context, a_ring_hides_behind_its_attention) {
  for (const std::int64_t c : {2, 4})
    for (const std::int64_t step_us : {1, 20, 30, 50, 500}) {
      Setting s{.model = some_model(false), .plan = {.cp = c}, .training = {.sequence_length = 64 * c}};
      const Duration a = microseconds(static_cast<double>(step_us));
      const Duration x = on_wire(2 * 64 * 2 * 8 * 6);  // e b s/c, K and V of 8 heads: 12 us
      s.cost.layers[0].core = {.forward = a * c, .backward_input = a * c};
      expect_near(time_of(s, forward), (c - 1) * std::max(a, x) + a);
      expect_near(time_of(s, backward), 2 * std::max(a, x) + (c - 2) * std::max(a, 2 * x));
    }
}

/// The others wait for all keys, or all heads, first: (c-1)/c of a gathered message, and of an all-to-all.
TEST(Context, gathers_and_head_exchanges_are_seen_in_full) {
  const std::int64_t c = 4;
  Setting s{.model = some_model(false), .plan = {.cp = c}, .training = {.sequence_length = 64 * c}};
  const Duration attention = microseconds(100);
  s.cost.layers[0].core = {.forward = attention, .backward_input = attention};
  const std::int64_t share = 2 * 64;  // e b s/c
  const std::int64_t kv = 2 * 8 * 6, heads = 2 * 16 * 6;
  s.plan.context = ContextExchange::all_gather;
  expect_near(time_of(s, forward), attention + on_wire((c - 1) * share * kv));
  expect_near(time_of(s, backward), attention + on_wire(2 * (c - 1) * share * kv));
  s.plan.context = ContextExchange::all_to_all;
  expect_near(time_of(s, forward), attention + on_wire((c - 1) * share * (heads + kv) / c));
  expect_near(time_of(s, backward), attention + on_wire((c - 1) * share * (heads + kv) / c));
}

TotalTime communicated(const Measured& m) {
  TotalTime sum;
  for (const CommunicationRow& row : m.communication) sum += row.time;
  return sum;
}

/// Pieces of gather and scatter beside pieces of the product.
RC_GTEST_PROP(Overlap, of_tensor_parallelism_is_within_its_bounds, ()) {
  Setting s{.model = some_model(false),
            .plan = {.tp = *rc::gen::element(2, 4, 8), .sequence_parallel = true},
            .training = {.sequence_length = 64}};
  const auto duration = [] { return microseconds(*rc::gen::inRange(0, 100)); };
  LayerCost& c = s.cost.layers[0];
  c.qkv = c.projection = c.mlp_in = c.mlp_out = {duration(), duration(), duration()};
  for (const Steps& steps : {Steps(forward), Steps(backward)}) {
    s.plan.overlap.tp = false;
    const Duration serial = time_of(s, steps);
    s.plan.overlap.tp = true;
    const Measured m = measure(s, steps);
    const Duration slack = nanoseconds(1);  // rounding, a picosecond a call
    RC_ASSERT(m.step <= serial + slack);
    RC_ASSERT(m.step + slack >= computed(play_on_track(s, steps), Work::compute));
    RC_ASSERT((m.step + slack).seconds() >= communicated(m).seconds() / static_cast<double>(s.plan.tp));
  }
}

/// Around a ring of four: three steps of x beside pieces of q, one more piece; then the scatter in four splits of y,
/// the first of which waits for a piece and the last of which nothing hides.
TEST(Overlap, of_tensor_parallelism_leaves_the_last_split) {
  Setting s{.model = some_model(false),
            .plan = {.tp = 4, .sequence_parallel = true, .overlap = {.tp = true}},
            .training = {.sequence_length = 64}};
  const Duration x = on_wire(2 * 64 * 96 / 4);  // 1/t of e b s h: 3.072 us
  const Duration y = on_wire(3 * 2 * 64 * 96 / 4 / 4);
  for (const double us : {1.0, 3.0, 10.0}) {
    const Duration q = microseconds(us);
    s.cost.layers[0].qkv.forward = s.cost.layers[0].projection.forward = 4 * q;
    const Duration bare = 2 * on_wire(3 * 2 * 64 * 96 / 4);  // around an MLP that costs nothing
    expect_near(time_of(s, forward), 3 * std::max(x, q) + q + q + 3 * std::max(q, y) + y + bare);
  }
}

Setting mixture(bool overlap) {
  Setting s{.model = some_model(true),
            .plan = {.dp = 4, .ep = 4, .overlap = {.ep = overlap}},
            .training = {.sequence_length = 64}};
  s.model.layers = 2;
  return s;
}
/// One way of dispatch or combine: T k h e, of which 1/ep stays.
const Duration exchange = on_wire(64 * 2 * 96 * 2 * 3 / 4);

LayerCost& expert_costs(Setting& s) { return s.cost.layers[LayerKind{.experts = true}.index()]; }

TEST(Experts, dispatch_and_combine_are_seen_in_full) {
  Setting s = mixture(false);
  LayerCost& c = expert_costs(s);
  c.experts.in = {microseconds(30), microseconds(31), microseconds(32)};
  expect_near(time_of(s, forward), microseconds(30) + 2 * exchange);
  expect_near(time_of(s, backward), microseconds(63) + 2 * exchange);
}

/// Of gate, up and down two thirds run beside dispatch, one beside combine.
TEST(Experts, shared_ones_hide_behind_the_exchange_of_the_others) {
  for (const double us : {3.0, 30.0, 300.0}) {
    Setting s = mixture(true);
    s.model.activation = Activation::swiglu;
    s.model.experts->shared_ffn_hidden = 64;
    LayerCost& c = expert_costs(s);
    c.experts.in.forward = microseconds(30);
    c.experts.shared.forward = microseconds(3 * us);
    const Duration third = microseconds(us);
    expect_near(time_of(s, forward), microseconds(30) + std::max(2 * third, exchange) + std::max(third, exchange));
    s.plan.overlap.ep = false;
    expect_near(time_of(s, forward), microseconds(30) + 3 * third + 2 * exchange);
  }
}

/// attention F | experts B, W, experts F | attention B, over combine B | dispatch F, dispatch B | combine F.
TEST(Overlap, of_a_forward_and_a_backward_hides_what_fits) {
  for (const double us : {1.0, 10.0, 18.0, 25.0, 40.0, 100.0}) {
    Setting s = mixture(true);
    LayerCost& c = expert_costs(s);
    const Duration a = microseconds(us);
    c.qkv = {a, a, Duration{}};
    c.experts.in = {a, a, a};
    // combine B beside attention F, dispatch F beside experts B and W, but ahead of dispatch B; that one is done when
    // attention B may start, behind experts F; combine F beside attention B.
    const Duration x = exchange;
    const Duration products_begin = std::max(a, x);
    const Duration dispatch_forward = products_begin + x;  // behind combine B on the same stream
    const Duration input_done = products_begin + a;
    const Duration dispatch_backward = std::max(dispatch_forward, input_done) + x;
    const Duration forward_done = std::max(input_done + a, dispatch_forward) + a;
    const Duration combine_forward = std::max(forward_done, dispatch_backward) + x;
    const Duration attention_done = std::max(forward_done, dispatch_backward) + a;
    expect_near(time_of(s, both), std::max(attention_done, combine_forward));
  }
}

RC_GTEST_PROP(Overlap, of_a_forward_and_a_backward_is_within_its_bounds, ()) {
  Setting s = mixture(true);
  s.cost = some_cost(s.model);
  s.model.experts->first_dense = *rc::gen::element(0, 1, 2);  // none, one or both of the two layers are dense
  const Measured m = measure(s, both);
  const Duration slack = nanoseconds(1);
  const Duration serial = time_of(s, forward) + time_of(s, [](LayerWriter& w) { w.backward(there); });
  RC_ASSERT(m.step <= serial + slack);
  RC_ASSERT(m.step + slack >= computed(play_on_track(s, both), Work::compute));
  RC_ASSERT((m.step + slack).seconds() >= communicated(m).seconds() / static_cast<double>(s.plan.ranks()));
}

}  // namespace
}  // namespace foretrain
