#include "workloads/program/layer_writer.h"

#include <optional>

namespace foretrain {

struct LayerWriter::Half {
  const PartCost& norm;
  const PartCost& in;
  PartCost core;  ///< attention proper; nothing in an MLP
  const PartCost& out;
  const PartCost& residual;
  Duration recompute;
};

LayerWriter::LayerWriter(const Stage& stage, Track& track)
    : stage_(stage), track_(track), message_(activation_message(stage.in.model, stage.in.plan, stage.in.training)) {}

const LayerCost& LayerWriter::cost_of(Place where) const {
  return stage_.in.cost.of(stage_.in.model.kind_of(where.layer));
}

LayerWriter::Half LayerWriter::attention(const LayerCost& c) {
  return {c.attention_norm, c.qkv, c.core, c.projection, c.attention_residual, c.attention_recompute};
}

LayerWriter::Half LayerWriter::mlp(const LayerCost& c) {
  return {c.mlp_norm, c.mlp_in, {}, c.mlp_out, c.mlp_residual, c.mlp_recompute};
}

Event LayerWriter::call(Collective op, Place where) { return track_.call(Slot::tp, to_text(op), op, message_, where); }

void LayerWriter::exchange(Collective op, Place where) { track_.hold(call(op, where)); }

void LayerWriter::forward(Work work, std::string_view label, Place where) {
  forward(attention(cost_of(where)), work, label, where);
  forward(mlp(cost_of(where)), work, label, where);
}

void LayerWriter::forward(const Half& half, Work work, std::string_view label, Place where) {
  track_.compute(work, label, half.norm.forward, where);
  if (stage_.sequence_parallel()) exchange(Collective::all_gather, where);
  track_.compute(work, label, half.in.forward + half.core.forward + half.out.forward, where);
  if (stage_.tensor_parallel())
    exchange(stage_.sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, where);
  track_.compute(work, label, half.residual.forward, where);
}

void LayerWriter::backward(Place where) {
  backward(mlp(cost_of(where)), where);
  backward(attention(cost_of(where)), where);
}

/// With sequence parallelism the output gradient is gathered first, the saved input is gathered again under the
/// input-gradient GEMMs, and the scatter of the input gradient runs under the last weight gradient (Megatron-Core;
/// Korthikanti 2022, section 4.2.2).
void LayerWriter::backward(const Half& half, Place where) {
  track_.compute(Work::recompute, "recompute", half.recompute, where);
  track_.compute(Work::compute, "B", half.residual.backward_input, where);
  std::optional<Event> saved_input;
  if (stage_.sequence_parallel()) {
    exchange(Collective::all_gather, where);
    saved_input = call(Collective::all_gather, where);
  }
  track_.compute(Work::compute, "B", half.out.backward() + half.core.backward_input + half.in.backward_input, where);
  std::optional<Event> input_gradient;
  if (stage_.tensor_parallel())
    input_gradient = call(stage_.sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, where);
  if (saved_input) track_.hold(*saved_input);
  track_.compute(Work::compute, "B", half.in.backward_weight, where);
  if (input_gradient) track_.hold(*input_gradient);
  track_.compute(Work::compute, "B", half.norm.backward_input, where);
}

void LayerWriter::backward_input(Place where) {
  backward_input(mlp(cost_of(where)), where);
  backward_input(attention(cost_of(where)), where);
}

void LayerWriter::backward_input(const Half& half, Place where) {
  track_.compute(Work::recompute, "recompute", half.recompute, where);
  track_.compute(Work::compute, "I", half.residual.backward_input, where);
  if (stage_.sequence_parallel()) exchange(Collective::all_gather, where);
  track_.compute(Work::compute, "I", half.out.backward_input + half.core.backward_input + half.in.backward_input,
                 where);
  if (stage_.tensor_parallel())
    exchange(stage_.sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, where);
  track_.compute(Work::compute, "I", half.norm.backward_input, where);
}

void LayerWriter::backward_weight(Place where) {
  backward_weight(mlp(cost_of(where)), where);
  backward_weight(attention(cost_of(where)), where);
}

/// The saved input is gathered again here, beside the weight gradient that does not need it.
void LayerWriter::backward_weight(const Half& half, Place where) {
  std::optional<Event> saved_input;
  if (stage_.sequence_parallel()) saved_input = call(Collective::all_gather, where);
  track_.compute(Work::compute, "W", half.out.backward_weight, where);
  if (saved_input) track_.hold(*saved_input);
  track_.compute(Work::compute, "W", half.in.backward_weight, where);
}

}  // namespace foretrain
