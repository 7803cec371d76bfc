// Peak memory of a pipeline rank in closed form: states, the schedule's live microbatches and the instants where the
// peak can be, without playing the step. For searches over plans; `rehearse` plays the same bytes as events.
#pragma once

#include "workloads/memory/parts.h"
#include "workloads/plan.h"

namespace foretrain {

enum class PeakInstant : std::uint8_t { forward, loss, output_backward, backward, update };
[[nodiscard]] std::string_view to_text(PeakInstant instant);

struct PeakMemory {
  MemoryParts parts;  ///< at the peak, overhead included
  PeakInstant instant{};
  [[nodiscard]] Bytes total() const { return parts.total(); }
  /// Tensors alone.
  [[nodiscard]] Bytes allocated() const { return parts.total() - parts[MemoryPart::overhead]; }
};

/// Requires `check(...)` to be empty.
[[nodiscard]] PeakMemory peak_memory(const Model& model, const Plan& plan, const Training& training,
                                     std::int64_t pipeline_rank);

}  // namespace foretrain
