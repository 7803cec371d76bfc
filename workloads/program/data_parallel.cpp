#include "workloads/program/data_parallel.h"

#include <algorithm>
#include <numeric>

#include "workloads/memory/split_backward.h"
#include "workloads/memory/states.h"
#include "workloads/program/booking.h"

namespace foretrain {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool makes_weights(const Action& a) { return a.pass == Pass::backward || a.pass == Pass::backward_weight; }

}  // namespace

DataParallelWriter::DataParallelWriter(const Stage& stage, Track& track, std::span<const Action> list)
    : stage_(stage), track_(track), list_(list) {
  for (std::int32_t c = 0; c < stage.chunks(); ++c) {
    Chunk& chunk = chunks_.emplace_back();
    for (const RankParameters& p : stage.units(c)) chunk.units.push_back({.parameters = p});
  }
  for (const Action& a : list)
    if (makes_weights(a)) chunk_of(a).last_weights = a;  // the last one stays
}

// ---- what and when ----

/// The order in which all members of a group call for what they hold: where two ranks hold the same stages, one's first
/// chunk is the other's second.
std::vector<std::int32_t> DataParallelWriter::chunks_by_stage() const {
  std::vector<std::int32_t> order(chunks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int32_t a, std::int32_t b) { return stage_.stage_of(a) < stage_.stage_of(b); });
  return order;
}

/// Megatron-Core cuts buckets on the first pipeline rank's first chunk only: elsewhere the traffic sits in the bubble
/// (`--ddp-bucket-size`, `align_grad_reduce`). The others cut everywhere.
bool DataParallelWriter::cuts_buckets(std::int32_t chunk) const {
  if (!plan().overlap.dp || held_twice()) return false;
  return stage_.in.training.stack.framework != Framework::megatron || (stage_.rank == 0 && chunk == 0);
}

/// Of an action that makes gradients of weights. In a pipeline, fully sharded chunks reduce once a step too
/// (torch.distributed.pipelining, REDUCE_GRAD).
bool DataParallelWriter::reduces_after(const Action& a) {
  const bool each = plan().gradient_sync == GradientSync::each && !(fully_sharded() && in_pipeline());
  return each || a == chunk_of(a).last_weights;
}

/// The output layer's weight gradients are made behind the last backward.
bool DataParallelWriter::completes_late(const Action& a) const {
  return stage_.is_last(a.chunk) && has_late_output_gradient(plan(), stage_.in.training);
}

/// PyTorch keeps the root group, which holds the embedding and the output, as backward needs it next.
bool DataParallelWriter::stays_after_forward(const Action& a, std::size_t unit) {
  if (!plan().sharding.reshard_after_forward) return true;
  const bool root = (stage_.is_first(a.chunk) && unit == Stage::unit_of_embedding) ||
                    (stage_.is_last(a.chunk) && unit == stage_.unit_of_output(a.chunk));
  return root && stage_.in.training.stack.framework == Framework::fsdp;
}

Bytes DataParallelWriter::parameter_bytes(const RankParameters& p) const {
  return bytes(activation_bytes(stage_.in.training.precision) * p.total());
}

/// As backward makes them, and beside it, where they differ, the copy that is reduced.
Bytes DataParallelWriter::made_gradient_bytes(const RankParameters& p) const {
  const std::int64_t made = activation_bytes(stage_.in.training.precision);
  const std::int64_t reduced = gradient_bytes(stage_.in.training);
  return bytes((made == reduced ? made : made + reduced) * p.total());
}

/// Between the microbatches of a step that exchanges once: FSDP2 adds up in what it reduces in
/// (`to_accumulated_grad_if_needed`).
Bytes DataParallelWriter::accumulated_gradient_bytes(const RankParameters& p) const {
  return bytes(gradient_bytes(stage_.in.training) * p.total());
}

// ---- parameters ----

std::vector<Event> DataParallelWriter::gather_calls(const RankParameters& p, Place where,
                                                    std::span<const Event> after) {
  const std::int64_t element = activation_bytes(stage_.in.training.precision);
  std::vector<Event> done;
  const auto call = [&](Slot slot, std::int64_t ranks, std::int64_t parameters) {
    if (ranks == 1 || parameters == 0) return;
    const Bytes all = bytes(element * parameters);
    if (!broadcasts_parameters()) {
      done.push_back(track_.post(slot, "parameters", Collective::all_gather, all, where, after));
      return;
    }
    for (std::int64_t owner = 0; owner < ranks; ++owner) {
      track_.delay(slot, "host", stage_.in.training.stack.owner_broadcast, where, after);
      const Event sent = track_.post(slot, "parameters", Collective::broadcast, cut(all, ranks, owner), where);
      if (owner + 1 == ranks) done.push_back(sent);
    }
  };
  call(Slot::dp, plan().shard_ranks(), p.dense);
  call(Slot::edp, plan().expert_shard_ranks(), p.expert);
  return done;
}

void DataParallelWriter::gather(Unit& unit, Place where) {
  if (unit.here) return;
  unit.here = true;
  track_.memory("gathered", MemoryPart::buffers, parameter_bytes(unit.parameters), where);
  unit.gathered = gather_calls(unit.parameters, where, track_.now());
}

/// A unit, and as many beyond it as are gathered ahead.
void DataParallelWriter::gather_from(const Action& a, std::size_t unit, int direction) {
  std::vector<Unit>& units = chunk_of(a).units;
  for (std::int64_t ahead = 0; ahead <= plan().sharding.prefetch; ++ahead) {
    const std::int64_t u = static_cast<std::int64_t>(unit) + direction * ahead;
    if (u >= 0 && u < static_cast<std::int64_t>(units.size()))
      gather(units[static_cast<std::size_t>(u)], Stage::place(a));
  }
}

void DataParallelWriter::release(Unit& unit, Place where) {
  if (!unit.here) return;
  unit.here = false;
  track_.memory("gathered", MemoryPart::buffers, -parameter_bytes(unit.parameters), where);
}

void DataParallelWriter::use(Unit& unit) {
  for (const Event e : unit.gathered) track_.hold(e);
  unit.gathered.clear();
}

/// In a pipeline the chunks of the next three different stages of the list stay gathered
/// (torch/distributed/pipelining/schedules.py, `_add_unshard_reshard`).
void DataParallelWriter::keep_window() {
  constexpr std::size_t stages_ahead = 3;
  std::vector<std::int32_t> window;
  for (std::size_t i = next_; i < list_.size() && window.size() < stages_ahead; ++i)
    if (std::find(window.begin(), window.end(), list_[i].chunk) == window.end()) window.push_back(list_[i].chunk);
  for (std::int32_t c = 0; c < stage_.chunks(); ++c) {
    if (std::find(window.begin(), window.end(), c) != window.end()) continue;
    for (Unit& unit : chunks_[static_cast<std::size_t>(c)].units) release(unit, Stage::place(c));
  }
  for (const std::int32_t c : window)
    for (Unit& unit : chunks_[static_cast<std::size_t>(c)].units) gather(unit, Stage::place(c));
}

/// With ZeRO 1 and 2 the parameters that the last step updated come in buckets in the order of their use; broadcast, a
/// chunk's at once.
void DataParallelWriter::begin_step() {
  if (!stage_.in.optimizer || !plan().overlap.dp || (plan().zero != 1 && plan().zero != 2)) return;
  for (const std::int32_t c : chunks_by_stage()) {
    std::vector<Unit>& units = chunks_[static_cast<std::size_t>(c)].units;
    RankParameters bucket;
    std::size_t first = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      bucket += units[u].parameters;
      const bool full = cuts_buckets(c) && !broadcasts_parameters() && bucket.total() >= plan().bucket_parameters;
      if (!full && u + 1 < units.size()) continue;
      units[first].gathered = gather_calls(bucket, Stage::place(c), {});
      bucket = {};
      first = u + 1;
    }
  }
}

void DataParallelWriter::begin(const Action& /*a*/) {
  if (fully_sharded() && in_pipeline()) keep_window();
  ++next_;
}

void DataParallelWriter::before_forward(const Action& a, std::size_t unit) {
  if (fully_sharded() && !in_pipeline()) gather_from(a, unit, 1);
  use(chunk_of(a).units[unit]);
}

void DataParallelWriter::after_forward(const Action& a, std::size_t unit) {
  if (fully_sharded() && !in_pipeline() && !stays_after_forward(a, unit))
    release(chunk_of(a).units[unit], Stage::place(a));
}

void DataParallelWriter::before_backward(const Action& a, std::size_t unit) {
  Unit& u = chunk_of(a).units[unit];
  if (fully_sharded() && !in_pipeline()) gather_from(a, unit, -1);
  use(u);
  if (frees_gradients() && makes_weights(a) && stage_.in.optimizer)
    hold_gradients(u, made_gradient_bytes(u.parameters), Stage::place(a));
}

void DataParallelWriter::after_backward(const Action& a, std::size_t unit) {
  if (fully_sharded() && !in_pipeline() && makes_weights(a)) release(chunk_of(a).units[unit], Stage::place(a));
  if (!stage_.in.optimizer || !makes_weights(a)) return;
  Unit& u = chunk_of(a).units[unit];
  if (!reduces_after(a)) {
    if (frees_gradients()) hold_gradients(u, accumulated_gradient_bytes(u.parameters), Stage::place(a));
  } else if (frees_gradients()) {
    reduce_unit(a, unit);
  } else {
    reduce_bucket(a, unit);
  }
}

// ---- gradients ----

void DataParallelWriter::hold_gradients(Unit& unit, Bytes held, Place where) {
  track_.memory("gradients", MemoryPart::buffers, held - unit.gradients, where);
  unit.gradients = held;
}

/// DeepSpeed's ZeRO 1 and 2 reduce everything everywhere and keep their part (`use_multi_rank_bucket_allreduce`). With
/// HSDP every shard is then summed over the groups that hold it.
std::optional<Event> DataParallelWriter::reduce_over(const Holders& holders, std::int64_t parameters, Place where) {
  if (parameters == 0) return std::nullopt;
  const std::int64_t element = gradient_bytes(stage_.in.training);
  std::optional<Event> inside;
  if (holders.shards > 1) {
    const bool all =
        plan().zero == 0 || (stage_.in.training.stack.framework == Framework::deepspeed && plan().zero < 3);
    const Collective op = all ? Collective::all_reduce : Collective::reduce_scatter;
    inside = track_.call(holders.inside, "gradients", op, bytes(element * parameters), where);
  }
  if (holders.replicas == holders.shards) return inside;
  const std::vector<Event> after = inside ? std::vector{*inside} : track_.now();
  const Bytes shard = bytes(element * divided_up(parameters, holders.shards));
  return track_.post(holders.across, "gradients", Collective::all_reduce, shard, where, after);
}

std::vector<Event> DataParallelWriter::reduce(const RankParameters& p, Place where) {
  const Holders dense{Slot::dp, Slot::dp_replica, plan().shard_ranks(), plan().replicas()};
  const Holders expert{Slot::edp, Slot::edp_replica, plan().expert_shard_ranks(), plan().expert_replicas()};
  std::vector<Event> done;
  if (const auto event = reduce_over(dense, p.dense, where)) done.push_back(*event);
  if (const auto event = reduce_over(expert, p.expert, where)) done.push_back(*event);
  return done;
}

void DataParallelWriter::reduce_unit(const Action& a, std::size_t unit) {
  Unit& u = chunk_of(a).units[unit];
  for (const Event e : unit_reductions_) track_.hold(e);
  unit_reductions_ = reduce(u.parameters, Stage::place(a));
  if (!plan().overlap.dp)
    for (const Event e : std::exchange(unit_reductions_, {})) track_.hold(e);
  hold_gradients(u, {}, Stage::place(a));
}

void DataParallelWriter::reduce_bucket(const Action& a, std::size_t unit) {
  Chunk& chunk = chunk_of(a);
  chunk.pending += chunk.units[unit].parameters;
  const bool whole = unit == 0;  // backward ends with the chunk's first unit
  const bool full = cuts_buckets(a.chunk) && chunk.pending.total() >= plan().bucket_parameters;
  if (!whole && !full) return;
  const RankParameters bucket = std::exchange(chunk.pending, {});
  if (held_twice() || completes_late(a)) {  // the other holder completes the same stages in the opposite order
    late_.emplace_back(bucket, a.chunk);
  } else if (plan().overlap.dp) {
    for (const Event e : reduce(bucket, Stage::place(a.chunk))) reductions_.push_back(e);
  } else if (a == chunk.last_weights) {
    late_.emplace_back(bucket, a.chunk);
  } else {
    for (const Event e : reduce(bucket, Stage::place(a.chunk))) track_.hold(e);
  }
}

void DataParallelWriter::finish_gradients() {
  std::sort(late_.begin(), late_.end(),
            [&](const auto& a, const auto& b) { return stage_.stage_of(a.second) < stage_.stage_of(b.second); });
  for (const auto& [bucket, chunk] : late_)
    for (const Event e : reduce(bucket, Stage::place(chunk))) reductions_.push_back(e);
  for (const Event e : reductions_) track_.hold(e);
  for (const Event e : unit_reductions_) track_.hold(e);
  for (Chunk& chunk : chunks_)
    for (Unit& unit : chunk.units) release(unit, {});
}

DataParallelWriter::Update DataParallelWriter::update() const {
  RankParameters all;
  for (const Chunk& chunk : chunks_)
    for (const Unit& unit : chunk.units) all += unit.parameters;
  const std::int64_t held = all.total();
  const std::int64_t owned =
      divided_up(all.dense, plan().shard_ranks()) + divided_up(all.expert, plan().expert_shard_ranks());
  return {.owned = plan().zero >= 1 ? owned : held, .held = frees_gradients() ? owned : held};
}

void DataParallelWriter::after_update() {
  if ((plan().zero != 1 && plan().zero != 2) || plan().overlap.dp) return;
  for (const std::int32_t c : chunks_by_stage()) {
    RankParameters all;
    for (const Unit& unit : chunks_[static_cast<std::size_t>(c)].units) all += unit.parameters;
    for (const Event e : gather_calls(all, Stage::place(c), track_.now())) track_.hold(e);
  }
}

}  // namespace foretrain
