// What `foretrain topology` says about a fabric: counts, radix, bisection, oversubscription, diameter.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

struct SwitchRadix {
  VertexKind kind{};
  std::size_t count = 0;
  std::size_t ports_min = 0;  ///< cables
  std::size_t ports_max = 0;
};

struct TierReport {
  std::string name;
  std::size_t links = 0;  ///< directed
  Bandwidth link_min;     ///< slowest link of the tier
  Bandwidth link_max;
  Duration latency;
  /// Of a switch below this tier: bandwidth that enters it from under it, over what leaves upwards through the
  /// tier; the worst such switch. 1 = non-blocking, 7 = oversubscribed 7:1; none where there is no "below" (NVLink,
  /// torus).
  std::optional<double> oversubscription;
};

struct TopologyReport {
  std::size_t gpus = 0, nodes = 0, nics = 0, vertices = 0, links = 0;
  std::vector<SwitchRadix> switches;
  std::vector<TierReport> tiers;
  /// Max-flow on the graph from the first half of the GPUs (by nodes) to the second half, one direction. Of an odd
  /// number of nodes the second half has one more; of one node the halves are of its GPUs.
  Bandwidth bisection;
  double bisection_of_injection = 0;  ///< bisection over what half of the GPUs can inject; 1 = full bisection
  std::size_t diameter_hops = 0;      ///< longest shortest path between two GPUs, links counted
};

[[nodiscard]] TopologyReport analyse(const Fabric& fabric);

/// Max-flow between two disjoint sets of GPUs, in the graph's own link bandwidths (Boost.Graph max-flow). GPUs of
/// neither set and hosts that only NICs hang on do not forward.
[[nodiscard]] Bandwidth max_flow(const Fabric& fabric, std::span<const GpuId> from, std::span<const GpuId> to);

/// Graphviz source of the fabric, GPUs of a node folded into one box when there are more than `most` vertices.
[[nodiscard]] std::string to_dot(const Fabric& fabric, std::size_t most = 2000);

}  // namespace foretrain
