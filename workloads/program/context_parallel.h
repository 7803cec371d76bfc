// ContextParallel: attention proper, with what the ranks of a context-parallel group exchange so that each one's
// queries meet all keys. Internal to `generate`.
//
// The sequence is cut zig-zag, so every rank and every step of the ring does the same work. `ring`: K and V go around
// beside the attention, in backward their gradients a step behind them (Transformer Engine's p2p). `all_gather`: all K
// and V before the attention; in backward again, and the gradients scattered behind it (Llama 3, section 3.3.2).
// `all_to_all`: heads against sequence before and after (DeepSpeed Ulysses, arXiv 2309.14509).
#pragma once

#include "workloads/program/booking.h"
#include "workloads/program/stage.h"

namespace foretrain {

class ContextParallel {
 public:
  ContextParallel(const Stage& stage, Track& track);

  /// `attention`: what the rank computes for one microbatch, all steps together.
  void forward(const Booking& b, Duration attention);
  void backward(const Booking& b, Duration attention);

 private:
  void ring_forward(const Booking& b, Duration attention);
  void ring_backward(const Booking& b, Duration attention);
  void gathered(const Booking& b, Duration attention, bool scatter);
  void exchange(Collective op, std::initializer_list<Bytes> sizes, Place where);
  Event call(Collective op, Bytes size, Place where);

  const Stage& stage_;
  Track& track_;
  Bytes query_, key_, value_, output_;  ///< of one microbatch on one rank, its share of the sequence
};

}  // namespace foretrain
