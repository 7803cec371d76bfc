#include "workloads/program/pipeline.h"

#include <algorithm>
#include <stdexcept>

namespace foretrain {
namespace {

std::int64_t after(const PipelineShape& shape, std::int64_t rank) { return (rank + 1) % shape.ranks; }

/// With two ranks each is on both sides of the other: activations then count as sent onwards, gradients as sent back.
PipelineMessage between(const PipelineShape& shape, bool forward, std::int64_t from, std::int64_t to) {
  const bool onwards = to == after(shape, from);
  const bool back = from == after(shape, to);
  if (!onwards && !back) throw std::invalid_argument("a schedule sends to a pipeline rank that is no neighbour");
  if (forward) {
    return onwards ? PipelineMessage{from, to, Slot::forward_to_next, Slot::forward_from_previous}
                   : PipelineMessage{from, to, Slot::forward_to_previous, Slot::forward_from_next};
  }
  return back ? PipelineMessage{from, to, Slot::backward_to_previous, Slot::backward_from_next}
              : PipelineMessage{from, to, Slot::backward_to_next, Slot::backward_from_previous};
}

}  // namespace

std::optional<PipelineMessage> message_of(const PipelineShape& shape, std::int64_t rank, const Action& action) {
  const std::optional<Holder> receiver = receiver_of(shape, rank, action);
  if (!receiver || receiver->rank == rank) return std::nullopt;
  return between(shape, action.pass == Pass::forward, rank, receiver->rank);
}

std::vector<std::int64_t> end_holders(const PipelineShape& shape) {
  std::vector<std::int64_t> holders;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank)
    for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      const std::int64_t stage = stage_of(shape, rank, chunk);
      const bool end = stage == 0 || stage == stage_count(shape) - 1;
      if (end && (holders.empty() || holders.back() != rank)) holders.push_back(rank);
    }
  return holders;
}

std::vector<PipelineMessage> message_kinds(const PipelineShape& shape) {
  std::vector<PipelineMessage> kinds;
  // Of a bidirectional pipeline the first microbatch takes one way and the last the other.
  const auto last = static_cast<std::int32_t>(shape.microbatches - 1);
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank)
    for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk)
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        const auto message = message_of(shape, rank, {pass, chunk, chunk == 0 ? 0 : last});
        const auto same = [&](const PipelineMessage& k) {
          return k.from == message->from && k.to == message->to && k.out == message->out;
        };
        if (message && std::none_of(kinds.begin(), kinds.end(), same)) kinds.push_back(*message);
      }
  return kinds;
}

}  // namespace foretrain
