// TensorParallel: the collectives between the ranks of a tensor-parallel group around products that are split by
// columns (they need the whole sequence) and by rows (they leave partial sums). Internal to `generate`.
//
// With sequence parallelism an all-gather stands before and a reduce-scatter behind (Korthikanti 2022, section 4.2.2),
// without it an all-reduce behind; all of the whole activation. With `overlap.tp` gather and scatter go piece by piece
// beside the product: around a ring, and in splits (Transformer Engine's userbuffers, Megatron-Core's tp_comm_overlap).
#pragma once

#include <optional>

#include "workloads/program/booking.h"
#include "workloads/program/stage.h"

namespace foretrain {

class TensorParallel {
 public:
  TensorParallel(const Stage& stage, Track& track);

  /// A collective of the whole activation that the next compute waits for.
  void exchange(Collective op, Place where);
  /// Products over the whole sequence, behind or beside the gathering of its shards, `message` in all.
  void gather_into(const Booking& b, Duration products, Bytes message);
  /// Products whose partial sums are scattered or reduced, behind or beside them.
  void reduce_from(const Booking& b, Duration products);
  /// Gathers the saved shards of a column-split product's input again, for its weight gradient; nothing to wait for
  /// without sequence parallelism, which saves the whole.
  std::optional<Event> regather(Bytes message, Place where);
  /// Starts to sum up an input gradient.
  std::optional<Event> reduce_gradient(Bytes message, Place where);
  /// The whole activation of a microbatch.
  [[nodiscard]] Bytes activation() const { return activation_; }

 private:
  [[nodiscard]] Collective reduction() const;
  Event call(Collective op, Bytes size, Place where);

  const Stage& stage_;
  Track& track_;
  Bytes activation_;
};

}  // namespace foretrain
