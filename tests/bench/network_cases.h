// Traffic under heavy contention, for the fluid network alone: single flows over ECMP on full-bisection fat-trees of
// three tiers, one GPU a server, 50 GB/s NICs. What `foretrain_bench` times and the tests play small.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/network.h"
#include "sim/resources.h"
#include "topology/fabric.h"

namespace foretrain::bench {

/// The smallest k-ary fat-tree that holds these hosts.
[[nodiscard]] Fabric fat_tree(std::uint32_t hosts);

/// Single flows: flow i crosses the links of row i.
struct Traffic {
  LinkTable links;
  std::vector<double> bytes;
};

/// Every host sends to one other; hosts form one random cycle.
[[nodiscard]] Traffic permutation(const Fabric& fabric, double bytes, std::uint64_t seed);
/// Every host sends to every other. Sizes from bytes / spread to bytes * spread, log-uniform; spread 1: all alike.
[[nodiscard]] Traffic all_to_all(const Fabric& fabric, double bytes, double spread, std::uint64_t seed);

/// The network that carries these flows, one shape a flow. Frees the traffic's links.
[[nodiscard]] std::unique_ptr<FluidNetwork> network_of(const Fabric& fabric, Traffic& traffic);

struct Outcome {
  std::vector<Time> finish;  ///< by flow
  std::uint64_t flows = 0;   ///< that ended
};

/// All flows start at 0.
[[nodiscard]] Outcome play_at_once(FluidNetwork& network, const std::vector<double>& bytes);
/// `steps` rounds on a cycle, as a ring collective sends: a host sends again when its last send is done and what its
/// predecessor sent in that round is there.
[[nodiscard]] Outcome play_ring(FluidNetwork& network, const std::vector<double>& bytes, std::uint32_t steps);

}  // namespace foretrain::bench
