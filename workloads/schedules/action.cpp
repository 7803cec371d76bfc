#include "workloads/schedules/action.h"

namespace foretrain {
namespace {

bool is_forward(const Action& a) { return a.pass == Pass::forward; }

/// The chunk `steps` stages further on the way of the action's microbatch; nothing beyond the ends.
std::optional<Holder> along(const PipelineShape& shape, std::int64_t rank, const Action& a, std::int64_t steps) {
  const std::int64_t stage = stage_of(shape, rank, a.chunk) + steps;
  if (stage < 0 || stage >= stage_count(shape)) return std::nullopt;
  return holder_of(shape, stage, a.microbatch);
}

}  // namespace

std::string_view to_text(Placement placement) {
  switch (placement) {
    case Placement::loop:
      return "loop";
    case Placement::vee:
      return "vee";
    case Placement::bidirectional:
      return "bidirectional";
  }
  return "";
}

std::int64_t stage_count(const PipelineShape& shape) {
  return shape.placement == Placement::bidirectional ? shape.ranks : shape.ranks * shape.chunks;
}

std::int64_t stage_of(const PipelineShape& shape, std::int64_t rank, std::int32_t chunk) {
  switch (shape.placement) {
    case Placement::loop:
      return chunk * shape.ranks + rank;
    case Placement::vee:
      return chunk % 2 == 0 ? chunk * shape.ranks + rank : (chunk + 1) * shape.ranks - 1 - rank;
    case Placement::bidirectional:
      return chunk == 0 ? rank : shape.ranks - 1 - rank;
  }
  return 0;
}

Holder holder_of(const PipelineShape& shape, std::int64_t stage, std::int32_t microbatch) {
  const std::int64_t last = shape.ranks - 1;
  if (shape.placement == Placement::bidirectional) {
    const bool first_half = microbatch < shape.microbatches / 2;
    return first_half ? Holder{stage, 0} : Holder{last - stage, 1};
  }
  const std::int64_t chunk = stage / shape.ranks;
  const std::int64_t along = stage % shape.ranks;
  const bool back = shape.placement == Placement::vee && chunk % 2 == 1;
  return {back ? last - along : along, static_cast<std::int32_t>(chunk)};
}

std::optional<Holder> receiver_of(const PipelineShape& shape, std::int64_t rank, const Action& action) {
  if (action.pass == Pass::backward_weight) return std::nullopt;
  return along(shape, rank, action, is_forward(action) ? 1 : -1);
}

std::optional<Holder> sender_to(const PipelineShape& shape, std::int64_t rank, const Action& action) {
  if (action.pass == Pass::backward_weight) return std::nullopt;
  return along(shape, rank, action, is_forward(action) ? -1 : 1);
}

}  // namespace foretrain
