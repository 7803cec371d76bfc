// The longest shortest path between two GPUs of a fabric.
#pragma once

#include <cstddef>

#include "topology/routing/switch_graph.h"

namespace foretrain {

/// In links, by the rules of routing (routing/router.h): GPUs are not crossed, GPUs of a node meet inside it where
/// it joins them. Pairs without a path do not count.
[[nodiscard]] std::size_t diameter(const SwitchGraph& graph);

}  // namespace foretrain
