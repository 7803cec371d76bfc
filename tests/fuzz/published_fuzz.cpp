// Fuzzes the reader of published tables: a text is refused with a printable message, or every row of it has a scenario
// or a reason why not, and a scenario's text is YAML.
#include <cstddef>
#include <cstdint>

#include "scenarios/published/predict.h"
#include "tests/fuzz/scenario_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;  // NOLINT(google-build-using-namespace)
  static const std::filesystem::path catalogue = std::filesystem::path(FORETRAIN_SOURCE_DIR) / "scenarios";
  static const PublishedRules rules = load_published_rules(catalogue);
  PublishedTable table;
  try {
    table = parse_published(std::string(data, data + size), "fuzz.csv");
  } catch (const InputError& error) {
    require(printable(error.what()));
    return 0;
  }
  for (const PublishedRun& run : table.runs) {
    const PublishedScenario s = scenario_of(run, rules);
    require(s.skipped.empty() != s.yaml.empty());
    if (s.yaml.empty()) continue;
    Problems problems;
    require(parse_yaml(problems.source("fuzz.yaml", s.yaml, ""), "a scenario", problems).has_value());
  }
  return 0;
}
