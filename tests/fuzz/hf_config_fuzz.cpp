// Fuzzes the reader of config.json: a model whose text comes back as it was and whose parameters can be counted, or one
// printable message.
#include <cstddef>
#include <cstdint>

#include "scenarios/hf_config.h"
#include "scenarios/sections.h"
#include "tests/fuzz/scenario_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  Problems problems;
  const auto source = problems.source("config.json", std::string(data, data + size), ".");
  const std::optional<HfConfig> config = read_hf_config(source, problems);
  require(config.has_value() == problems.empty());
  if (!config) {
    require(printable(problems.text()));
    return 0;
  }
  for (const std::string& note : config->notes) require(printable(note) && note.find('\n') == std::string::npos);
  require(config->model.parameters() > 0 && config->model.active_parameters() > 0);
  const std::string written = write_model(config->model, "");
  Problems none;
  const std::optional<YamlNode> map = parse_yaml(none.source("m.yaml", written, "."), "a model", none);
  require(map.has_value());
  const Model again = read_model(*map, {Catalogue("/nowhere"), none});
  require(none.empty() && write_model(again, "") == written);
  return 0;
}
