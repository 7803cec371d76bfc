// Hugging Face's config.json: the architecture of a model in the words of its own family.
//
//   Problems problems;
//   auto config = read_hf_config(problems.source("config.json", text, "."), problems);
//   config->model.parameters(); config->notes;        // "assumed: head_dim 128, which qwen3 has where none is said"
//
// `model_type` (else the first of `architectures`) chooses the dialect; docs/models.md lists them. Keys that do not
// bear on size or cost are passed over. What the file leaves out and its library fills in becomes a note; what our
// model cannot express is refused with the reason.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/yaml_node.h"
#include "workloads/model.h"

namespace foretrain {

struct HfConfig {
  Model model;
  std::vector<std::string> notes;
};

/// Nothing if anything is wrong, which is noted. The model has no name yet.
[[nodiscard]] std::optional<HfConfig> read_hf_config(const std::shared_ptr<const Source>& source, Problems& problems);
/// From a file; one that cannot be read is a mistake at `asked`.
[[nodiscard]] std::optional<HfConfig> load_hf_config(const std::filesystem::path& file, const SourcePlace& asked,
                                                     const std::string& path, Problems& problems);

/// The map that `{hf_config: FILE, ...}` means: the file's model as a map of our keys, with the other keys laid over.
[[nodiscard]] std::optional<YamlNode> resolve_hf_config(const YamlNode& node, Problems& problems);

/// The values of `model_type` that are understood, sorted.
[[nodiscard]] std::vector<std::string> hf_model_types();

}  // namespace foretrain
