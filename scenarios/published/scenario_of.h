// scenario_of: the scenario that a published row states, as YAML; what the row leaves open comes from the rules
// (published/rules/*.yaml), and what they leave open from the defaults of scenarios.
//
//   const auto s = scenario_of(table.runs[0], load_published_rules(catalogue));
//   if (s.skipped.empty()) parse_scenario(s.yaml, s.run.id(), {}, catalogue);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/published/rules.h"

namespace foretrain {

struct PublishedScenario {
  PublishedRun run;  ///< with the columns that rules gave it
  std::string yaml;
  std::vector<std::string> reasons;  ///< why rules took what the row does not say
  std::optional<PublishedMemory> memory;
  bool apart = false;   ///< reported apart from the rows that the table says to use
  std::string skipped;  ///< why there is no scenario; empty where there is one
};

[[nodiscard]] PublishedScenario scenario_of(const PublishedRun& run, const PublishedRules& rules);

}  // namespace foretrain
