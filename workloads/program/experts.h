// ExpertWriter: the mixture of experts in the place of a layer's MLP: norm, router and permutation; dispatch; the
// experts' grouped products; combine; the weighted sum and the residual. Internal to `generate`.
//
// Its steps are public because schedules with overlapped blocks put another microbatch's compute beside dispatch and
// combine; `forward` and `backward` are the steps one after another.
#pragma once

#include "workloads/program/expert_exchange.h"
#include "workloads/program/product_pair.h"

namespace foretrain {

class ExpertWriter {
 public:
  ExpertWriter(const Stage& stage, TensorParallel& tensor, ContextParallel& context, Track& track);

  void forward(const LayerCost& c, const Booking& b);
  /// From the norm's output to before the residual: what a checkpoint around the experts plays again.
  void block(const LayerCost& c, const Booking& b);
  void backward(const LayerCost& c, Gradients gradients, Place where);

  void route(const LayerCost& c, const Booking& b);  ///< norm, router, permutation
  std::optional<Event> dispatch(Place where);
  void products(const LayerCost& c, const Booking& b);  ///< of the experts, and the shared ones
  std::optional<Event> combine(Place where);
  void merge(const LayerCost& c, const Booking& b);  ///< weighted sum, residual

  void merge_backward(const LayerCost& c, Gradients gradients, Place where);  ///< recompute first
  std::optional<Event> combine_backward(Place where);
  void products_backward(const LayerCost& c, Gradients gradients, Place where);
  std::optional<Event> dispatch_backward(Place where);
  void route_backward(const LayerCost& c, Gradients gradients, Place where);

 private:
  [[nodiscard]] bool has_shared() const { return stage_.in.model.experts->shared_ffn_hidden > 0; }
  /// Shared experts compute beside dispatch and combine, instead of by themselves (Megatron-Core's
  /// moe_shared_expert_overlap).
  [[nodiscard]] bool shared_beside() const { return has_shared() && stage_.in.plan.overlap.ep; }
  [[nodiscard]] ProductPair shared(const LayerCost& c) const;
  void grouped(const LayerCost& c, const Booking& b);
  void grouped_backward(const LayerCost& c, Gradients gradients, const Booking& b);

  const Stage& stage_;
  Track& track_;
  ProductPairWriter pairs_;
  ExpertExchangeWriter exchange_;
};

}  // namespace foretrain
