// predict: plays the scenario of a published row, and sets beside what was published.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/published/scenario_of.h"
#include "scenarios/scenario.h"

namespace foretrain {

/// A row that is ready to play: its scenario, with what was published of it.
struct PublishedCase {
  PublishedScenario published;       ///< `skipped` also says what is wrong with the scenario
  std::optional<Scenario> scenario;  ///< none where it is skipped
  double step_s = 0;                 ///< published: as such, else from tokens a second, else from FLOP/s or MFU
  std::optional<double> memory_bytes;
};

/// `sets` are laid over the scenario, as `--set` does.
[[nodiscard]] PublishedCase case_of(const PublishedRun& run, const PublishedRules& rules,
                                    const std::vector<std::string>& sets, const std::filesystem::path& catalogue);

struct Prediction {
  double step_s = 0;
  std::optional<double> memory_bytes;  ///< read as the source reads it
};

/// Requires a scenario. Throws Deadlock and InputError.
[[nodiscard]] Prediction predict(const PublishedCase& of);

}  // namespace foretrain
