// From what the player measured to the rates, parts and tables of a Result. Internal to `rehearse`.
#pragma once

#include <vector>

#include "scenarios/result.h"

namespace foretrain {

/// By rank: the group of servers (`groups_of`) that its GPU is in.
[[nodiscard]] std::vector<std::size_t> group_of_ranks(const std::vector<NodeGroup>& groups, const Job& job);

/// What a rank with this peak of tensors holds beside them.
[[nodiscard]] Bytes overhead_of(const Scenario& s, const MemoryPeak& peak);

/// Fills in all but `scenario`, `engine` and `timeline`; `r.scenario` is given.
void sum_up(Result& r, const Measured& m, const Workload& w, const Fabric& fabric);

}  // namespace foretrain
