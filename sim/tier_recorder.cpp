#include "sim/tier_recorder.h"

#include <algorithm>

namespace foretrain {

TierRecorder::TierRecorder(const Fabric& fabric, const std::vector<std::vector<Usage>>& usage)
    : fabric_(fabric), bytes_(fabric.tiers().size(), std::vector<double>(bins)) {
  for (const auto& shape : usage) add_shape(shape, &Usage::wire);
}

TierRecorder::TierRecorder(const Fabric& fabric, const LinkTable& wire)
    : fabric_(fabric), bytes_(fabric.tiers().size(), std::vector<double>(bins)) {
  for (std::size_t s = 0; s < wire.shapes(); ++s) add_shape(wire.of(s), &LinkLoad::load);
}

template <class Row, class Wire>
void TierRecorder::add_shape(const Row& row, const Wire& wire) {
  std::vector<double> sum(bytes_.size());
  for (const auto& entry : row) sum[fabric_.link(entry.link).tier.index()] += entry.*wire;
  auto& kept = wire_.emplace_back();
  for (std::size_t t = 0; t < sum.size(); ++t)
    if (sum[t] > 0) kept.push_back({t, sum[t]});
}

void TierRecorder::widen(Time until) {
  while (until.ps() > bin_ps_ * static_cast<std::int64_t>(bins)) {
    for (auto& tier : bytes_) {
      for (std::size_t i = 0; i < bins / 2; ++i) tier[i] = tier[2 * i] + tier[2 * i + 1];
      std::fill(tier.begin() + bins / 2, tier.end(), 0.0);
    }
    bin_ps_ *= 2;
  }
}

void TierRecorder::add(ShapeId shape, double size, Time from, Time to) {
  widen(to);
  const auto first = from.ps() / bin_ps_;
  const auto last = std::min<std::int64_t>(to.ps() / bin_ps_, bins - 1);
  const auto whole = std::max<std::int64_t>(to.ps() - from.ps(), 1);
  for (auto bin = first; bin <= last; ++bin) {
    const auto begin = std::max(from.ps(), bin * bin_ps_);
    const auto end = std::min(std::max(to.ps(), from.ps() + 1), (bin + 1) * bin_ps_);
    if (end <= begin) continue;
    const double part = static_cast<double>(end - begin) / static_cast<double>(whole);
    for (const TierBytes& t : wire_[shape.index()])
      bytes_[t.tier][static_cast<std::size_t>(bin)] += t.wire * size * part;
  }
}

std::vector<TierTimeline> TierRecorder::timelines(Duration step) const {
  std::vector<TierTimeline> result;
  const auto used = std::min<std::size_t>(bins, static_cast<std::size_t>(step.ps() / bin_ps_) + 1);
  for (std::size_t t = 0; t < bytes_.size(); ++t) {
    const double full =
        static_cast<double>(fabric_.tiers()[t].bandwidth.bytes_per_s()) * picoseconds(bin_ps_).seconds();
    TierTimeline line{.bin = picoseconds(bin_ps_), .utilization = {}};
    for (std::size_t i = 0; i < used; ++i) line.utilization.push_back(bytes_[t][i] / full);
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace foretrain
