#include "workloads/program/tensor_parallel.h"

#include "workloads/shard.h"

namespace foretrain {

TensorParallel::TensorParallel(const Stage& stage, Track& track)
    : stage_(stage), track_(track), activation_(activation_message(stage.in.model, stage.in.plan, stage.in.training)) {}

Collective TensorParallel::reduction() const {
  return stage_.sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce;
}

Event TensorParallel::call(Collective op, Bytes size, Place where) {
  return track_.call(Slot::tp, to_text(op), op, size, where);
}

void TensorParallel::exchange(Collective op, Place where) { track_.hold(call(op, activation_, where)); }

/// The first piece of the product needs only the rank's own shard. Of a ring's t - 1 steps each brings one more shard
/// of 1/t: as much as an all-gather of 1/(t-1) of the message brings.
void TensorParallel::gather_into(const Booking& b, Duration products, Bytes message) {
  const std::int64_t pieces = product_pieces(stage_.in.plan).gather;
  if (pieces == 1 || products == Duration{}) {
    if (stage_.sequence_parallel()) track_.hold(call(Collective::all_gather, message, b.place));
    track_.compute(b.work, b.label, products, b.place);
    return;
  }
  for (std::int64_t i = 0; i < pieces; ++i) {
    std::optional<Event> next;
    if (i + 1 < pieces) next = call(Collective::all_gather, cut(message, pieces - 1, i), b.place);
    track_.compute(b.work, b.label, cut(products, pieces, i), b.place);
    track_.hold(next);
  }
}

void TensorParallel::reduce_from(const Booking& b, Duration products) {
  const std::int64_t pieces = product_pieces(stage_.in.plan).scatter;
  if (pieces == 1 || products == Duration{}) {
    track_.compute(b.work, b.label, products, b.place);
    if (stage_.tensor_parallel()) exchange(reduction(), b.place);
    return;
  }
  std::optional<Event> last;
  for (std::int64_t i = 0; i < pieces; ++i) {
    track_.compute(b.work, b.label, cut(products, pieces, i), b.place);
    last = call(Collective::reduce_scatter, cut(activation_, pieces, i), b.place);
  }
  track_.hold(last);
}

std::optional<Event> TensorParallel::regather(Bytes message, Place where) {
  if (!stage_.sequence_parallel()) return std::nullopt;
  return call(Collective::all_gather, message, where);
}

std::optional<Event> TensorParallel::reduce_gradient(Bytes message, Place where) {
  if (!stage_.tensor_parallel()) return std::nullopt;
  return call(reduction(), message, where);
}

}  // namespace foretrain
