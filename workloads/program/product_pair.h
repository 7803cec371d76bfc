// ProductPairWriter: attention or an MLP: a product split by columns, something between, a product split by rows; a
// norm before, a residual behind. Internal to `generate`.
#pragma once

#include "workloads/program/context_parallel.h"
#include "workloads/program/tensor_parallel.h"

namespace foretrain {

struct ProductPair {
  PartCost norm;  ///< on the sequence shard: MLA's products into latents are part of it
  PartCost in;
  std::optional<PartCost> core;  ///< attention proper; an MLP has none
  PartCost out, residual;
  // Played again before the backward: with their communication, and what needs none.
  bool first_again = false;
  bool core_again = false;
  bool second_again = false;
  Duration recompute;
  /// What is gathered for the first product: the activation, unless said otherwise.
  std::optional<Bytes> input = {};
};

class ProductPairWriter {
 public:
  ProductPairWriter(TensorParallel& tensor, ContextParallel& context, Track& track);

  void forward(const ProductPair& pair, const Booking& b);
  /// A forward that ends before the second product.
  void forward_to_second(const ProductPair& pair, const Booking& b);
  /// From the norm's output to before the residual: what a checkpoint around the block plays again.
  void products(const ProductPair& pair, const Booking& b);
  void backward(const ProductPair& pair, Gradients gradients, Place where);

  // The products one by one, for those who play something else between them.
  void first(const ProductPair& pair, const Booking& b);
  void second(const ProductPair& pair, const Booking& b);
  void second_backward(const ProductPair& pair, const Booking& b);
  void first_backward(const ProductPair& pair, const Booking& b);

 private:
  [[nodiscard]] Bytes input_of(const ProductPair& pair) const { return pair.input.value_or(tensor_.activation()); }
  void core_forward(const ProductPair& pair, const Booking& b);
  void core_backward(const ProductPair& pair, const Booking& b);
  void backward_whole(const ProductPair& pair, const Booking& b);
  void backward_input(const ProductPair& pair, const Booking& b);
  void backward_weight(const ProductPair& pair, const Booking& b);

  TensorParallel& tensor_;
  ContextParallel& context_;
  Track& track_;
};

}  // namespace foretrain
