#include "scenarios/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace foretrain {
std::optional<YamlNode> parse_json(const std::shared_ptr<const Source>& source, std::string_view what,
                                   Problems& problems) {
  if (!readable(source, problems)) return std::nullopt;
  const std::string& text = source->text;
  if (text.find_first_not_of(" \t\r\n") != std::string::npos) {
    try {
      // Strictly, and dropping every value as it comes: only the verdict and its place are wanted.
      const auto drop = [](int, nlohmann::json::parse_event_t, const nlohmann::json&) { return false; };
      const nlohmann::json nothing = nlohmann::json::parse(text, drop);
    } catch (const nlohmann::json::parse_error& error) {
      const std::size_t offset = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
      const bool cut_short = text.find_first_not_of(" \t\r\n", offset) == std::string::npos;
      const std::string found = cut_short ? "the text ends too early" : "cannot go on here";
      problems.add({source, position_of(text, offset)}, "", fmt::format("not JSON: {}; allowed: {}", found, what));
      return std::nullopt;
    } catch (const nlohmann::json::out_of_range&) {
      problems.add({source, std::nullopt}, "",
                   fmt::format("a number is beyond what a computer holds; allowed: {}", what));
      return std::nullopt;
    }
  }
  return parse_yaml(source, what, problems);  // also says what is wrong with an empty text
}

}  // namespace foretrain
