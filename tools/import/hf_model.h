// The importer of models: from Hugging Face's config.json to the YAML of a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/input_text.h"
#include "workloads/model.h"

namespace foretrain {

inline constexpr std::string_view hf_config_kind = "hf-config";

struct ImportedModel {
  Model model;
  std::vector<std::string> notes;  ///< "assumed: ..."
};
/// Throws InputError with every mistake of the file.
[[nodiscard]] ImportedModel read_hf_model(const InputText& input);
/// The YAML of a model with its notes as comments; `source` names the file it came from.
[[nodiscard]] std::string write_model_file(const ImportedModel& imported, std::string_view source);

}  // namespace foretrain
