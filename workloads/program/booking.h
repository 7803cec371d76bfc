// Booking: how the kernels of a layer are written down, and the exact cuts of what is played piece by piece. Internal
// to `generate`.
#pragma once

#include <string_view>

#include "workloads/program/track.h"

namespace foretrain {

/// Forward, its repetition in backward, or backward: one block of kernels on the main stream merges what has the same.
struct Booking {
  Work work{};
  std::string_view label;
  Place place;
};

/// Which gradients a backward makes: all, or one of its halves in schedules that split it.
enum class Gradients : std::uint8_t { all, input, weight };
[[nodiscard]] constexpr bool makes_input(Gradients g) { return g != Gradients::weight; }
[[nodiscard]] constexpr bool makes_weight(Gradients g) { return g != Gradients::input; }
[[nodiscard]] constexpr Booking backward_booking(Gradients g, Place place) {
  constexpr std::string_view labels[] = {"B", "I", "W"};
  return {Work::compute, labels[static_cast<std::size_t>(g)], place};
}

/// Piece `i` of `n` of a whole: all pieces add up to it, exactly.
[[nodiscard]] constexpr std::int64_t cut(std::int64_t whole, std::int64_t n, std::int64_t i) {
  return whole / n + (i < whole % n ? 1 : 0);
}
[[nodiscard]] constexpr Duration cut(Duration whole, std::int64_t n, std::int64_t i) {
  return picoseconds(cut(whole.ps(), n, i));
}
[[nodiscard]] constexpr Bytes cut(Bytes whole, std::int64_t n, std::int64_t i) {
  return bytes(cut(whole.count(), n, i));
}

}  // namespace foretrain
