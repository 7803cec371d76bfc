// TorusBox: a group that fills a box of a torus, one GPU a router: the whole torus, a plane, a line, or every second
// point of one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/collectives/collective.h"

namespace foretrain {

struct TorusBox {
  std::vector<TorusLine> lines;  ///< one a dimension in which the group has more than one coordinate
  std::vector<GpuId> gpus;       ///< by position in the box, the first of `lines` fastest
  Bandwidth link;                ///< slowest between routers of members
};
/// Nothing when the fabric is no torus, the group no box, or two members share a router.
[[nodiscard]] std::optional<TorusBox> torus_box(const Fabric& fabric, std::span<const GpuId> members);

/// By line: what an edge of its rings carries one way, of the message, in an all-gather or a reduce-scatter.
[[nodiscard]] std::vector<double> torus_wire(std::span<const TorusLine> lines);

}  // namespace foretrain
