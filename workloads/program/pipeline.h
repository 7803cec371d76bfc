// Who sends what to whom in a pipeline: for every message of a schedule the slot of its sender and of its receiver.
// Neighbours are the ranks before and after, around the end where chunks loop. Internal to `generate`.
#pragma once

#include <optional>
#include <vector>

#include "workloads/schedules/schedule.h"
#include "workloads/traffic.h"

namespace foretrain {

/// One message: what an action hands to the rank that waits for it.
struct PipelineMessage {
  std::int64_t from = 0, to = 0;  ///< pipeline ranks
  Slot out{}, in{};               ///< of the sender, of the receiver
};
/// Of `rank`'s action; none where nobody waits or the same rank does.
[[nodiscard]] std::optional<PipelineMessage> message_of(const PipelineShape& shape, std::int64_t rank,
                                                        const Action& action);

/// The ranks that hold the first or the last stage, ascending.
[[nodiscard]] std::vector<std::int64_t> end_holders(const PipelineShape& shape);

/// All that a schedule with this shape may send, each pair of slots once.
[[nodiscard]] std::vector<PipelineMessage> message_kinds(const PipelineShape& shape);

}  // namespace foretrain
