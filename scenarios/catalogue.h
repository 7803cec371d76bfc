// Catalogue: the shelves of YAML files that a scenario takes parts from by name, and `use`, the key that does it.
//
//   model: llama3-405b                          # models/llama3-405b.yaml of the catalogue
//   model: models/llama3-405b                   # the same
//   model: ./mine.yaml                          # a file beside this one
//   model: {use: llama3-405b, layers: 4}        # with changes
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/yaml_node.h"

namespace foretrain {

enum class Shelf : std::uint8_t { scenarios, models, clusters, gpus, node_transports, network_transports, stacks };

class Catalogue {
 public:
  explicit Catalogue(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Names on a shelf, sorted.
  [[nodiscard]] std::vector<std::string> names(Shelf shelf) const;
  [[nodiscard]] std::filesystem::path file(Shelf shelf, const std::string& name) const;

  /// The map that `node` means: itself, the file that it names, or the file with changes laid over it. A map that came
  /// from a file gets the file's name as its key `name` unless it has one. Nothing if a file cannot be read or is not
  /// YAML; that is noted.
  [[nodiscard]] std::optional<YamlNode> resolve(const YamlNode& node, Shelf shelf, const std::string& path,
                                                Problems& problems, int depth = 0) const;

 private:
  std::optional<YamlNode> load(const YamlNode& name, Shelf shelf, const std::string& path, Problems& problems,
                               int depth) const;
  std::filesystem::path folder_;
};

/// "a model", "a cluster"...: for messages.
[[nodiscard]] std::string_view noun(Shelf shelf);

/// The whole of a file, at most a little over `most` bytes (a longer one shows by its size); or why it cannot be read.
struct FileText {
  std::optional<std::string> text;
  std::string error;
};
[[nodiscard]] FileText read_file(const std::filesystem::path& file, std::size_t most = yaml_bytes_max);
/// The same of a file that a scenario names, which must not be a device or a pipe: those may wait for ever.
[[nodiscard]] FileText read_regular_file(const std::filesystem::path& file);

}  // namespace foretrain
