// Small index types, so that a link cannot be passed for a vertex.
//
//   LinkId link{7};
//   loads[link.index()] += 1;
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace foretrain {

/// An index into a vector of things of kind `Tag`. Trivial, 4 bytes, ordered.
template <class Tag>
struct Id {
  std::uint32_t value = 0;
  [[nodiscard]] constexpr std::size_t index() const { return value; }
  constexpr auto operator<=>(const Id&) const = default;
};

using VertexId = Id<struct VertexTag>;
using LinkId = Id<struct LinkTag>;
using TierId = Id<struct TierTag>;
using NodeId = Id<struct NodeTag>;
/// The n-th GPU of a fabric, in the order the builder added them (node by node).
using GpuId = Id<struct GpuTag>;

/// The id at position `index`; checked narrowing lives here only.
template <class AnyId>
constexpr AnyId id_at(std::size_t index) {
  return AnyId{static_cast<std::uint32_t>(index)};
}

}  // namespace foretrain
