// Bytes over time by tier, in at most `bins` equal bins whose width doubles whenever the step outgrows them.
#pragma once

#include <vector>

#include "sim/collectives/collective.h"
#include "sim/network.h"
#include "sim/resources.h"
#include "sim/simulate.h"
#include "topology/fabric.h"

namespace foretrain {

class TierRecorder {
 public:
  /// `usage` by shape.
  TierRecorder(const Fabric& fabric, const std::vector<std::vector<Usage>>& usage);
  /// `wire` by shape: of fidelity `flows`, a message byte being a wire byte.
  TierRecorder(const Fabric& fabric, const LinkTable& wire);
  /// A transfer of that shape moved `size` message bytes, evenly over [from, to].
  void add(ShapeId shape, double size, Time from, Time to);
  [[nodiscard]] std::vector<TierTimeline> timelines(Duration step) const;

 private:
  static constexpr std::size_t bins = 1024;
  template <class Row, class Wire>
  void add_shape(const Row& row, const Wire& wire);
  void widen(Time until);

  const Fabric& fabric_;
  struct TierBytes {
    std::size_t tier;
    double wire;
  };
  std::vector<std::vector<TierBytes>> wire_;  ///< by shape: wire bytes a message byte, by tier
  std::int64_t bin_ps_ = 1'000'000;           ///< 1 us to begin with
  std::vector<std::vector<double>> bytes_;    ///< by tier, by bin
};

}  // namespace foretrain
