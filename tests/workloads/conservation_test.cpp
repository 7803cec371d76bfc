// Whatever legal plan a step is generated from: it ends, the account adds up, memory returns to the states, and all
// ranks together compute the model's FLOPs and send the bytes that closed forms say.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "sim/simulate.h"
#include "tests/support/small_fabric.h"
#include "tests/workloads/any_plan.h"
#include "tests/workloads/gpus.h"
#include "workloads/cost/flops.h"
#include "workloads/expert_routing.h"
#include "workloads/generate.h"
#include "workloads/memory.h"
#include "workloads/parameters.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

using namespace test;

/// With the exchange of tokens that a plan's experts have on servers of one GPU.
Workload workload_of(const Drawn& d, const StageCost& cost, const Gpu& gpu = h100_80gb()) {
  Workload w = generate(d.model, d.plan, d.training, gpu, cost, true);
  std::vector<std::uint32_t> node_of(w.job.ranks.size());
  std::iota(node_of.begin(), node_of.end(), 0U);
  set_expert_exchanges(d.model, d.plan, node_of, w.job);
  return w;
}

Measured play(const Drawn& d, const Workload& w) {
  const Fabric fabric = build({.nodes = static_cast<std::uint32_t>(d.plan.ranks()), .gpus = 1});
  return simulate(fabric, Transport{}, w.job, {});
}

// ---- time and memory ----

RC_GTEST_PROP(AnyPlan, EndsWithAnAccountThatAddsUp, ()) {
  const Drawn d = any_drawn();
  Gpu gpu = h100_80gb();
  gpu.contention = *rc::gen::element(0.0, 0.57);
  const Workload w = workload_of(d, stage_cost(gpu, d.model, d.plan, d.training, 1), gpu);
  RC_ASSERT(w.job.check().empty());
  const Measured m = play(d, w);
  for (const RankAccount& a : m.ranks) {
    Duration sum = a.tail;
    for (const auto* parts : {&a.busy, &a.exposed, &a.waiting})
      for (const Duration part : *parts) sum += part;
    RC_ASSERT(sum == m.step);
  }
}

Bytes left_at_the_end(const Program& p, bool states) {
  Bytes left;
  for (const Operation& o : p.streams.front().operations)
    if (o.kind == OperationKind::memory && states == (o.part <= static_cast<std::uint8_t>(MemoryPart::optimizer)))
      left += bytes(o.amount);
  return left;
}

RC_GTEST_PROP(AnyPlan, MemoryEndsWithTheStates, ()) {
  const Drawn d = any_drawn();
  const Workload w = workload_of(d, StageCost{});
  const PipelineShape shape = pipeline_shape(d.plan, d.training);
  for (std::int64_t rank = 0; rank < d.plan.pp; ++rank) {
    RankParameters parameters;
    for (std::int32_t c = 0; c < shape.chunks; ++c)
      parameters += stage_rank_parameters(d.model, d.plan, stage_of(shape, rank, c));
    const Program& program = w.job.programs[static_cast<std::size_t>(rank)];
    RC_ASSERT(left_at_the_end(program, true) == state_bytes(parameters, d.plan, d.training).total());
    RC_ASSERT(left_at_the_end(program, false) == Bytes{});
  }
}

// ---- FLOPs ----

/// Durations that count FLOPs: a picosecond each.
class FlopCost {
 public:
  explicit FlopCost(const Drawn& d) : d_(d) {}

  [[nodiscard]] StageCost cost() const {
    StageCost cost;
    for (const LayerKind kind : all_layer_kinds)
      if ((!kind.experts || d_.model.experts) && (!kind.windowed || d_.model.window))
        cost.layers[kind.index()] = layer(kind);
    cost.end.output = linear(tokens() * d_.model.hidden, padded_vocabulary(d_.model, d_.plan));
    cost.end.mtp = linear(tokens() * 2 * d_.model.hidden, d_.model.hidden);
    return cost;
  }

 private:
  [[nodiscard]] std::int64_t tokens() const {
    return d_.training.microbatch * d_.training.sequence_length / d_.plan.cp;
  }
  [[nodiscard]] std::int64_t shard_tokens() const { return tokens() / (d_.plan.sequence_parallel ? d_.plan.tp : 1); }
  static PartCost whole(std::int64_t macs) {
    const Duration one = picoseconds(2 * macs);
    return {one, one, one};
  }
  [[nodiscard]] PartCost linear(std::int64_t rows_in, std::int64_t out) const {
    return whole(rows_in * out / d_.plan.tp);
  }

  [[nodiscard]] LayerCost layer(LayerKind kind) const {
    const Model& m = d_.model;
    LayerCost c;
    if (m.latent) {
      const LatentAttention& l = *m.latent;
      c.down = whole(shard_tokens() * m.hidden * (l.query_rank + l.kv_rank + l.rope_dim));
      c.qkv = linear(tokens() * (l.query_rank > 0 ? l.query_rank : m.hidden), m.query_width()) +
              linear(tokens() * l.kv_rank, m.heads * (l.nope_dim + l.value_dim));
    } else {
      c.qkv = linear(tokens() * m.hidden, m.query_width() + m.key_width() + m.value_width());
    }
    const double keys = keys_met(m, kind, static_cast<double>(d_.training.sequence_length), AttentionFlops::causal);
    const Duration core = picoseconds(
        std::llround(2 * keys * static_cast<double>(tokens() * m.heads / d_.plan.tp * (m.qk_dim() + m.value_dim()))));
    c.core = {core, core * 2, {}};
    c.projection = linear(tokens() * m.attention_width(), m.hidden);
    const std::int64_t first = m.gated() ? 2 : 1;
    if (kind.experts) {
      const Experts& e = *m.experts;
      const std::int64_t rows = tokens() * e.topk * d_.plan.etp / d_.plan.tp;
      c.experts.router = whole(shard_tokens() * m.hidden * e.count);
      c.experts.in = whole(rows * m.hidden * first * e.ffn_hidden / d_.plan.etp);
      c.experts.out = whole(rows * m.hidden * e.ffn_hidden / d_.plan.etp);
      c.experts.shared = linear(tokens() * m.hidden, (first + 1) * e.shared_ffn_hidden);
    } else {
      c.mlp_in = linear(tokens() * m.hidden, first * m.ffn_hidden);
      c.mlp_out = linear(tokens() * m.hidden, m.ffn_hidden);
    }
    if (again(RecomputeModule::attention)) c.attention_recompute += c.core.forward;
    if (again(RecomputeModule::latent) && m.latent) c.attention_recompute += c.qkv.forward;
    return c;
  }

  [[nodiscard]] bool again(RecomputeModule module) const {
    const auto& modules = d_.training.recompute_modules;
    return d_.training.recompute == Recompute::selective &&
           std::find(modules.begin(), modules.end(), module) != modules.end();
  }

  const Drawn& d_;
};

double flops_of(const Measured& m, Work work) {
  double sum = 0;
  for (const RankAccount& a : m.ranks) sum += static_cast<double>(a.busy[static_cast<std::size_t>(work)].ps());
  return sum;
}

/// Logits of the padded vocabulary; without sequence parallelism MLA's down-projections on every TP rank.
double padding_and_copies(const Drawn& d) {
  const Model& m = d.model;
  const double tokens = static_cast<double>(d.training.global_batch * d.training.sequence_length);
  const double columns = static_cast<double>((padded_vocabulary(m, d.plan) - m.vocabulary) * (1 + m.mtp_layers));
  double macs = tokens * static_cast<double>(m.hidden) * columns;
  if (m.latent && !d.plan.sequence_parallel) {
    const std::int64_t width = m.latent->query_rank + m.latent->kv_rank + m.latent->rope_dim;
    macs += tokens * static_cast<double>((d.plan.tp - 1) * m.hidden * width * (m.layers + m.mtp_layers));
  }
  return 2 * macs;
}

RC_GTEST_PROP(AnyPlan, AllRanksComputeTheModelsFlops, ()) {
  Drawn d = any_drawn();
  d.training.attention_flops = AttentionFlops::causal;
  const Measured m = play(d, workload_of(d, FlopCost(d).cost()));
  const double forward = forward_flops(d.model, d.training.sequence_length, AttentionFlops::causal).total() *
                             static_cast<double>(d.training.global_batch) +
                         padding_and_copies(d);
  RC_ASSERT(std::abs(flops_of(m, Work::compute) / (3 * forward) - 1) < 1e-12);
  // The copies that every rank of a group makes again are no FLOPs of the model either.
  RC_PRE(!d.model.latent || d.plan.sequence_parallel || d.plan.tp == 1);
  const double again = recomputed_flops(d.model, d.plan, d.training);
  RC_ASSERT(std::abs(flops_of(m, Work::recompute) - again) <= 1e-12 * again);
}

// ---- bytes ----

using Messages = std::map<std::pair<Slot, Collective>, std::int64_t>;  ///< bytes; what is never called is not there

/// Of one pipeline: every program once.
Messages messages_of(const Workload& w) {
  Messages sums;
  for (const Program& p : w.job.programs)
    for (const Stream& s : p.streams)
      for (const Operation& o : s.operations)
        if (o.kind == OperationKind::communicate) sums[{static_cast<Slot>(o.slot), o.op}] += o.amount;
  return sums;
}

/// What a layer's passes send, microbatch by microbatch, as docs/parallelism.md has it.
class Expected {
 public:
  explicit Expected(const Drawn& d)
      : d_(d),
        whole_(d.training.microbatch * d.training.sequence_length / d.plan.cp * element() * d.model.hidden),
        microbatches_(microbatches(d.plan, d.training)) {}

  [[nodiscard]] Messages tensor_context_and_experts() && {
    std::int64_t layer = 0;
    for (const std::int64_t layers : layers_by_stage(d_.model, d_.plan))
      for (std::int64_t l = 0; l < layers; ++l, ++layer) passes(d_.model.kind_of(layer), recomputed(l));
    const bool uniform = d_.training.recompute_method == RecomputeMethod::uniform;
    for (std::int64_t l = 0; l < d_.model.mtp_layers; ++l)
      passes(d_.model.kind_of(d_.model.layers + l), d_.training.recompute == Recompute::full && uniform);
    ends();
    std::erase_if(sums_, [](const auto& sum) { return sum.second == 0; });
    return std::move(sums_);
  }

 private:
  [[nodiscard]] std::int64_t element() const { return d_.training.precision == Precision::fp32 ? 4 : 2; }
  [[nodiscard]] bool sequence_parallel() const { return d_.plan.sequence_parallel; }
  void add(Slot slot, Collective op, std::int64_t size) { sums_[{slot, op}] += microbatches_ * size; }
  void tensor(Collective op, std::int64_t size) {
    if (d_.plan.tp > 1) add(Slot::tp, op, size);
  }

  [[nodiscard]] bool selects(RecomputeModule module) const {
    const auto& modules = d_.training.recompute_modules;
    return d_.training.recompute == Recompute::selective &&
           std::find(modules.begin(), modules.end(), module) != modules.end();
  }
  [[nodiscard]] bool recomputed(std::int64_t layer_of_stage) const {
    return d_.training.recompute == Recompute::full &&
           (d_.training.recompute_method == RecomputeMethod::uniform || layer_of_stage < d_.training.recompute_layers);
  }

  void passes(LayerKind kind, bool whole_again) {
    for (int times = 0; times < (whole_again ? 2 : 1); ++times) {
      pair_forward(latents());
      context(true);
      block_forward(kind);
    }
    if (selects(RecomputeModule::attention)) context(true);
    if (selects(RecomputeModule::latent) && d_.model.latent && sequence_parallel())
      tensor(Collective::all_gather, latents());
    if (selects(kind.experts ? RecomputeModule::experts : RecomputeModule::mlp)) block_forward(kind);
    pair_backward(latents());
    context(false);
    if (has_pair(kind)) pair_backward(whole_);
    if (kind.experts) experts();
  }

  void block_forward(LayerKind kind) {
    if (has_pair(kind)) pair_forward(whole_);
    if (kind.experts) experts();
  }
  [[nodiscard]] bool has_pair(LayerKind kind) const { return !kind.experts || d_.model.experts->shared_ffn_hidden > 0; }

  /// What is gathered before QKV: the activation, or MLA's latents.
  [[nodiscard]] std::int64_t latents() const {
    if (!d_.model.latent) return whole_;
    const LatentAttention& l = *d_.model.latent;
    return whole_ / d_.model.hidden * ((l.query_rank > 0 ? l.query_rank : d_.model.hidden) + l.kv_rank + l.rope_dim);
  }

  /// Korthikanti 2022, section 4.2.2.
  void pair_forward(std::int64_t input) {
    if (!sequence_parallel()) return tensor(Collective::all_reduce, whole_);
    tensor(Collective::all_gather, input);
    tensor(Collective::reduce_scatter, whole_);
  }
  void pair_backward(std::int64_t input) {
    if (!sequence_parallel()) return tensor(Collective::all_reduce, input);
    tensor(Collective::all_gather, whole_ + input);
    tensor(Collective::reduce_scatter, input);
  }

  void context(bool forward) {
    const std::int64_t c = d_.plan.cp;
    if (c == 1) return;
    const std::int64_t share = whole_ / d_.model.hidden / d_.plan.tp;
    const std::int64_t kv = share * (d_.model.key_width() + d_.model.value_width());
    switch (d_.plan.context) {
      case ContextExchange::ring:
        return add(Slot::cp, Collective::shift, (forward ? 1 : 2) * (c - 1) * kv);
      case ContextExchange::all_gather:
        add(Slot::cp, Collective::all_gather, c * kv);
        return add(Slot::cp, Collective::reduce_scatter, forward ? 0 : c * kv);
      case ContextExchange::all_to_all:
        return add(Slot::cp, Collective::all_to_all,
                   kv + share * (d_.model.query_width() + d_.model.attention_width()));
    }
  }

  /// To the experts and back. With tp > 1 there is sequence parallelism.
  void experts() {
    const Plan& p = d_.plan;
    const bool gathered = p.experts == ExpertExchange::all_gather;
    const std::int64_t sent = whole_ / p.tp * (gathered ? p.ep : d_.model.experts->topk);
    if (p.ep > 1) {
      add(Slot::ep, gathered ? Collective::all_gather : Collective::all_to_allv, sent);
      add(Slot::ep, gathered ? Collective::reduce_scatter : Collective::all_to_allv_back, sent);
    }
    if (p.etp > 1) {
      add(Slot::etp, Collective::all_gather, sent * p.etp);
      add(Slot::etp, Collective::reduce_scatter, sent * p.etp);
    }
  }

  /// Embedding and logits are split by vocabulary; the loss needs three numbers a token.
  void ends() {
    const Collective reduction = sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce;
    const std::int64_t outputs = 1 + d_.model.mtp_layers;
    tensor(reduction, whole_ * (1 + outputs));
    if (sequence_parallel()) tensor(Collective::all_gather, whole_ * (1 + outputs));
    tensor(Collective::all_reduce, outputs * 3 * 4 * d_.training.microbatch * d_.training.sequence_length / d_.plan.cp);
  }

  const Drawn& d_;
  std::int64_t whole_;  ///< e b s h / c
  std::int64_t microbatches_;
  Messages sums_;
};

/// Ranks of a pipeline that hold the same stage.
std::int64_t holders(const Drawn& d) { return placement_of(d.plan.schedule) == Placement::bidirectional ? 2 : 1; }

/// Boundaries between stages that messages cross: none at the turn of a V.
std::int64_t boundaries(const Drawn& d) {
  const PipelineShape shape = pipeline_shape(d.plan, d.training);
  if (shape.ranks == 1) return 0;
  return stage_count(shape) - 1 - (shape.placement == Placement::vee ? 1 : 0);
}

std::int64_t sum_of(const Messages& sums, std::initializer_list<Slot> slots, std::optional<Collective> op = {}) {
  std::int64_t total = 0;
  for (const auto& [key, size] : sums)
    if (std::find(slots.begin(), slots.end(), key.first) != slots.end() && (!op || key.second == *op)) total += size;
  return total;
}

RC_GTEST_PROP(AnyPlan, SendsTheBytesOfItsLayers, ()) {
  const Drawn d = any_drawn();
  Messages sent = messages_of(workload_of(d, StageCost{}));
  const std::int64_t messages = 2 * microbatches(d.plan, d.training) * boundaries(d);
  const std::int64_t message = pipeline_message(d.model, d.plan, d.training).count();
  RC_ASSERT(sum_of(sent, {Slot::forward_to_next, Slot::forward_to_previous, Slot::backward_to_next,
                          Slot::backward_to_previous}) == messages * message);
  Messages expected = Expected(d).tensor_context_and_experts();
  if (d.plan.tp > 1 && !d.plan.sequence_parallel && messages > 0)  // the shards sent are put together
    expected[{Slot::tp, Collective::all_gather}] += messages * message * d.plan.tp;
  if (d.plan.tp > 1 && d.plan.sequence_parallel) {  // what is whole on every rank saw other tokens on each
    std::int64_t whole = d.model.norm_parameters(d.model.hidden);  // the last norm
    for (std::int64_t l = 0; l < d.model.layers; ++l) whole += whole_layer_parameters(d.model, d.model.kind_of(l));
    expected[{Slot::tp, Collective::all_reduce}] += gradient_bytes(d.training) * holders(d) * whole;
  }
  for (const auto& [key, size] : sent)
    if (key.first <= Slot::etp) RC_ASSERT(expected[key] == size);
  for (const auto& [key, size] : expected) RC_ASSERT(sent[key] == size);
}

/// Parameters of all stages on the ranks of one pipeline; those that are held twice count twice.
RankParameters held_by_pipeline(const Drawn& d) {
  const PipelineShape shape = pipeline_shape(d.plan, d.training);
  RankParameters sum;
  for (std::int64_t r = 0; r < shape.ranks; ++r)
    for (std::int32_t c = 0; c < shape.chunks; ++c)
      sum += stage_rank_parameters(d.model, d.plan, stage_of(shape, r, c));
  return sum;
}

/// Rajbhandari 2020, section 7: ZeRO 0 to 2 move 2 N elements a step (all-reduce, or reduce-scatter and all-gather),
/// ZeRO 3 gathers once more. DeepSpeed's ZeRO 1 and 2 all-reduce all the same.
RC_GTEST_PROP(AnyPlan, ReducesItsGradientsAndGathersItsParameters, ()) {
  const Drawn d = any_drawn();
  const Messages sent = messages_of(workload_of(d, StageCost{}));
  const RankParameters held = held_by_pipeline(d);
  const PipelineShape shape = pipeline_shape(d.plan, d.training);
  const bool pipelined = d.plan.pp * shape.chunks > 1;
  const bool each = d.plan.gradient_sync == GradientSync::each && !(d.plan.zero == 3 && pipelined);
  // Each microbatch passes one of the ranks that hold a stage; at the end of a step all of them reduce.
  const std::int64_t times = each ? microbatches(d.plan, d.training) : holders(d);
  const auto expect = [&](Slot slot, std::int64_t ranks, std::int64_t parameters) {
    const bool reduces = ranks > 1;
    const bool all = d.plan.zero == 0 || (d.training.stack.framework == Framework::deepspeed && d.plan.zero < 3);
    const Collective op = all ? Collective::all_reduce : Collective::reduce_scatter;
    RC_ASSERT(sum_of(sent, {slot}, op) == (reduces ? gradient_bytes(d.training) * parameters / holders(d) * times : 0));
    const std::int64_t element = activation_bytes(d.training.precision);
    if (d.plan.zero < 3)
      RC_ASSERT(sum_of(sent, {slot}, Collective::all_gather) ==
                (reduces && d.plan.zero > 0 ? element * parameters : 0));
    else if (pipelined)  // stages stay gathered while they are among the next three
      RC_ASSERT(sum_of(sent, {slot}, Collective::all_gather) == (reduces ? element * parameters : 0));
  };
  expect(Slot::dp, d.plan.shard_ranks(), held.dense);
  if (d.model.experts) expect(Slot::edp, d.plan.expert_shard_ranks(), held.expert);
  // What a group has reduced is summed over the groups, in shares that are rounded up, call by call.
  const auto expect_across = [&](Slot slot, std::int64_t set, std::int64_t replicas, std::int64_t parameters) {
    const double shares =
        static_cast<double>(gradient_bytes(d.training) * parameters / holders(d) * times) / static_cast<double>(set);
    const auto across = static_cast<double>(sum_of(sent, {slot}));
    if (set == replicas)
      RC_ASSERT(across == 0);
    else
      RC_ASSERT(across >= shares && across <= 1.01 * shares);
  };
  expect_across(Slot::dp_replica, d.plan.shard_ranks(), d.plan.replicas(), held.dense);
  if (d.model.experts)
    expect_across(Slot::edp_replica, d.plan.expert_shard_ranks(), d.plan.expert_replicas(), held.expert);
}

/// FSDP: each microbatch gathers every layer for its forward and again for its backward, unless they stay; PyTorch's
/// root (embedding and output) stays.
RC_GTEST_PROP(AnyPlan, FullyShardedUnitsAreGatheredTwice, ()) {
  Drawn d = any_drawn();
  d.plan.zero = 3;
  d.plan.pp = 1;
  d.plan.schedule = {ScheduleKind::one_f_one_b, 1};
  d.plan.stage_layers = {};
  RC_PRE(check(d.model, d.plan, d.training, d.plan.ranks()).empty());
  const std::int64_t m = microbatches(d.plan, d.training);
  RankParameters ends = embedding_rank_parameters(d.model, d.plan);
  ends += output_rank_parameters(d.model, d.plan);
  ends += mtp_rank_parameters(d.model, d.plan);
  const RankParameters all = stage_rank_parameters(d.model, d.plan, 0);
  const bool again = d.plan.sharding.reshard_after_forward;
  const auto expected = [&](std::int64_t whole, std::int64_t root) {
    const std::int64_t layers = whole - root;
    return m * (again ? 2 * layers + (d.training.stack.framework == Framework::fsdp ? 1 : 2) * root : whole);
  };
  const Messages sent = messages_of(workload_of(d, StageCost{}));
  const std::int64_t element = activation_bytes(d.training.precision);
  RC_ASSERT(sum_of(sent, {Slot::dp}, Collective::all_gather) ==
            (d.plan.shard_ranks() > 1 ? element * expected(all.dense, ends.dense) : 0));
  RC_ASSERT(sum_of(sent, {Slot::edp}, Collective::all_gather) ==
            (d.plan.expert_shard_ranks() > 1 ? element * expected(all.expert, ends.expert) : 0));
}

}  // namespace
}  // namespace foretrain
