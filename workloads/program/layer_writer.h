// LayerWriter: one layer's forward and backward on a track, with the collectives that tensor, sequence, context and
// expert parallelism put between its kernels. Internal to `generate`.
#pragma once

#include "workloads/program/stage.h"
#include "workloads/program/track.h"

namespace foretrain {

class LayerWriter {
 public:
  LayerWriter(const Stage& stage, Track& track);

  /// `work` and `label` say whether this is the forward or its repetition in backward.
  void forward(Work work, std::string_view label, Place where);
  /// The whole backward, recompute first.
  void backward(Place where);
  /// Its two halves, for schedules that split it: recompute and the gradient of the layer's input; the gradients of its
  /// matrices. They compute as long as the whole, but less is left to run beside their collectives.
  void backward_input(Place where);
  void backward_weight(Place where);
  /// A tensor-parallel collective of the whole activation that the next compute waits for.
  void exchange(Collective op, Place where);

 private:
  struct Half;  ///< attention or MLP: the parts around and between its two products
  [[nodiscard]] const LayerCost& cost_of(Place where) const;
  [[nodiscard]] static Half attention(const LayerCost& c);
  [[nodiscard]] static Half mlp(const LayerCost& c);
  void forward(const Half& half, Work work, std::string_view label, Place where);
  void backward(const Half& half, Place where);
  void backward_input(const Half& half, Place where);
  void backward_weight(const Half& half, Place where);
  Event call(Collective op, Place where);

  const Stage& stage_;
  Track& track_;
  Bytes message_;
};

}  // namespace foretrain
