// NodeRings: the rings that a ring collective runs through the GPUs of one node.
//
// On an NVSwitch, or over PCIe, one ring in the order of the group says it all. Where GPUs are joined directly (full
// mesh, hybrid cube mesh) one ring would use one link of each GPU, so NCCL and RCCL run several at once, as channels,
// each with an equal part of the message. `find_node_rings` lays them: closed ways through all GPUs of the group, every
// one over direct links and used both ways round, so many that their traffic fills the links as evenly as it can.
//
//   - All pairs joined by equally many links (n of them): every directed link carries 1/(n-1) of the traffic of a
//     ring, the least that is possible. Walecki's zigzag cycles, of which n-1 cover every pair twice for even n, and
//     (n-1)/2 cover every pair once for odd n (Alspach, "The wonderful Walecki construction", 2008).
//   - Else a search of bounded effort as NCCL's (src/graph/search.cc): as many rings as the links admit, parallel links
//     counted singly; half rings where that is more. DGX-1 with V100: three each way, of 25 GB/s (WP-08437).
//   - No closed way over direct links alone (two GPUs of a cube mesh that are not neighbours): one ring in the order of
//     the group, whose other hops take PCIe.
//
// Links count by their number, not by their rate: a link that a fault slows keeps its rings, as NCCL does not measure.
//
//   NodeRings rings = find_node_rings(fabric, gpus);
//   for (const NodeRing& ring : rings.rings) ...   // gpus[ring[0]] > gpus[ring[1]] > ... > gpus[ring[0]]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

/// Positions in the group, each once; after the last comes the first.
using NodeRing = std::vector<std::uint32_t>;

struct NodeRings {
  /// One at least; each carries the same part.
  std::vector<NodeRing> rings;
  /// On direct links: what a GPU sends at most when all rings run at the rate of the slowest link, each link shared by
  /// its rings. Nothing where GPUs are not joined directly.
  std::optional<Bandwidth> rate;
};

/// `gpus`: of one node, each once.
[[nodiscard]] NodeRings find_node_rings(const Fabric& fabric, std::span<const GpuId> gpus);

/// Links between every two of `size` GPUs, row by row; symmetric.
struct LinkCounts {
  std::size_t size = 0;
  std::vector<std::uint32_t> links;
  [[nodiscard]] std::uint32_t at(std::size_t a, std::size_t b) const { return links[a * size + b]; }
  friend bool operator==(const LinkCounts&, const LinkCounts&) = default;
};

/// The rings for these links, both directions of each listed; empty where none closes over them. Same links, same
/// rings.
[[nodiscard]] std::vector<NodeRing> rings_over(const LinkCounts& counts);

}  // namespace foretrain
