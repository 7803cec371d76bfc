#include "sim/tier_recorder.h"

#include <algorithm>
#include <cmath>

namespace foretrain {

namespace {

constexpr int wire_bits = 32;  ///< of a fraction of a byte, of wire bytes a message byte
constexpr int size_bits = 24;  ///< and of message bytes

}  // namespace

TierRecorder::TierRecorder(const Fabric& fabric, const Expansion& expansion,
                           const std::vector<std::uint32_t>& played_as)
    : fabric_(fabric), bytes_(fabric.tiers().size(), std::vector<Whole>(bins)) {
  std::vector<std::uint32_t> links(fabric.link_count(), expansion.alike.empty() ? 1 : 0);
  for (const LinkId first : expansion.alike) ++links[first.index()];
  for (const std::uint32_t shape : played_as) wire_.resize(std::max<std::size_t>(wire_.size(), shape + std::size_t{1}));
  for (std::size_t s = 0; s < expansion.usage.shapes(); ++s) {
    const auto crossed = expansion.usage.links(s);
    const auto amounts = expansion.usage.amounts(s);
    for (std::size_t i = 0; i < crossed.size(); ++i)
      add_wire(played_as[s], crossed[i], amounts[i].wire, links[crossed[i].index()]);
  }
}

TierRecorder::TierRecorder(const Fabric& fabric, const LinkTable& wire)
    : fabric_(fabric), bytes_(fabric.tiers().size(), std::vector<Whole>(bins)) {
  wire_.resize(wire.shapes());
  for (std::size_t s = 0; s < wire.shapes(); ++s)
    for (const LinkLoad& e : wire.of(s)) add_wire(s, e.link, e.load, 1);
}

void TierRecorder::add_wire(std::size_t shape, LinkId link, double wire, std::uint32_t links) {
  auto& sums = wire_[shape];
  const std::size_t tier = fabric_.link(link).tier.index();
  auto sum = std::find_if(sums.begin(), sums.end(), [tier](const TierBytes& t) { return t.tier == tier; });
  if (sum == sums.end()) sum = sums.insert(sums.end(), {tier, 0});
  sum->wire += static_cast<Whole>(std::nearbyint(std::ldexp(wire, wire_bits))) * links;
}

void TierRecorder::widen(Time until) {
  while (until.ps() > bin_ps_ * static_cast<std::int64_t>(bins)) {
    for (auto& tier : bytes_) {
      for (std::size_t i = 0; i < bins / 2; ++i) tier[i] = tier[2 * i] + tier[2 * i + 1];
      std::fill(tier.begin() + bins / 2, tier.end(), Whole{0});
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
    const auto moved = static_cast<Whole>(std::nearbyint(std::ldexp(size * part, size_bits)));
    for (const TierBytes& t : wire_[shape.index()]) bytes_[t.tier][static_cast<std::size_t>(bin)] += t.wire * moved;
  }
}

std::vector<TierTimeline> TierRecorder::timelines(Duration step) const {
  std::vector<TierTimeline> result;
  const auto used = std::min<std::size_t>(bins, static_cast<std::size_t>(step.ps() / bin_ps_) + 1);
  for (std::size_t t = 0; t < bytes_.size(); ++t) {
    const double full =
        static_cast<double>(fabric_.tiers()[t].bandwidth.bytes_per_s()) * picoseconds(bin_ps_).seconds();
    TierTimeline line{.bin = picoseconds(bin_ps_), .utilization = {}};
    for (std::size_t i = 0; i < used; ++i)
      line.utilization.push_back(std::ldexp(static_cast<double>(bytes_[t][i]), -wire_bits - size_bits) / full);
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace foretrain
