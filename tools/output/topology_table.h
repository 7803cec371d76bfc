// What `foretrain topology` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "topology/analysis.h"
#include "topology/collisions.h"

namespace foretrain {

/// What `--collisions` asked for and found.
struct CollisionTable {
  TrafficPattern pattern{};
  Routing routing{};
  std::uint64_t seed = 1;
  CollisionReport report;
  std::string busiest;  ///< name of the busiest link
};

[[nodiscard]] std::string topology_text(const std::string& cluster, const TopologyReport& report);
[[nodiscard]] std::string collisions_text(const CollisionTable& table);
[[nodiscard]] std::string topology_json(const std::string& cluster, const TopologyReport& report,
                                        const std::optional<CollisionTable>& collisions = std::nullopt);

}  // namespace foretrain
