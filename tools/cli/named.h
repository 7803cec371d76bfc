// A value of an enumeration by its name on the command line.
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "scenarios/problems.h"
#include "tools/cli/options.h"

namespace foretrain {

/// Lower case without '-' and '_', so that other spellings (up-down, Dimension_Order) are understood.
inline std::string folded(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != '_' && c != '-') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// "ecmp, spread, rail"
template <class Values>
std::string names_of(const Values& values) {
  std::vector<std::string_view> names;
  for (const auto value : values) names.push_back(to_text(value));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The one of `all` that the option names; nothing where the option is not given. Throws UsageError.
template <class Values>
auto named(const Syntax& syntax, const po::variables_map& values, const char* option, const Values& all)
    -> std::optional<std::remove_cvref_t<decltype(all[0])>> {
  if (values.count(option) == 0) return std::nullopt;
  const std::string& text = values[option].as<std::string>();
  std::vector<std::string> names;
  for (const auto value : all) {
    if (folded(to_text(value)) == folded(text)) return value;
    names.emplace_back(to_text(value));
  }
  throw syntax.error(fmt::format("--{}: unknown '{}'{}; allowed: {}", option, shown(text),
                                 suggestion(folded(text), names), fmt::join(names, ", ")));
}

}  // namespace foretrain
