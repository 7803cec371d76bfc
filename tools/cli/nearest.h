// "Did you mean ...": the known word nearest to a misspelt one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace foretrain {

/// Fewest insertions, deletions and substitutions that turn one word into the other (Levenshtein 1966).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the nearest candidates, if it is near enough to be what was meant: a third of the word may differ.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// ", did you mean 'X'?" or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace foretrain
