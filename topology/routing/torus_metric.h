// TorusMetric: distances between the routers of a torus by their coordinates, without a search. Only for a torus that
// is whole: with a cable missing, distances are no longer sums over the dimensions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

/// Whether the network is a torus of routers only, one a point of the shape (cables may be missing).
[[nodiscard]] bool is_plain_torus(const Fabric& fabric);

class TorusMetric {
 public:
  /// None when the fabric is no plain torus, lacks a cable, has one too many, or wraps round in some lines only.
  /// Two routers must be less than 65,535 hops apart.
  [[nodiscard]] static std::optional<TorusMetric> of(const Fabric& fabric);

  /// Cables from the router at one point to that at another, points numbered x fastest.
  [[nodiscard]] std::uint16_t distance(std::uint32_t from, std::uint32_t to) const {
    const std::uint32_t* a = coordinates_.data() + from * dimensions_.size();
    const std::uint32_t* b = coordinates_.data() + to * dimensions_.size();
    std::uint32_t sum = 0;
    for (const Dimension& dimension : dimensions_) {
      const std::uint32_t straight = *a > *b ? *a - *b : *b - *a;
      const std::uint32_t round = dimension.extent - straight;
      sum += dimension.wraps && round < straight ? round : straight;
      ++a;
      ++b;
    }
    return static_cast<std::uint16_t>(sum);
  }

 private:
  struct Dimension {
    std::uint32_t extent = 1;
    bool wraps = false;
  };
  std::vector<Dimension> dimensions_;
  std::vector<std::uint32_t> coordinates_;  ///< of router 0, of router 1, ...
};

}  // namespace foretrain
