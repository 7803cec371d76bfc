#include "tools/output/human.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <span>

namespace foretrain {
namespace {

std::string scaled_by(double value, double base, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  // 0.9995: what would round to "1000" takes the next unit.
  while (unit + 1 < units.size() && std::abs(value) >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  if (unit == 0 && value == std::floor(value)) return fmt::format("{:.0f} {}", value, units[0]);
  return fmt::format("{} {}", significant(value), units[unit]);
}

}  // namespace

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  // The exponent after rounding to `digits`: 9.996 is "10.0", not "10.00".
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
}

std::string grouped(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string human_count(double value) {
  constexpr std::array<std::string_view, 5> units = {"", "k", "M", "G", "T"};
  std::string text = scaled_by(value, 1000, units);
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string human_seconds(double s) {
  if (!std::isfinite(s)) return "-";
  if (s == 0) return "0 s";
  const double size = std::abs(s);
  if (size >= 0.9995) return significant(s, 4) + " s";
  if (size >= 0.9995e-3) return significant(s * 1e3) + " ms";
  if (size >= 0.9995e-6) return significant(s * 1e6) + " us";
  return significant(s * 1e9) + " ns";
}

std::string human_bytes(double bytes) {
  constexpr std::array<std::string_view, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled_by(bytes, 1024, units);
}

std::string human_rate(double bytes_per_s) {
  constexpr std::array<std::string_view, 6> units = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
  return scaled_by(bytes_per_s, 1000, units);
}

std::string human_percent(double part) { return fmt::format("{:.1f} %", part * 100); }

std::string clipped(std::string_view text, std::size_t width) {
  if (text.size() <= width) return std::string(text);
  return std::string(text.substr(0, width - 2)) + "..";
}

}  // namespace foretrain
