#include "topology/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace foretrain {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

/// `x` rounded to the nearest integer, halves away from zero.
std::int64_t rounded(double x) {
  constexpr double limit = 9223372036854775808.0;  // 2^63, exact in double
  if (!(x > -limit && x < limit)) {
    throw std::overflow_error(fmt::format("{} does not fit a 64-bit count", x));
  }
  return std::llround(x);
}

// --- Numbers and units as written --------------------------------------------------------------------------------

enum class Kind { duration, bytes, bandwidth, flop_rate };

/// A unit is `numerator / denominator` base units (ps, bytes, bytes a second), or 10^exponent FLOP/s.
struct Unit {
  std::string_view text;
  Kind kind = Kind::duration;
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
};

constexpr std::int64_t kilo = 1000;
constexpr std::int64_t mega = kilo * kilo;
constexpr std::int64_t giga = mega * kilo;
constexpr std::int64_t tera = giga * kilo;
constexpr std::int64_t kibi = 1024;
constexpr std::int64_t mebi = kibi * kibi;
constexpr std::int64_t gibi = mebi * kibi;
constexpr std::int64_t tebi = gibi * kibi;

constexpr Unit units[] = {
    {"ps", Kind::duration, 1},
    {"ns", Kind::duration, kilo},
    {"us", Kind::duration, mega},
    {"\xC2\xB5s", Kind::duration, mega},  // micro sign
    {"\xCE\xBCs", Kind::duration, mega},  // Greek mu
    {"ms", Kind::duration, giga},
    {"s", Kind::duration, tera},
    {"min", Kind::duration, 60 * tera},
    {"h", Kind::duration, 3600 * tera},
    {"B", Kind::bytes, 1},
    {"KB", Kind::bytes, kilo},
    {"kB", Kind::bytes, kilo},
    {"MB", Kind::bytes, mega},
    {"GB", Kind::bytes, giga},
    {"TB", Kind::bytes, tera},
    {"KiB", Kind::bytes, kibi},
    {"MiB", Kind::bytes, mebi},
    {"GiB", Kind::bytes, gibi},
    {"TiB", Kind::bytes, tebi},
    {"b/s", Kind::bandwidth, 1, 8},
    {"Kb/s", Kind::bandwidth, kilo, 8},
    {"Mb/s", Kind::bandwidth, mega, 8},
    {"Gb/s", Kind::bandwidth, giga, 8},
    {"Tb/s", Kind::bandwidth, tera, 8},
    {"bps", Kind::bandwidth, 1, 8},
    {"Kbps", Kind::bandwidth, kilo, 8},
    {"Mbps", Kind::bandwidth, mega, 8},
    {"Gbps", Kind::bandwidth, giga, 8},
    {"Tbps", Kind::bandwidth, tera, 8},
    {"B/s", Kind::bandwidth, 1},
    {"KB/s", Kind::bandwidth, kilo},
    {"MB/s", Kind::bandwidth, mega},
    {"GB/s", Kind::bandwidth, giga},
    {"TB/s", Kind::bandwidth, tera},
    {"KiB/s", Kind::bandwidth, kibi},
    {"MiB/s", Kind::bandwidth, mebi},
    {"GiB/s", Kind::bandwidth, gibi},
    {"TiB/s", Kind::bandwidth, tebi},
    {"FLOP/s", Kind::flop_rate, 0},
    {"FLOPS", Kind::flop_rate, 0},
    {"MFLOP/s", Kind::flop_rate, 6},
    {"MFLOPS", Kind::flop_rate, 6},
    {"GFLOP/s", Kind::flop_rate, 9},
    {"GFLOPS", Kind::flop_rate, 9},
    {"TFLOP/s", Kind::flop_rate, 12},
    {"TFLOPS", Kind::flop_rate, 12},
    {"PFLOP/s", Kind::flop_rate, 15},
    {"PFLOPS", Kind::flop_rate, 15},
    {"EFLOP/s", Kind::flop_rate, 18},
    {"EFLOPS", Kind::flop_rate, 18},
};

/// What the messages call a kind, its base unit, and what they tell the user to write.
struct Words {
  std::string_view noun;
  std::string_view base;
  std::string_view advice;
  std::string_view allowed;
};

constexpr Words words(Kind kind) {
  switch (kind) {
    case Kind::duration:
      return {"duration", "picoseconds", "write a duration such as 1.5us or 20ms", "ps, ns, us, ms, s, min, h"};
    case Kind::bytes:
      return {"number of bytes", "bytes", "write a number of bytes such as 64KiB or 80GB",
              "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"};
    case Kind::bandwidth:
      return {"bandwidth", "bytes a second", "write a bandwidth such as 400Gb/s or 50GB/s",
              "b/s, Kb/s, Mb/s, Gb/s, Tb/s, B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s"};
    case Kind::flop_rate:
      break;
  }
  return {"rate of computing", "FLOP/s", "write a rate of computing such as 989TFLOP/s or 1.979PFLOP/s",
          "FLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s"};
}

/// `text` in quotes for a message: bytes that a terminal or JSON might stumble over escaped, cut where it gets long.
std::string quoted(std::string_view text) {
  constexpr std::size_t most = 60;
  std::string out = "'";
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(byte));
    }
  }
  return out + (text.size() > most ? "...'" : "'");
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// A quantity cut into its parts; the digits still as text.
struct Written {
  bool negative = false;
  std::string_view whole;     ///< digits before the point
  std::string_view fraction;  ///< digits after it
  Unit unit{};
};

std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) {
    ++n;
  }
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

const Unit* find_unit(std::string_view text) {
  for (const Unit& unit : units) {
    if (unit.text == text) {
      return &unit;
    }
  }
  return nullptr;
}

/// Cuts `text` into `out`; returns the error, empty when there is none.
std::string cut(std::string_view text, Kind kind, Written& out) {
  const Words w = words(kind);
  std::string_view rest = trimmed(text);
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    out.negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  out.whole = take_digits(rest);
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    out.fraction = take_digits(rest);
  }
  if (out.whole.empty() && out.fraction.empty()) {
    return fmt::format("{} does not begin with a number; {}", quoted(text), w.advice);
  }
  rest = trimmed(rest);
  if (rest.empty()) {
    return fmt::format("{} has no unit; {}", quoted(text), w.advice);
  }
  const Unit* unit = find_unit(rest);
  if (unit == nullptr) {
    return fmt::format("{} has an unknown unit {}; allowed: {} (upper and lower case matter)", quoted(text),
                       quoted(rest), w.allowed);
  }
  if (unit->kind != kind) {
    return fmt::format("{} is a {}, not a {}; {}", quoted(text), words(unit->kind).noun, w.noun, w.advice);
  }
  out.unit = *unit;
  return {};
}

/// The value of a written quantity in base units.
struct Exact {
  enum class Outcome { ok, not_whole, too_large };
  Outcome outcome = Outcome::ok;
  UInt128 magnitude = 0;
};

/// 0.`digits` * numerator by long multiplication from the right, if that is whole. Any number of digits.
std::optional<std::uint64_t> whole_part_of(std::string_view digits, std::uint64_t numerator) {
  std::uint64_t carry = 0;  // stays below numerator < 2^52, so carry + 9 * numerator fits
  for (std::size_t i = digits.size(); i-- > 0;) {
    carry += static_cast<std::uint64_t>(digits[i] - '0') * numerator;
    if (carry % 10 != 0) {
      return std::nullopt;
    }
    carry /= 10;
  }
  return carry;
}

/// number * numerator / denominator, if that is a whole number below 2^64; integers throughout.
Exact evaluate(const Written& written) {
  constexpr UInt128 limit = static_cast<UInt128>(1) << 64;
  const auto numerator = static_cast<std::uint64_t>(written.unit.numerator);
  const auto denominator = static_cast<std::uint64_t>(written.unit.denominator);
  UInt128 whole = 0;
  for (const char digit : written.whole) {
    whole = whole * 10 + static_cast<unsigned>(digit - '0');
    if (whole >= limit) {
      return {Exact::Outcome::too_large, 0};
    }
  }
  const std::optional<std::uint64_t> part = whole_part_of(written.fraction, numerator);
  // A whole number of bytes is also a whole number of eighths, so both steps must come out whole.
  const UInt128 value = whole * numerator + part.value_or(0);
  if (!part || value % denominator != 0) {
    return {Exact::Outcome::not_whole, 0};
  }
  if (value / denominator >= limit) {
    return {Exact::Outcome::too_large, 0};
  }
  return {Exact::Outcome::ok, value / denominator};
}

/// The common part of the three parsers of whole quantities.
Parsed<std::int64_t> parse_whole(std::string_view text, Kind kind, bool may_be_negative) {
  const Words w = words(kind);
  Written written;
  if (std::string error = cut(text, kind, written); !error.empty()) {
    return {{}, std::move(error)};
  }
  const Exact exact = evaluate(written);
  if (exact.outcome == Exact::Outcome::not_whole) {
    return {{}, fmt::format("{} is not a whole number of {}; {}", quoted(text), w.base, w.advice)};
  }
  const UInt128 most = static_cast<UInt128>(int64_max) + (written.negative ? 1 : 0);
  if (exact.outcome == Exact::Outcome::too_large || exact.magnitude > most) {
    return {{}, fmt::format("{} is too large; the most is {} {}", quoted(text), int64_max, w.base)};
  }
  if (written.negative && exact.magnitude != 0 && !may_be_negative) {
    return {{}, fmt::format("{} is negative; {}", quoted(text), w.advice)};
  }
  const auto value = static_cast<Int128>(exact.magnitude);
  return {static_cast<std::int64_t>(written.negative ? -value : value), {}};
}

// --- Printing ----------------------------------------------------------------------------------------------------

struct DecimalUnit {
  std::string_view text;
  std::uint64_t size;
};

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0U - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

/// `value` in the largest of `scale` (ascending powers of ten) that is not above it, with all its decimals.
std::string decimal_text(std::int64_t value, std::span<const DecimalUnit> scale) {
  const std::uint64_t size = magnitude(value);
  DecimalUnit unit = scale.front();
  for (const DecimalUnit& candidate : scale) {
    if (candidate.size <= size) {
      unit = candidate;
    }
  }
  const std::string sign = value < 0 ? "-" : "";
  const std::uint64_t rest = size % unit.size;
  if (rest == 0) {
    return fmt::format("{}{}{}", sign, size / unit.size, unit.text);
  }
  // A leading 1 keeps the zeros behind the point.
  std::string fraction = fmt::format("{}", unit.size + rest).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fmt::format("{}{}.{}{}", sign, size / unit.size, fraction, unit.text);
}

/// `digits` with the point behind `point` of them (which may lie outside), written without exponent.
std::string plain_decimal(std::string digits, std::ptrdiff_t point) {
  if (point <= 0) {
    digits.insert(0, static_cast<std::size_t>(1 - point), '0');
    point = 1;
  }
  const auto place = static_cast<std::size_t>(point);
  if (place >= digits.size()) {
    digits.append(place - digits.size(), '0');
    return digits;
  }
  return digits.substr(0, place) + "." + digits.substr(place);
}

}  // namespace

Duration seconds(double s) { return picoseconds(rounded(s * 1e12)); }
Duration milliseconds(double ms) { return picoseconds(rounded(ms * 1e9)); }
Duration microseconds(double us) { return picoseconds(rounded(us * 1e6)); }
Duration nanoseconds(double ns) { return picoseconds(rounded(ns * 1e3)); }
Bytes bytes_rounded(double n) { return bytes(rounded(n)); }
Bandwidth gigabits_per_second(double gb) { return bytes_per_second(rounded(gb * 1.25e8)); }
Bandwidth gigabytes_per_second(double gb) { return bytes_per_second(rounded(gb * 1e9)); }

Bandwidth scaled(Bandwidth b, double part) {
  return bytes_per_second(rounded(static_cast<double>(b.bytes_per_s()) * part));
}

Duration transfer_time(Bytes size, Bandwidth rate) {
  if (size.count() < 0 || rate.bytes_per_s() <= 0) {
    throw std::invalid_argument(
        fmt::format("a transfer of {} bytes at {} bytes a second has no duration", size.count(), rate.bytes_per_s()));
  }
  const Int128 divisor = rate.bytes_per_s();
  const Int128 ps = (static_cast<Int128>(size.count()) * tera + divisor - 1) / divisor;
  if (ps > int64_max) {
    throw std::overflow_error(fmt::format("{} at {} takes longer than 106 days", to_text(size), to_text(rate)));
  }
  return picoseconds(static_cast<std::int64_t>(ps));
}

Parsed<Duration> parse_duration(std::string_view text) {
  Parsed<std::int64_t> whole = parse_whole(text, Kind::duration, /*may_be_negative=*/true);
  return whole.value ? Parsed<Duration>{picoseconds(*whole.value), {}} : Parsed<Duration>{{}, std::move(whole.error)};
}

Parsed<Bytes> parse_bytes(std::string_view text) {
  Parsed<std::int64_t> whole = parse_whole(text, Kind::bytes, /*may_be_negative=*/true);
  return whole.value ? Parsed<Bytes>{bytes(*whole.value), {}} : Parsed<Bytes>{{}, std::move(whole.error)};
}

Parsed<Bandwidth> parse_bandwidth(std::string_view text) {
  Parsed<std::int64_t> whole = parse_whole(text, Kind::bandwidth, /*may_be_negative=*/false);
  return whole.value ? Parsed<Bandwidth>{bytes_per_second(*whole.value), {}}
                     : Parsed<Bandwidth>{{}, std::move(whole.error)};
}

Parsed<FlopRate> parse_flop_rate(std::string_view text) {
  Written written;
  if (std::string error = cut(text, Kind::flop_rate, written); !error.empty()) {
    return {{}, std::move(error)};
  }
  // The unit becomes the exponent of a decimal, so that the value is rounded once, by from_chars.
  std::string digits = fmt::format("{}{}", written.whole, written.fraction);
  const auto exponent = written.unit.numerator - static_cast<std::int64_t>(written.fraction.size());
  digits += fmt::format("e{}", exponent);
  double rate = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), rate);
  if (status == std::errc::result_out_of_range || !std::isfinite(rate)) {
    return {{}, fmt::format("{} is out of range; {}", quoted(text), words(Kind::flop_rate).advice)};
  }
  if (written.negative && rate != 0) {
    return {{}, fmt::format("{} is negative; {}", quoted(text), words(Kind::flop_rate).advice)};
  }
  return {flops_per_second(rate), {}};
}

std::string to_text(Duration d) {
  static constexpr DecimalUnit scale[] = {{"ps", 1}, {"ns", kilo}, {"us", mega}, {"ms", giga}, {"s", tera}};
  return decimal_text(d.ps(), scale);
}

std::string to_text(Bytes b) {
  static constexpr DecimalUnit scale[] = {{"TiB", tebi}, {"GiB", gibi}, {"MiB", mebi}, {"KiB", kibi}};
  for (const DecimalUnit& unit : scale) {
    const auto size = static_cast<std::int64_t>(unit.size);
    if (b.count() != 0 && b.count() % size == 0) {
      return fmt::format("{}{}", b.count() / size, unit.text);
    }
  }
  return fmt::format("{}B", b.count());
}

std::string to_text(Bandwidth b) {
  static constexpr DecimalUnit scale[] = {{"B/s", 1}, {"KB/s", kilo}, {"MB/s", mega}, {"GB/s", giga}, {"TB/s", tera}};
  return decimal_text(b.bytes_per_s(), scale);
}

std::string to_text(FlopRate r) {
  if (!std::isfinite(r.per_second()) || r.per_second() == 0) {
    return fmt::format("{}FLOP/s", r.per_second());
  }
  std::array<char, 64> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(r.per_second()),
                                     std::chars_format::scientific);
  const std::string text(buffer.data(), written.ptr);  // d.ddde+xx, the shortest that reads back the same
  const std::size_t e = text.find('e');
  std::string digits = text.substr(0, e);
  std::erase(digits, '.');
  const int exponent = std::stoi(text.substr(e + 1));
  int unit = 0;
  std::string_view name = "FLOP/s";
  for (const auto& [power, unit_name] : {std::pair{6, "MFLOP/s"}, {9, "GFLOP/s"}, {12, "TFLOP/s"}, {15, "PFLOP/s"}}) {
    if (exponent >= power) {
      unit = power;
      name = unit_name;
    }
  }
  return fmt::format("{}{}{}", r.per_second() < 0 ? "-" : "", plain_decimal(std::move(digits), exponent + 1 - unit),
                     name);
}

}  // namespace foretrain
