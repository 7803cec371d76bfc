#include "workloads/program/experts.h"

#include "workloads/shard.h"

namespace foretrain {
namespace {

/// `part` of `whole` shares of a cost, or the rest.
PartCost share_of(const PartCost& cost, std::int64_t part, std::int64_t whole) {
  const auto of = [&](Duration d) { return picoseconds(d.ps() / whole * part); };
  return {of(cost.forward), of(cost.backward_input), of(cost.backward_weight)};
}
PartCost rest_of(const PartCost& cost, const PartCost& taken) {
  return {cost.forward - taken.forward, cost.backward_input - taken.backward_input,
          cost.backward_weight - taken.backward_weight};
}

Duration backward_of(const PartCost& cost, Gradients gradients) {
  return (makes_input(gradients) ? cost.backward_input : Duration{}) +
         (makes_weight(gradients) ? cost.backward_weight : Duration{});
}

}  // namespace

ExpertWriter::ExpertWriter(const Stage& stage, TensorParallel& tensor, ContextParallel& context, Track& track)
    : stage_(stage), track_(track), pairs_(tensor, context, track), exchange_(stage, track) {}

/// Of the shared experts' three matrices (gate, up, down) two are in the first product; of two, one.
ProductPair ExpertWriter::shared(const LayerCost& c) const {
  const bool gated = stage_.in.model.gated();
  ProductPair pair;
  pair.in = share_of(c.experts.shared, gated ? 2 : 1, gated ? 3 : 2);
  pair.out = rest_of(c.experts.shared, pair.in);
  return pair;
}

// ---- forward ----

void ExpertWriter::forward(const LayerCost& c, const Booking& b) {
  track_.compute(b.work, b.label, c.mlp_norm.forward, b.place);
  block(c, b);
  track_.compute(b.work, b.label, c.mlp_residual.forward, b.place);
}

void ExpertWriter::block(const LayerCost& c, const Booking& b) {
  const ProductPair beside = shared(c);
  track_.compute(b.work, b.label, c.experts.router.forward + c.experts.permute.forward, b.place);
  const auto dispatched = dispatch(b.place);
  if (shared_beside()) pairs_.first(beside, b);
  track_.hold(dispatched);
  if (shared_beside())
    grouped(c, b);
  else
    products(c, b);
  const auto combined = combine(b.place);
  if (shared_beside()) pairs_.second(beside, b);
  track_.hold(combined);
  track_.compute(b.work, b.label, c.experts.unpermute.forward, b.place);
}

void ExpertWriter::route(const LayerCost& c, const Booking& b) {
  track_.compute(b.work, b.label, c.mlp_norm.forward + c.experts.router.forward + c.experts.permute.forward, b.place);
}

std::optional<Event> ExpertWriter::dispatch(Place where) { return exchange_.to_experts("dispatch", where); }

void ExpertWriter::grouped(const LayerCost& c, const Booking& b) {
  track_.compute(b.work, b.label, c.experts.in.forward + c.experts.out.forward, b.place);
}

void ExpertWriter::products(const LayerCost& c, const Booking& b) {
  grouped(c, b);
  if (has_shared()) pairs_.products(shared(c), b);
}

std::optional<Event> ExpertWriter::combine(Place where) { return exchange_.from_experts("combine", where); }

void ExpertWriter::merge(const LayerCost& c, const Booking& b) {
  track_.compute(b.work, b.label, c.experts.unpermute.forward + c.mlp_residual.forward, b.place);
}

// ---- backward ----

void ExpertWriter::backward(const LayerCost& c, Gradients gradients, Place where) {
  const bool beside = shared_beside() && gradients == Gradients::all;
  const Booking b = backward_booking(gradients, where);
  merge_backward(c, gradients, where);
  std::optional<Event> gradient;
  if (makes_input(gradients)) gradient = combine_backward(where);
  if (beside) pairs_.second_backward(shared(c), b);
  track_.hold(gradient);
  if (beside)
    grouped_backward(c, gradients, b);
  else
    products_backward(c, gradients, where);
  gradient.reset();
  if (makes_input(gradients)) gradient = dispatch_backward(where);
  if (beside) pairs_.first_backward(shared(c), b);
  track_.hold(gradient);
  route_backward(c, gradients, where);
}

void ExpertWriter::merge_backward(const LayerCost& c, Gradients gradients, Place where) {
  if (!makes_input(gradients)) return;
  const Booking again{Work::recompute, "recompute", where};
  track_.compute(again.work, again.label, c.mlp_recompute, where);
  if (recomputes(stage_.in.training, RecomputeModule::experts)) block(c, again);
  const Booking b = backward_booking(gradients, where);
  track_.compute(b.work, b.label, c.mlp_residual.backward_input + c.experts.unpermute.backward_input, where);
}

std::optional<Event> ExpertWriter::combine_backward(Place where) {
  return exchange_.to_experts("combine backward", where);
}

void ExpertWriter::grouped_backward(const LayerCost& c, Gradients gradients, const Booking& b) {
  track_.compute(b.work, b.label, backward_of(c.experts.out + c.experts.in, gradients), b.place);
}

void ExpertWriter::products_backward(const LayerCost& c, Gradients gradients, Place where) {
  grouped_backward(c, gradients, backward_booking(gradients, where));
  if (has_shared()) pairs_.backward(shared(c), gradients, where);
}

std::optional<Event> ExpertWriter::dispatch_backward(Place where) {
  return exchange_.from_experts("dispatch backward", where);
}

void ExpertWriter::route_backward(const LayerCost& c, Gradients gradients, Place where) {
  const Booking b = backward_booking(gradients, where);
  track_.compute(b.work, b.label, backward_of(c.experts.permute + c.experts.router + c.mlp_norm, gradients), where);
}

}  // namespace foretrain
