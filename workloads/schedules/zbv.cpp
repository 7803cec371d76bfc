#include <algorithm>
#include <array>

#include "workloads/schedules/order.h"
#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

constexpr Pass F = Pass::forward;
constexpr Pass I = Pass::backward_input;
constexpr Pass W = Pass::backward_weight;

/// Appends passes of chunk 0 and 1, each in microbatch order; what lies beyond the last microbatch is counted but left
/// out.
class Writer {
 public:
  explicit Writer(std::int64_t microbatches) : microbatches_(microbatches) {}

  void add(Pass pass, std::size_t chunk) {
    const std::int64_t i = count(pass, chunk)++;
    if (i < microbatches_) list_.push_back(action(pass, static_cast<std::int64_t>(chunk), i));
  }
  void add_all(std::initializer_list<Pass> passes, std::size_t chunk) {
    for (const Pass pass : passes) add(pass, chunk);
  }
  [[nodiscard]] std::int64_t& count(Pass pass, std::size_t chunk) {
    return counts_[chunk][static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] std::vector<Action> finish() && { return std::move(list_); }

 private:
  std::int64_t microbatches_;
  std::array<std::array<std::int64_t, 4>, 2> counts_{};  // by chunk and pass
  std::vector<Action> list_;
};

std::vector<Action> list(const PipelineShape& shape, std::int64_t rank) {
  const std::int64_t p = shape.ranks;
  const std::int64_t rounds = std::max(shape.microbatches, 2 * p - 1);  // fewer could not fill the V
  Writer out(shape.microbatches);
  for (std::int64_t n = 0; n < 2 * (p - rank) - 1; ++n) out.add(F, 0);
  for (std::int64_t n = 0; n < rank; ++n) {
    out.add(F, 1);
    out.add(F, 0);
  }
  for (std::int64_t n = 0; n < p - rank; ++n) out.add_all({F, I, W}, 1);
  while (out.count(F, 1) < rounds) {
    if (out.count(F, 0) < rounds) out.add(F, 0);
    out.add_all({I, W}, 0);
    out.add_all({F, I, W}, 1);
  }
  for (std::int64_t n = 0; n < rank; ++n) {
    out.add(I, 0);
    out.add(I, 1);
  }
  for (std::int64_t n = 0; n < p - rank; ++n) out.add_all({I, W}, 0);
  for (const std::size_t chunk : {1U, 0U})
    while (out.count(W, chunk) < rounds) out.add(W, chunk);
  return std::move(out).finish();
}

std::int64_t budget(const PipelineShape& shape, std::int64_t /*rank*/) {
  return std::min(2 * shape.microbatches, 2 * shape.ranks);
}

}  // namespace

ScheduleRule zbv_rule() {
  return {.kind = ScheduleKind::zbv, .placement = Placement::vee, .chunks = {2, 2}, .actions = list, .budget = budget};
}

}  // namespace foretrain
