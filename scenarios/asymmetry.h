// What keeps ranks that run the same program from being played once for all.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace foretrain {

/// In words, each a cause: "2 GPUs compute at another pace", "routes are hashed (ecmp)". Empty where every class is a
/// program's (nothing broke), and where nothing was folded.
[[nodiscard]] std::vector<std::string> asymmetries(const Scenario& scenario, const Fabric& fabric, const Job& job,
                                                   const EngineStats& engine);

}  // namespace foretrain
