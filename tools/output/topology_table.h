// What `foretrain topology` shows.
#pragma once

#include <string>

#include "topology/analysis.h"

namespace foretrain {

[[nodiscard]] std::string topology_text(const std::string& cluster, const TopologyReport& report);
[[nodiscard]] std::string topology_json(const std::string& cluster, const TopologyReport& report);

}  // namespace foretrain
