// Faults: what is broken, slow or busy in a fabric, and the fabric that remains.
//
// Links that are down are left out, so routes avoid them; both directions of a cable go together. Vertices, GPUs, nodes
// and tiers keep their numbers and names; links are numbered anew. Faults of one link multiply.
//
//   FaultReading read = resolve(fabric, {{FabricFault::Kind::link, "leaf3 > spine1", 0},       // down
//                                        {FabricFault::Kind::nic, "node12/nic3", 0.5},         // at half rate
//                                        {FabricFault::Kind::tier, "leaf-spine", 0.7}});       // 30 % taken by others
//   if (read.mistakes.empty()) Fabric degraded = with_faults(fabric, read.remaining);
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

struct FabricFault {
  enum class Kind : std::uint8_t { link, nic, tier };
  Kind kind = Kind::link;
  std::string name;  ///< "leaf3 > spine1": all cables between the two; "node12/nic3": its cables to switches; a tier
  double remaining = 1;  ///< part of the bandwidth; 0: down
  friend bool operator==(const FabricFault&, const FabricFault&) = default;
};

struct FaultReading {
  struct Mistake {
    std::size_t fault = 0;  ///< which one of those given
    std::string name;       ///< the part of its name that is unknown; empty: both ends exist, no cable joins them
    std::vector<std::string> known;  ///< what could have been meant
  };
  std::vector<double> remaining;  ///< by LinkId: part of the bandwidth, 0 = down
  std::vector<Mistake> mistakes;  ///< in the order of the faults
};
[[nodiscard]] FaultReading resolve(const Fabric& fabric, std::span<const FabricFault> faults);

/// The GPUs of that name ("node5/gpu2") in a fabric, and all such names.
[[nodiscard]] std::optional<GpuId> find_gpu(const Fabric& fabric, const std::string& name);
[[nodiscard]] std::vector<std::string> names_of(const Fabric& fabric, VertexKind kind);

/// The fabric with `remaining[link]` of each link's bandwidth. Throws std::invalid_argument when two GPUs that reached
/// each other no longer do: the message names the first such pair and says how many GPUs are cut off from how many.
[[nodiscard]] Fabric with_faults(const Fabric& fabric, std::span<const double> remaining);

}  // namespace foretrain
