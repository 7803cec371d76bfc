// Torus of accelerators, one router and one node each. Router i has the coordinates of i written with the extents as
// bases, x first. A dimension of extent n has n cables a line with wraparound (n - 1 without); extent 2 has one cable,
// since the way round would double the one that is there, and extent 1 none.
//
// TPU slices close their lines only when they are made of whole cubes of 4x4x4, whose faces end at optical switches
// (Jouppi 2023, section 2; Google Cloud TPU v4 documentation: "each dimension is a multiple of 4").
//
// Source: Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer", ISCA 2023 (arXiv 2304.01433): 3D torus,
// six links a chip, 50 GB/s each way each.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "topology/builders/builders.h"

namespace foretrain {
namespace {

std::uint32_t check(const TorusSpec& spec) {
  constexpr std::uint64_t most = 1U << 22;
  if (spec.shape.empty() || spec.shape.size() > 6) {
    throw std::invalid_argument(fmt::format("a torus has {} dimensions; allowed: 1 to 6", spec.shape.size()));
  }
  if (spec.cube == 0) {
    throw std::invalid_argument("a torus closes in cubes of 0; allowed: 1 or more");
  }
  std::uint64_t total = 1;
  for (const std::uint32_t extent : spec.shape) {
    total = std::min(total * extent, most + 1);
    if (total == 0 || total > most) {
      throw std::invalid_argument(
          fmt::format("a torus has shape {}; allowed: extents of 1 or more, at most {} accelerators",
                      fmt::join(spec.shape, "x"), most));
    }
  }
  return static_cast<std::uint32_t>(total);
}

/// Cables of a router at `at` of a line of `extent`.
std::uint32_t cables_of(std::uint32_t at, std::uint32_t extent, bool wraparound) {
  if (wraparound && extent > 2) {
    return 2;
  }
  return (at > 0 ? 1U : 0U) + (at + 1 < extent ? 1U : 0U);
}

}  // namespace

bool wraps(const TorusSpec& spec) {
  return spec.wraparound && std::all_of(spec.shape.begin(), spec.shape.end(),
                                        [&](std::uint32_t extent) { return extent % spec.cube == 0; });
}

Fabric build_torus(const TorusSpec& spec) {
  const std::uint32_t total = check(spec);
  const bool wraparound = wraps(spec);
  FabricBuilder fabric;
  const TierId chip = fabric.tier("gpu-router");
  const TierId tier = fabric.tier("torus");
  std::vector<VertexId> routers;
  for (std::uint32_t i = 0; i < total; ++i) {
    const VertexId gpu = fabric.add(VertexKind::gpu, fabric.node());
    routers.push_back(fabric.add(VertexKind::router));
    std::uint32_t cables = 0;
    std::uint32_t stride = 1;
    for (const std::uint32_t extent : spec.shape) {
      cables += cables_of(i / stride % extent, extent, wraparound);
      stride *= extent;
    }
    // The router is on the chip: as fast as all its cables together, and no hop that takes time.
    fabric.connect(gpu, routers.back(), spec.link * std::max(cables, 1U), Duration{}, chip);
  }
  for (std::uint32_t i = 0; i < total; ++i) {
    std::uint32_t stride = 1;
    for (const std::uint32_t extent : spec.shape) {
      const std::uint32_t at = i / stride % extent;
      if (at + 1 < extent) {
        fabric.connect(routers[i], routers[i + stride], spec.link, spec.latency, tier);
      } else if (wraparound && extent > 2) {
        fabric.connect(routers[i], routers[i - stride * (extent - 1)], spec.link, spec.latency, tier);
      }
      stride *= extent;
    }
  }
  fabric.set_torus(spec.shape);
  return std::move(fabric).build();
}

}  // namespace foretrain
