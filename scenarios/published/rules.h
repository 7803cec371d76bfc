// PublishedRules: what a published row means where it does not say it in a scenario's words, as data: the files of
// scenarios/published/rules, applied one after the other to every row that they match.
//
//   - when: {family: zero-bubble, pp_schedule: 1F1B-I, layers: 22}     # every column matches one of its patterns
//     why: one layer a chunk
//     columns: {vpp: 3}                                               # taken for what the row says
//   - when: {gpu: [GB200, GB300], n_gpus: 8}
//     scenario: {cluster: {node: {gpus: 8}}}                          # laid over the scenario
//
// A pattern is text in which * stands for any characters; "" matches an empty column.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/published/table.h"
#include "scenarios/yaml_node.h"

namespace foretrain {

/// What a source means by the memory of a run: tensors; tensors and what the allocator holds back; all that the driver
/// shows.
enum class MemoryReading : std::uint8_t { allocated, reserved, device };
inline constexpr MemoryReading all_memory_readings[] = {MemoryReading::allocated, MemoryReading::reserved,
                                                        MemoryReading::device};
[[nodiscard]] std::string_view to_text(MemoryReading reading);

struct PublishedMemory {
  MemoryReading reading = MemoryReading::allocated;
  double unit = 0;                    ///< bytes of what the column counts in
  std::optional<std::int64_t> stage;  ///< pipeline stage that it is of; none: the fullest
};

struct PublishedRule {
  struct Condition {
    std::string column;
    std::vector<std::string> patterns;
  };
  std::vector<Condition> when;
  std::string why;
  std::vector<std::pair<std::string, std::string>> columns;
  std::optional<YamlNode> scenario;
  std::optional<PublishedMemory> memory;
  bool apart = false;  ///< a headline: played although the table says not to use it, and reported apart
  std::string skip;    ///< why such rows cannot be played

  [[nodiscard]] bool matches(const PublishedRun& run) const;
};

using PublishedRules = std::vector<PublishedRule>;

/// Those of the catalogue's folder published/rules, in the order of the files' names. Throws InputError.
[[nodiscard]] PublishedRules load_published_rules(const std::filesystem::path& catalogue);
/// The same from text; `name` stands for the file in messages.
[[nodiscard]] PublishedRules parse_published_rules(const std::string& text, const std::string& name);

/// Whether `text` is what `pattern` describes.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace foretrain
