#include "tools/cli/size.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "scenarios/problems.h"

namespace foretrain {
namespace {

std::optional<double> unit_of(std::string_view suffix) {
  if (suffix.empty()) return 1.0;
  if (suffix == "K" || suffix == "k") return 0x1p10;
  if (suffix == "M" || suffix == "m") return 0x1p20;
  if (suffix == "G" || suffix == "g") return 0x1p30;
  if (suffix == "T" || suffix == "t") return 0x1p40;
  return std::nullopt;
}

}  // namespace

Parsed<Bytes> parse_size(std::string_view text) {
  const std::string error = fmt::format(
      "'{}' is no message size; allowed: a positive number of bytes, as 8, 1K, 64M, 1G or 64MiB", shown(text));
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{}) return {std::nullopt, error};
  const auto unit = unit_of(text.substr(static_cast<std::size_t>(end - text.data())));
  std::optional<Bytes> size;
  if (unit) {
    const double value = number * *unit;
    // 2^53: beyond it a double may not be the number that was written.
    if (value >= 1 && value <= 0x1p53 && value == std::floor(value)) size = bytes(static_cast<std::int64_t>(value));
  } else {
    size = parse_bytes(text).value;
  }
  if (!size || size->count() <= 0) return {std::nullopt, error};
  return {size, ""};
}

}  // namespace foretrain
