// Parts: what flows take of a resource, in whole numbers, so that sums are the same in any order, starts and ends
// cancel exactly, and n equal flows add up to the same number whether they are counted one by one or together.
//
// A *part* is capacity / 2^61. A *pull* is load * weight in units of 2^-64: how fast a resource fills as the levels of
// its flows rise.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace foretrain {

using Part = std::int64_t;
/// Sums of more parts than 64 bits hold, and of pulls.
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ wants a typedef

/// A resource's capacity, in parts. Twice that still fits.
inline constexpr Part whole_capacity = Part{1} << 61;
/// load * weight 1, as a pull. 2^17 flows of 2^46 fit 128 bits; 2^-24 has 40 digits.
inline constexpr double pull_one = 0x1p64;
inline constexpr double pull_max = 0x1p46;

/// The integer part of a double from 0 to 2^126: what a cast gives, without the call that a cast to 128 bits is.
inline Wide to_wide(double x) {
  constexpr int mantissa_bits = 52;
  constexpr int exponent_bias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> mantissa_bits) - exponent_bias;
  if (exponent < mantissa_bits) return static_cast<std::int64_t>(x);
  constexpr std::uint64_t one = std::uint64_t{1} << mantissa_bits;
  return Wide{one | (bits & (one - 1))} << (exponent - mantissa_bits);
}

/// Of a flow with this load and rate, on a resource with so many parts a unit of capacity. Never more than the whole:
/// load * idle rate / capacity may round above 1.
inline Part part_of(double load, double rate, double parts_per_unit) {
  // Positive, where adding a half and cutting is rounding; std::lround is a call in the hottest path.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  return std::min(static_cast<Part>(load * rate * parts_per_unit + 0.5), whole_capacity);
}

inline Wide pull_of(double load, double weight) { return std::max(to_wide(load * weight * pull_one), Wide{1}); }

/// The level (rate / weight) at which a resource is full, when `used` is taken by flows that do not rise any more.
inline double level_when_full(double parts_per_unit, Part used, Wide pull) {
  return static_cast<double>(whole_capacity - used) / parts_per_unit / (static_cast<double>(pull) / pull_one);
}

}  // namespace foretrain
