// YamlNode: a YAML text as a plain tree in which every value knows where it stands.
//
// Built from yaml-cpp's events, not from its nodes, so that duplicate keys are seen, aliases cannot expand, and depth
// and size are bounded before anything grows. Anchors, aliases, tags and several documents are refused: a scenario
// needs none of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/problems.h"

namespace foretrain {

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  SourcePlace place;
  std::string scalar;
  bool quoted = false;             ///< "8" is text, 8 a number
  std::vector<YamlNode> items;     ///< of a list
  std::vector<YamlEntry> entries;  ///< of a map, in the order of the file

  [[nodiscard]] const YamlNode* find(std::string_view key) const;
  [[nodiscard]] YamlNode* find(std::string_view key);
  /// The entry itself, for the place of its key.
  [[nodiscard]] const YamlEntry* entry(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  SourcePlace place;  ///< of the key
  YamlNode value;
};

/// The limits of a text; a larger one is refused with a message.
inline constexpr std::size_t yaml_bytes_max = std::size_t{1} << 20;
inline constexpr std::size_t yaml_depth_max = 32;
inline constexpr std::size_t yaml_keys_max = 256;  ///< of one map

/// Where a byte of a text stands.
[[nodiscard]] Position position_of(std::string_view text, std::size_t offset);
/// Whether a text has a size and characters that a parser may see, and a message show; notes what it has not.
[[nodiscard]] bool readable(const std::shared_ptr<const Source>& source, Problems& problems);

/// The tree of a source's text. Nothing when it is not YAML at all; mistakes that leave a tree (a duplicate key: the
/// first one counts) are added to `problems` too. `what` names it in the message for an empty file: "a scenario".
[[nodiscard]] std::optional<YamlNode> parse_yaml(const std::shared_ptr<const Source>& source, std::string_view what,
                                                 Problems& problems);

/// Lays `over` onto `base`: maps key by key, anything else replaces. A map laid on plain text means that the text
/// names a file: {use: text} and then the map. Another `kind` drops what a file said for the old one.
void overlay(YamlNode& base, const YamlNode& over);

/// What a message calls it: "nothing", "a map", "a list" or the text in quotes.
[[nodiscard]] std::string described(const YamlNode& node);

}  // namespace foretrain
