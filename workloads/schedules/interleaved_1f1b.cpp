#include <algorithm>

#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

/// The order of forwards: microbatches in groups of `group`; within a group chunk 0 for all of them, then chunk 1, ...
/// Backwards use the same table with the chunks reversed.
std::vector<Action> forward_order(const PipelineShape& shape, std::int64_t group) {
  std::vector<Action> order;
  for (std::int64_t first = 0; first < shape.microbatches; first += group)
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk)
      for (std::int64_t i = first; i < std::min(first + group, shape.microbatches); ++i)
        order.push_back({Pass::forward, static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(i)});
  return order;
}

}  // namespace

std::vector<Action> interleaved_1f1b(const PipelineShape& shape, std::int64_t rank) {
  const auto forwards = forward_order(shape, shape.ranks);
  auto backwards = forwards;
  for (Action& a : backwards) {
    a.pass = Pass::backward;
    a.chunk = static_cast<std::int32_t>(shape.chunks - 1 - a.chunk);
  }
  const auto total = forwards.size();
  const auto warm_up =
      std::min(total, static_cast<std::size_t>((shape.chunks - 1) * shape.ranks + 2 * (shape.ranks - 1 - rank)));
  std::vector<Action> list(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t k = 0; k < total; ++k) {
    if (warm_up + k < total) list.push_back(forwards[warm_up + k]);
    list.push_back(backwards[k]);
  }
  return list;
}

}  // namespace foretrain
