#include "workloads/program/layer_writer.h"

#include <algorithm>

#include "workloads/shard.h"

namespace foretrain {

LayerWriter::LayerWriter(const Stage& stage, Track& track)
    : stage_(stage),
      tensor_(stage, track),
      context_(stage, track),
      pairs_(tensor_, context_, track),
      experts_(stage, tensor_, context_, track),
      track_(track) {}

bool LayerWriter::has_experts(Place where) const { return stage_.in.model.kind_of(where.layer).experts; }

const LayerCost& LayerWriter::cost_of(Place where) const {
  return stage_.in.cost.of(stage_.in.model.kind_of(where.layer));
}

/// What selective recompute repeats with its communication is played apart from the rest: attention proper, for which
/// context parallelism exchanges K and V, MLA's products out of latents, which are gathered, and the projection, whose
/// sum over ranks is scattered or reduced.
ProductPair LayerWriter::attention(const LayerCost& c) const {
  const StageInput& in = stage_.in;
  const auto again = [&](RecomputeModule module) { return recomputes(in.training, module); };
  ProductPair pair{.norm = c.attention_norm + c.down,
                   .in = c.qkv,
                   .core = c.core,
                   .out = c.projection,
                   .residual = c.attention_residual,
                   .first_again = in.model.latent && again(RecomputeModule::latent) && !again(RecomputeModule::matmul),
                   .core_again = again(RecomputeModule::attention),
                   .second_again = again(RecomputeModule::projection) && !again(RecomputeModule::matmul),
                   .recompute = c.attention_recompute,
                   .input = latent_message(in.model, in.plan, in.training)};
  // Parts are rounded one by one, so that they may be a tick more than their sum.
  const auto take_off = [&](Duration part) { pair.recompute = std::max(Duration{}, pair.recompute - part); };
  if (pair.first_again) take_off(c.qkv.forward);
  if (pair.core_again) take_off(c.core.forward);
  return pair;
}

ProductPair LayerWriter::mlp(const LayerCost& c) {
  return {.norm = c.mlp_norm,
          .in = c.mlp_in,
          .core = std::nullopt,
          .out = c.mlp_out,
          .residual = c.mlp_residual,
          .recompute = c.mlp_recompute};
}

void LayerWriter::exchange(Collective op, Place where) { tensor_.exchange(op, where); }

void LayerWriter::forward(Work work, std::string_view label, Place where) {
  const Booking b{work, label, where};
  const LayerCost& c = cost_of(where);
  pairs_.forward(attention(c), b);
  if (has_experts(where))
    experts_.forward(c, b);
  else if (work == Work::recompute && prunes(where))
    pairs_.forward_to_second(mlp(c), b);
  else
    pairs_.forward(mlp(c), b);
}

bool LayerWriter::prunes(Place where) const {
  const StageInput& in = stage_.in;
  return prunes_last_product(in.model, in.training, in.model.kind_of(where.layer));
}

void LayerWriter::backward(Place where) { backward(Gradients::all, where); }
void LayerWriter::backward_input(Place where) { backward(Gradients::input, where); }
void LayerWriter::backward_weight(Place where) { backward(Gradients::weight, where); }

void LayerWriter::backward(Gradients gradients, Place where) {
  const LayerCost& c = cost_of(where);
  if (has_experts(where))
    experts_.backward(c, gradients, where);
  else
    mlp_backward(c, gradients, where);
  pairs_.backward(attention(c), gradients, where);
}

void LayerWriter::mlp_backward(const LayerCost& c, Gradients gradients, Place where) {
  const Booking again{Work::recompute, "recompute", where};
  if (makes_input(gradients) && recomputes(stage_.in.training, RecomputeModule::mlp))
    prunes(where) ? pairs_.first(mlp(c), again) : pairs_.products(mlp(c), again);
  pairs_.backward(mlp(c), gradients, where);
}

/// Compute: attention F | experts B, W, experts F | attention B. Beside it: combine B | dispatch F, dispatch B |
/// combine F. A layer without experts has nothing to send, and computes in the same places.
void LayerWriter::forward_and_backward(Place forward, Place backward) {
  const Booking f{Work::compute, "F", forward};
  const LayerCost& fc = cost_of(forward);
  const LayerCost& bc = cost_of(backward);
  const bool sends_forward = has_experts(forward), sends_backward = has_experts(backward);
  std::optional<Event> dispatched, combined, gradient;

  if (sends_backward) {
    experts_.merge_backward(bc, Gradients::all, backward);
    gradient = experts_.combine_backward(backward);
  }
  pairs_.forward(attention(fc), f);
  if (sends_forward) {
    experts_.route(fc, f);
    dispatched = experts_.dispatch(forward);
  }
  track_.hold(gradient);
  if (sends_backward) {
    experts_.products_backward(bc, Gradients::input, backward);
    gradient = experts_.dispatch_backward(backward);
    experts_.products_backward(bc, Gradients::weight, backward);
  } else {
    mlp_backward(bc, Gradients::all, backward);
  }
  track_.hold(dispatched);
  if (sends_forward) {
    experts_.products(fc, f);
    combined = experts_.combine(forward);
  } else {
    pairs_.forward(mlp(fc), f);
  }
  if (sends_backward) {
    track_.hold(gradient);
    experts_.route_backward(bc, Gradients::all, backward);
  }
  pairs_.backward(attention(bc), Gradients::all, backward);
  if (sends_forward) {
    track_.hold(combined);
    experts_.merge(fc, f);
  }
}

}  // namespace foretrain
