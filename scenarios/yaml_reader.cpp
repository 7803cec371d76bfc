#include "scenarios/yaml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace foretrain {
namespace {

constexpr std::size_t digits_most = 18;  // of an int64, whatever they are

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string range_text(IntegerRange range) {
  return fmt::format("a whole number from {} to {}", range.least, range.most);
}

/// Digits with at most one point among them and an exponent: what JSON calls a number.
bool decimal(std::string_view text) {
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  const auto mark = text.find_first_of("eE");
  if (mark != std::string_view::npos) {
    std::string_view exponent = text.substr(mark + 1);
    if (!exponent.empty() && (exponent.front() == '-' || exponent.front() == '+')) exponent.remove_prefix(1);
    if (!all_digits(exponent)) return false;
    text = text.substr(0, mark);
  }
  const auto point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  if (!all_digits(whole) || (whole.size() > 1 && whole.front() == '0')) return false;
  return point == std::string_view::npos || all_digits(text.substr(point + 1));
}

}  // namespace

MapReader::MapReader(const YamlNode& map, std::string path, Problems& problems)
    : map_(&map), path_(std::move(path)), problems_(problems) {
  usable_ = map.kind == YamlNode::Kind::map || map.kind == YamlNode::Kind::null;
  if (!usable_) problems_.add(map.place, path_, fmt::format("found {}; allowed: a map of keys", described(map)));
}

std::string MapReader::joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

void MapReader::unknown_word(const YamlNode& value, const std::string& path, const std::vector<std::string>& words) {
  const std::string near = value.kind == YamlNode::Kind::scalar ? suggestion(value.scalar, words) : "";
  problems_.add(value.place, path, fmt::format("found {}{}; allowed: {}", described(value), near, joined(words)));
}

bool MapReader::is_list(const YamlNode& value, std::string_view key, const std::string& of) {
  if (value.kind == YamlNode::Kind::list) return true;
  problems_.add(value.place, dotted(path_, key), fmt::format("found {}; allowed: a list of {}", described(value), of));
  return false;
}

std::optional<std::int64_t> MapReader::whole_number(const YamlNode& value, const std::string& path,
                                                    IntegerRange range) {
  const std::string allowed = range_text(range);
  const auto refuse_with = [&](const std::string& wrong) {
    problems_.add(value.place, path, fmt::format("{}; allowed: {}", wrong, allowed));
    return std::nullopt;
  };
  std::string_view digits = value.scalar;
  const bool negative = !digits.empty() && digits.front() == '-';
  if (negative) digits.remove_prefix(1);
  if (value.kind != YamlNode::Kind::scalar || value.quoted || !all_digits(digits)) {
    return refuse_with(fmt::format("found {}", described(value)));
  }
  if (digits.size() > 1 && digits.front() == '0') {
    return refuse_with(fmt::format("{} begins with 0, which some read as octal", described(value)));
  }
  std::int64_t number = 0;
  if (digits.size() <= digits_most) {
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (negative) number = -number;
  }
  const bool inside = digits.size() <= digits_most && number >= range.least && number <= range.most;
  if (!inside) return refuse_with(fmt::format("{} is out of range", shown(value.scalar)));
  return number;
}

std::int64_t MapReader::integer(std::string_view key, IntegerRange range, std::optional<std::int64_t> fallback) {
  const YamlNode* value = ask(
      key, [&] { return range_text(range); }, fallback.has_value());
  const auto found = value == nullptr ? std::nullopt : whole_number(*value, dotted(path_, key), range);
  return found ? *found : fallback.value_or(std::max<std::int64_t>(range.least, 1));
}

std::vector<std::int64_t> MapReader::integers(std::string_view key, IntegerRange range,
                                              const std::optional<std::vector<std::int64_t>>& fallback) {
  const YamlNode* value = ask(
      key, [] { return std::string("a list of whole numbers"); }, fallback.has_value());
  if (value == nullptr || !is_list(*value, key, "whole numbers")) return fallback.value_or(std::vector<std::int64_t>{});
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < value->items.size(); ++i) {
    const auto number = whole_number(value->items[i], fmt::format("{}[{}]", dotted(path_, key), i), range);
    found.push_back(number.value_or(range.least));
  }
  return found;
}

double MapReader::number(std::string_view key, NumberRange range, std::optional<double> fallback) {
  std::string allowed = fmt::format("a number from {} to {}", range.least, range.most);
  const YamlNode* value = ask(
      key, [&] { return allowed; }, fallback.has_value());
  const double harmless = fallback.value_or(range.most);
  if (value == nullptr) return harmless;
  double found = 0;
  const std::string& text = value->scalar;
  const bool plain = value->kind == YamlNode::Kind::scalar && !value->quoted && decimal(text);
  if (plain && std::from_chars(text.data(), text.data() + text.size(), found).ec == std::errc{} &&
      found >= range.least && found <= range.most) {
    return found == 0 ? 0 : found;  // no negative zero
  }
  const std::string wrong = plain ? shown(text) + " is out of range" : "found " + described(*value);
  problems_.add(value->place, dotted(path_, key), fmt::format("{}; allowed: {}", wrong, allowed));
  return harmless;
}

bool MapReader::boolean(std::string_view key, std::optional<bool> fallback) {
  const YamlNode* value = ask(
      key, [] { return std::string("true or false"); }, fallback.has_value());
  if (value == nullptr) return fallback.value_or(false);
  if (value->kind == YamlNode::Kind::scalar && !value->quoted) {
    if (value->scalar == "true") return true;
    if (value->scalar == "false") return false;
  }
  problems_.add(value->place, dotted(path_, key), fmt::format("found {}; allowed: true, false", described(*value)));
  return fallback.value_or(false);
}

std::string MapReader::text(std::string_view key, const std::optional<std::string>& fallback) {
  const YamlNode* value = ask(
      key, [] { return std::string("text"); }, fallback.has_value());
  if (value == nullptr) return fallback.value_or("");
  if (value->kind == YamlNode::Kind::scalar && !value->scalar.empty()) return value->scalar;
  problems_.add(value->place, dotted(path_, key), fmt::format("found {}; allowed: text", described(*value)));
  return fallback.value_or("");
}

template <class Quantity, class Parse>
Quantity MapReader::quantity(std::string_view key, const std::optional<Quantity>& fallback, Quantity least,
                             Quantity most, Parse parse) {
  std::string allowed = fmt::format("{} to {}", to_text(least), to_text(most));
  const YamlNode* value = ask(
      key, [&] { return allowed; }, fallback.has_value());
  if (value == nullptr) return fallback.value_or(least);
  const std::string path = dotted(path_, key);
  if (value->kind != YamlNode::Kind::scalar) {
    problems_.add(value->place, path, fmt::format("found {}; allowed: {}", described(*value), allowed));
    return fallback.value_or(least);
  }
  const Parsed<Quantity> parsed = parse(value->scalar);
  if (parsed.value && *parsed.value >= least && *parsed.value <= most) return *parsed.value;
  const std::string wrong =
      parsed.value ? fmt::format("{} is out of range; allowed: {}", described(*value), allowed) : parsed.error;
  problems_.add(value->place, path, wrong);
  return fallback.value_or(least);
}

// The ranges are wide enough for anything built, and narrow enough that sums over a fabric stay inside 64 bits.
Bandwidth MapReader::bandwidth(std::string_view key, std::optional<Bandwidth> fallback) {
  constexpr Bandwidth least = bytes_per_second(1'000'000);
  constexpr Bandwidth most = bytes_per_second(10'000'000'000'000);
  return quantity<Bandwidth>(key, fallback, least, most, parse_bandwidth);
}
Bytes MapReader::bytes_of(std::string_view key, std::optional<Bytes> fallback) {
  return quantity<Bytes>(key, fallback, bytes(1), gibibytes(1 << 20), parse_bytes);
}
FlopRate MapReader::flop_rate(std::string_view key, std::optional<FlopRate> fallback) {
  return quantity<FlopRate>(key, fallback, flops_per_second(1e9), flops_per_second(1e18), parse_flop_rate);
}
Duration MapReader::duration(std::string_view key, std::optional<Duration> fallback) {
  return quantity<Duration>(key, fallback, Duration{}, picoseconds(1'000'000'000'000), parse_duration);
}

const YamlNode* MapReader::child(std::string_view key, std::string_view needed) {
  return ask(
      key, [&] { return std::string(needed); }, needed.empty());
}

void MapReader::refuse(std::string_view key, const std::string& message) {
  const YamlNode* value = map_->find(key);
  problems_.add(value == nullptr ? map_->place : value->place, dotted(path_, key), message);
}

void MapReader::finish() {
  if (!usable_) return;
  std::vector<std::string> slips;  // known keys that an unknown one probably meant
  for (const YamlEntry& entry : map_->entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    const std::string near = nearest_word(entry.key, known_);
    const std::string hint = near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
    problems_.add(entry.place, dotted(path_, shown(entry.key)),
                  fmt::format("unknown key '{}'{}; allowed: {}", shown(entry.key), hint, joined(known_)));
    if (!near.empty() && !given(near)) problems_.suspect(dotted(path_, near));
    slips.push_back(near);
  }
  for (const auto& [key, needed] : missing_) {
    if (std::find(slips.begin(), slips.end(), key) != slips.end()) continue;
    problems_.add(map_->place, dotted(path_, key), fmt::format("missing key '{}'; needed: {}", key, needed));
  }
}

}  // namespace foretrain
