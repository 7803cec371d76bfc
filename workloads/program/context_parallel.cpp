#include "workloads/program/context_parallel.h"

#include <optional>

#include "workloads/shard.h"

namespace foretrain {

ContextParallel::ContextParallel(const Stage& stage, Track& track) : stage_(stage), track_(track) {
  const StageInput& in = stage.in;
  const Shard s = shard_of(in.model, in.plan, in.training);
  const std::int64_t element = activation_bytes(in.training.precision);
  const auto of = [&](std::int64_t width) { return bytes(element * s.tokens * width); };
  query_ = of(s.query);
  key_ = of(s.key);
  value_ = of(s.value);
  output_ = of(s.attention);
}

Event ContextParallel::call(Collective op, Bytes size, Place where) {
  return track_.call(Slot::cp, to_text(op), op, size, where);
}

/// One after another, all before the next compute.
void ContextParallel::exchange(Collective op, std::initializer_list<Bytes> sizes, Place where) {
  std::optional<Event> last;
  for (const Bytes size : sizes) last = call(op, size, where);
  track_.hold(last);
}

void ContextParallel::forward(const Booking& b, Duration attention) {
  if (stage_.in.plan.cp == 1) {
    track_.compute(b.work, b.label, attention, b.place);
    return;
  }
  switch (stage_.in.plan.context) {
    case ContextExchange::ring:
      return ring_forward(b, attention);
    case ContextExchange::all_gather:
      return gathered(b, attention, false);
    case ContextExchange::all_to_all:
      exchange(Collective::all_to_all, {query_, key_, value_}, b.place);
      track_.compute(b.work, b.label, attention, b.place);
      return exchange(Collective::all_to_all, {output_}, b.place);
  }
}

void ContextParallel::backward(const Booking& b, Duration attention) {
  if (stage_.in.plan.cp == 1) {
    track_.compute(b.work, b.label, attention, b.place);
    return;
  }
  switch (stage_.in.plan.context) {
    case ContextExchange::ring:
      return ring_backward(b, attention);
    case ContextExchange::all_gather:
      return gathered(b, attention, true);
    case ContextExchange::all_to_all:
      exchange(Collective::all_to_all, {output_}, b.place);
      track_.compute(b.work, b.label, attention, b.place);
      return exchange(Collective::all_to_all, {query_, key_, value_}, b.place);
  }
}

/// Step i works on the keys of the rank i places before, while those of the next step arrive.
void ContextParallel::ring_forward(const Booking& b, Duration attention) {
  const std::int64_t steps = stage_.in.plan.cp;
  for (std::int64_t i = 0; i < steps; ++i) {
    std::optional<Event> next;
    if (i + 1 < steps) next = call(Collective::shift, key_ + value_, b.place);
    track_.compute(b.work, b.label, cut(attention, steps, i), b.place);
    track_.hold(next);
  }
}

/// K and V leave in all steps but the last, the sums of their gradients in all but the first: what a step added leaves
/// beside the next one, and the last message brings them home.
void ContextParallel::ring_backward(const Booking& b, Duration attention) {
  const std::int64_t steps = stage_.in.plan.cp;
  const Bytes both = key_ + value_;
  for (std::int64_t i = 0; i < steps; ++i) {
    const bool ends = i == 0 || i + 1 == steps;
    const Event next = call(Collective::shift, ends ? both : both * 2, b.place);
    track_.compute(b.work, b.label, cut(attention, steps, i), b.place);
    track_.hold(next);
  }
}

void ContextParallel::gathered(const Booking& b, Duration attention, bool scatter) {
  const std::int64_t cp = stage_.in.plan.cp;
  exchange(Collective::all_gather, {key_ * cp, value_ * cp}, b.place);
  track_.compute(b.work, b.label, attention, b.place);
  if (scatter) exchange(Collective::reduce_scatter, {key_ * cp, value_ * cp}, b.place);
}

}  // namespace foretrain
