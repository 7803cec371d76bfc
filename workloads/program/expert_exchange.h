// ExpertExchangeWriter: how copies of tokens reach the ranks of their experts and come back. Internal to `generate`.
//
// `all_to_all` and `two_hop`: an all-to-all over the expert-parallel group with parts as its communicator's exchange
// says, then an all-gather over the ranks that share an expert's matrices; scattered and sent back the other way.
// `all_gather`: everybody's tokens go to everybody and partial sums come back, first over one group, then over the
// other: as many bytes as over both at once (Megatron-Core's three token dispatchers).
#pragma once

#include <optional>

#include "workloads/program/stage.h"
#include "workloads/program/track.h"

namespace foretrain {

class ExpertExchangeWriter {
 public:
  ExpertExchangeWriter(const Stage& stage, Track& track);

  /// Dispatch, or the gradient of combine. Starts when all compute so far has ended; what the experts wait for.
  std::optional<Event> to_experts(std::string_view label, Place where);
  /// Combine, or the gradient of dispatch.
  std::optional<Event> from_experts(std::string_view label, Place where);

 private:
  /// Behind `first`, or where there is none behind all compute so far.
  Event call(std::optional<Event> first, Slot slot, std::string_view label, Collective op, Bytes size, Place where);
  /// What the ranks of an expert hold together, and those of the whole exchange where tokens are gathered.
  [[nodiscard]] Bytes shared_size() const;
  [[nodiscard]] bool gathers() const { return stage_.in.plan.experts == ExpertExchange::all_gather; }

  const Stage& stage_;
  Track& track_;
  Bytes message_;  ///< what a rank sends in all
};

}  // namespace foretrain
