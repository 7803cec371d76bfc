// From links to resources: the exact reduction that `expand` describes, by itself.
#pragma once

#include <vector>

#include "sim/collectives/collective.h"
#include "sim/network.h"

namespace foretrain {

struct ResourceMap {
  std::vector<double> capacity;            ///< by resource, bytes a second
  std::vector<std::vector<LinkId>> links;  ///< by resource: those that are as narrow as its capacity
  std::vector<std::vector<Load>> loads;    ///< by shape: what is left of its usage vector
};

/// `usage` by shape (links ascending in each), `rate_cap` by shape in message bytes a second (or `uncapped`).
/// Whatever rates keep every resource within its capacity keep every link within its bandwidth, and the reverse.
[[nodiscard]] ResourceMap reduce_links(const Fabric& fabric, const std::vector<std::vector<Usage>>& usage,
                                       const std::vector<double>& rate_cap);

}  // namespace foretrain
