#include "tools/import/hf_model.h"

#include <fmt/format.h>

#include "scenarios/hf_config.h"
#include "scenarios/sections.h"

namespace foretrain {

ImportedModel read_hf_model(const InputText& input) {
  Problems problems;
  std::optional<HfConfig> config =
      read_hf_config(problems.source(input.name(), std::string(input.text()), ""), problems);
  problems.throw_if_any();
  return {std::move(config->model), std::move(config->notes)};
}

std::string write_model_file(const ImportedModel& imported, std::string_view source) {
  std::string text =
      fmt::format("# From {} ({}): {} parameters.\n", shown(source), hf_config_kind, imported.model.parameters());
  for (const std::string& note : imported.notes) text += fmt::format("# {}\n", note);
  return text + write_model(imported.model, "");
}

}  // namespace foretrain
