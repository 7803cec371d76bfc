// MemoryPart: what the bytes on a rank are for. The player adds them up over time by part.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "topology/units.h"

namespace foretrain {

/// The parts of design.md's result, in this order. Gathered parameters, transients and throw-away gradients are
/// `buffers`; allocator slack, CUDA context and NCCL are `overhead`.
enum class MemoryPart : std::uint8_t { parameters, gradients, optimizer, activations, buffers, overhead };
inline constexpr MemoryPart all_memory_parts[] = {MemoryPart::parameters,  MemoryPart::gradients, MemoryPart::optimizer,
                                                  MemoryPart::activations, MemoryPart::buffers,   MemoryPart::overhead};
[[nodiscard]] std::string_view to_text(MemoryPart part);

/// Bytes by part.
struct MemoryParts {
  std::array<Bytes, std::size(all_memory_parts)> by_part = {};

  [[nodiscard]] Bytes& operator[](MemoryPart part) { return by_part[static_cast<std::size_t>(part)]; }
  [[nodiscard]] Bytes operator[](MemoryPart part) const { return by_part[static_cast<std::size_t>(part)]; }
  [[nodiscard]] Bytes total() const {
    Bytes sum;
    for (const Bytes b : by_part) sum += b;
    return sum;
  }
  friend bool operator==(const MemoryParts&, const MemoryParts&) = default;
};

}  // namespace foretrain
