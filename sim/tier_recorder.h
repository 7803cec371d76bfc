// Bytes over time by tier, in at most `bins` equal bins whose width doubles whenever the step outgrows them.
//
// Bytes are added up as whole numbers of 2^-56 of a byte: transfers that do the same may be added one by one or all at
// once, with the same sum.
#pragma once

#include <vector>

#include "sim/expansion.h"
#include "sim/network.h"
#include "sim/resources.h"
#include "sim/simulate.h"
#include "topology/fabric.h"

namespace foretrain {

class TierRecorder {
 public:
  /// `played_as` by shape of the expansion: the shape that stands for it in `add`.
  TierRecorder(const Fabric& fabric, const Expansion& expansion, const std::vector<std::uint32_t>& played_as);
  /// `wire` by shape: of fidelity `flows`, a message byte being a wire byte.
  TierRecorder(const Fabric& fabric, const LinkTable& wire);
  /// A transfer of that shape moved `size` message bytes, evenly over [from, to].
  void add(ShapeId shape, double size, Time from, Time to);
  [[nodiscard]] std::vector<TierTimeline> timelines(Duration step) const;

 private:
  static constexpr std::size_t bins = 1024;
  __extension__ typedef __int128 Whole;  // NOLINT(modernize-use-using): __extension__ wants a typedef
  void add_wire(std::size_t shape, LinkId link, double wire, std::uint32_t links);
  void widen(Time until);

  const Fabric& fabric_;
  struct TierBytes {
    std::size_t tier;
    Whole wire;
  };
  std::vector<std::vector<TierBytes>> wire_;  ///< by shape: 2^-32 wire bytes a message byte, by tier
  std::int64_t bin_ps_ = 1'000'000;           ///< 1 us to begin with
  std::vector<std::vector<Whole>> bytes_;     ///< by tier, by bin: 2^-56 wire bytes
};

}  // namespace foretrain
