#include "workloads/program/product_pair.h"

namespace foretrain {

ProductPairWriter::ProductPairWriter(TensorParallel& tensor, ContextParallel& context, Track& track)
    : tensor_(tensor), context_(context), track_(track) {}

void ProductPairWriter::forward(const ProductPair& pair, const Booking& b) {
  track_.compute(b.work, b.label, pair.norm.forward, b.place);
  products(pair, b);
  track_.compute(b.work, b.label, pair.residual.forward, b.place);
}

void ProductPairWriter::forward_to_second(const ProductPair& pair, const Booking& b) {
  track_.compute(b.work, b.label, pair.norm.forward, b.place);
  first(pair, b);
  core_forward(pair, b);
}

void ProductPairWriter::products(const ProductPair& pair, const Booking& b) {
  first(pair, b);
  core_forward(pair, b);
  second(pair, b);
}

void ProductPairWriter::first(const ProductPair& pair, const Booking& b) {
  tensor_.gather_into(b, pair.in.forward, input_of(pair));
}

void ProductPairWriter::second(const ProductPair& pair, const Booking& b) { tensor_.reduce_from(b, pair.out.forward); }

void ProductPairWriter::core_forward(const ProductPair& pair, const Booking& b) {
  if (pair.core) context_.forward(b, pair.core->forward);
}

void ProductPairWriter::core_backward(const ProductPair& pair, const Booking& b) {
  if (pair.core) context_.backward(b, pair.core->backward_input);
}

void ProductPairWriter::backward(const ProductPair& pair, Gradients gradients, Place where) {
  const Booking b = backward_booking(gradients, where);
  if (makes_input(gradients)) {
    const Booking again{Work::recompute, "recompute", where};
    track_.compute(again.work, again.label, pair.recompute, where);
    if (pair.first_again) first(pair, again);
    if (pair.core_again) core_forward(pair, again);
    if (pair.second_again) second(pair, again);
    track_.compute(b.work, b.label, pair.residual.backward_input, where);
  }
  switch (gradients) {
    case Gradients::all:
      return backward_whole(pair, b);
    case Gradients::input:
      return backward_input(pair, b);
    case Gradients::weight:
      return backward_weight(pair, b);
  }
}

void ProductPairWriter::backward_whole(const ProductPair& pair, const Booking& b) {
  second_backward(pair, b);
  core_backward(pair, b);
  first_backward(pair, b);
  track_.compute(b.work, b.label, pair.norm.backward(), b.place);
}

void ProductPairWriter::second_backward(const ProductPair& pair, const Booking& b) {
  tensor_.gather_into(b, pair.out.backward_input, tensor_.activation());
  track_.compute(b.work, b.label, pair.out.backward_weight, b.place);
}

/// The saved input is gathered again under the input gradient of the product that needs it, and that gradient is
/// scattered (or reduced) under the same product's weight gradient (Megatron-Core; Korthikanti 2022, section 4.2.2).
void ProductPairWriter::first_backward(const ProductPair& pair, const Booking& b) {
  const auto saved_input = tensor_.regather(input_of(pair), b.place);
  track_.compute(b.work, b.label, pair.in.backward_input, b.place);
  const auto input_gradient = tensor_.reduce_gradient(input_of(pair), b.place);
  track_.hold(saved_input);
  track_.compute(b.work, b.label, pair.in.backward_weight, b.place);
  track_.hold(input_gradient);
}

void ProductPairWriter::backward_input(const ProductPair& pair, const Booking& b) {
  tensor_.gather_into(b, pair.out.backward_input, tensor_.activation());
  core_backward(pair, b);
  track_.compute(b.work, b.label, pair.in.backward_input, b.place);
  track_.hold(tensor_.reduce_gradient(input_of(pair), b.place));
  track_.compute(b.work, b.label, pair.norm.backward_input, b.place);
}

/// The saved input is gathered again here, beside the weight gradient that does not need it.
void ProductPairWriter::backward_weight(const ProductPair& pair, const Booking& b) {
  const auto saved_input = tensor_.regather(input_of(pair), b.place);
  track_.compute(b.work, b.label, pair.out.backward_weight, b.place);
  track_.hold(saved_input);
  track_.compute(b.work, b.label, pair.in.backward_weight + pair.norm.backward_weight, b.place);
}

}  // namespace foretrain
