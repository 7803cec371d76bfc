// FlowHash: the draws of one flow, one number a place where it has a choice; as Ethernet switches hash the header of a
// packet, each with a salt of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "topology/ids.h"

namespace foretrain {

/// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class FlowHash {
 public:
  FlowHash(std::uint64_t seed, GpuId from, GpuId to, std::uint64_t flow)
      : state_(mixed(mixed(mixed(seed) ^ ((std::uint64_t{from.value} << 32U) | to.value)) ^ flow)) {}

  /// One of `count` at vertex `v`.
  [[nodiscard]] std::size_t pick(VertexId v, std::size_t count) const {
    if (count == 1) {
      return 0;
    }
    // The high half times count: evener than a remainder, and as quick.
    return static_cast<std::size_t>(((mixed(state_ ^ v.value) >> 32U) * count) >> 32U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace foretrain
