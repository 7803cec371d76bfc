// The unit types: Duration, Time, Bytes, Bandwidth and FlopRate.
//
// Each is a type of its own, built by a named factory and read through a named accessor, so that bytes cannot be
// passed for time or Gb/s for GB/s. Durations are whole picoseconds (int64 holds 106 days), bytes and bandwidths are
// whole numbers too; `transfer_time` is the one place where bytes and bandwidth become time.
//
//   Bytes message = mebibytes(64);
//   Bandwidth nic = gigabits_per_second(400);            // 50e9 bytes a second
//   Duration t = transfer_time(message, nic);             // 1.34217728 ms
//   parse_bandwidth("400Gb/s").value == nic;              // text in ...
//   to_text(nic) == "50GB/s";                             // ... and out, exactly
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foretrain {

/// A length of time, in whole picoseconds. May be negative (a difference).
class Duration {
 public:
  constexpr Duration() = default;
  [[nodiscard]] constexpr std::int64_t ps() const { return ps_; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }
  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration& operator+=(Duration other) {
    ps_ += other.ps_;
    return *this;
  }
  constexpr Duration& operator-=(Duration other) {
    ps_ -= other.ps_;
    return *this;
  }
  friend constexpr Duration operator+(Duration a, Duration b) { return a += b; }
  friend constexpr Duration operator-(Duration a, Duration b) { return a -= b; }
  friend constexpr Duration operator*(Duration a, std::int64_t n) { return Duration(a.ps_ * n); }
  friend constexpr Duration operator*(std::int64_t n, Duration a) { return a * n; }
  /// The ratio of two durations.
  friend constexpr double operator/(Duration a, Duration b) {
    return static_cast<double>(a.ps_) / static_cast<double>(b.ps_);
  }
  friend constexpr Duration picoseconds(std::int64_t ps);

 private:
  explicit constexpr Duration(std::int64_t ps) : ps_(ps) {}
  std::int64_t ps_ = 0;
};

constexpr Duration picoseconds(std::int64_t ps) { return Duration(ps); }
/// Rounded to the nearest picosecond, halves away from zero: the rounding rule of every conversion from `double`.
[[nodiscard]] Duration seconds(double s);
[[nodiscard]] Duration milliseconds(double ms);
[[nodiscard]] Duration microseconds(double us);
[[nodiscard]] Duration nanoseconds(double ns);

/// An instant: picoseconds since the step began.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time from_start(Duration d) { return Time(d); }
  [[nodiscard]] constexpr Duration since_start() const { return since_; }
  [[nodiscard]] constexpr std::int64_t ps() const { return since_.ps(); }
  [[nodiscard]] constexpr double seconds() const { return since_.seconds(); }
  constexpr auto operator<=>(const Time&) const = default;
  friend constexpr Time operator+(Time t, Duration d) { return Time(t.since_ + d); }
  friend constexpr Time operator-(Time t, Duration d) { return Time(t.since_ - d); }
  friend constexpr Duration operator-(Time a, Time b) { return a.since_ - b.since_; }

 private:
  explicit constexpr Time(Duration since) : since_(since) {}
  Duration since_;
};

/// A number of bytes. May be negative (memory given back).
class Bytes {
 public:
  constexpr Bytes() = default;
  [[nodiscard]] constexpr std::int64_t count() const { return count_; }
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator-(Bytes a) { return Bytes(-a.count_); }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.count_ * n); }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
  friend constexpr double operator/(Bytes a, Bytes b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }
  friend constexpr Bytes bytes(std::int64_t n);

 private:
  explicit constexpr Bytes(std::int64_t n) : count_(n) {}
  std::int64_t count_ = 0;
};

constexpr Bytes bytes(std::int64_t n) { return Bytes(n); }
constexpr Bytes kibibytes(std::int64_t n) { return bytes(n << 10); }
constexpr Bytes mebibytes(std::int64_t n) { return bytes(n << 20); }
constexpr Bytes gibibytes(std::int64_t n) { return bytes(n << 30); }
/// Rounded to the nearest whole byte.
[[nodiscard]] Bytes bytes_rounded(double n);

/// Bytes per second, one direction.
class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  [[nodiscard]] constexpr std::int64_t bytes_per_s() const { return rate_; }
  constexpr auto operator<=>(const Bandwidth&) const = default;
  friend constexpr Bandwidth operator+(Bandwidth a, Bandwidth b) { return Bandwidth(a.rate_ + b.rate_); }
  friend constexpr Bandwidth operator*(Bandwidth a, std::int64_t n) { return Bandwidth(a.rate_ * n); }
  friend constexpr double operator/(Bandwidth a, Bandwidth b) {
    return static_cast<double>(a.rate_) / static_cast<double>(b.rate_);
  }
  friend constexpr Bandwidth bytes_per_second(std::int64_t rate);

 private:
  explicit constexpr Bandwidth(std::int64_t rate) : rate_(rate) {}
  std::int64_t rate_ = 0;
};

constexpr Bandwidth bytes_per_second(std::int64_t rate) { return Bandwidth(rate); }
/// 1e9 bits a second each.
[[nodiscard]] Bandwidth gigabits_per_second(double gb);
/// 1e9 bytes a second each.
[[nodiscard]] Bandwidth gigabytes_per_second(double gb);
/// `part` of a bandwidth (0.5 = half), rounded to the nearest byte a second.
[[nodiscard]] Bandwidth scaled(Bandwidth b, double part);

/// Floating-point operations per second.
class FlopRate {
 public:
  constexpr FlopRate() = default;
  [[nodiscard]] constexpr double per_second() const { return rate_; }
  constexpr auto operator<=>(const FlopRate&) const = default;
  friend constexpr FlopRate flops_per_second(double rate);

 private:
  explicit constexpr FlopRate(double rate) : rate_(rate) {}
  double rate_ = 0;
};

constexpr FlopRate flops_per_second(double rate) { return FlopRate(rate); }
constexpr FlopRate teraflops(double tera) { return flops_per_second(tera * 1e12); }

/// Time that `size` takes at `rate`, rounded up to a whole picosecond in exact 128-bit arithmetic.
/// Requires size >= 0 and rate > 0; throws std::overflow_error past int64 picoseconds (106 days).
[[nodiscard]] Duration transfer_time(Bytes size, Bandwidth rate);

/// What a parser found: a value, or one sentence that says what is wrong and what is allowed.
template <class Quantity>
struct Parsed {
  std::optional<Quantity> value;
  std::string error;
};

/// "1.5us", "2 ms", "700ns", "3s", "12ps". Decimals allowed as far as they are whole picoseconds.
[[nodiscard]] Parsed<Duration> parse_duration(std::string_view text);
/// "512B", "64KiB", "80GiB", "80GB" (1e9), "1.5TB". A bare number is refused: the unit is part of the value.
[[nodiscard]] Parsed<Bytes> parse_bytes(std::string_view text);
/// "400Gb/s", "400Gbps" (1e9 bits), "50GB/s" (1e9 bytes), "64GiB/s".
[[nodiscard]] Parsed<Bandwidth> parse_bandwidth(std::string_view text);
/// "989TFLOP/s", "1.979PFLOP/s".
[[nodiscard]] Parsed<FlopRate> parse_flop_rate(std::string_view text);

/// Shortest exact text: parsing it gives the value back. Bytes choose KiB... when that is a whole number, else B.
[[nodiscard]] std::string to_text(Duration d);
[[nodiscard]] std::string to_text(Bytes b);
[[nodiscard]] std::string to_text(Bandwidth b);
[[nodiscard]] std::string to_text(FlopRate r);

}  // namespace foretrain
