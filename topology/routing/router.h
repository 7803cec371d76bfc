// Router: which links the bytes from one GPU to another cross. One policy a file; `make_router` knows them by name.
//
// Contract: the shares of the links out of the source add up to 1, as do those into the destination, and at every
// vertex between what comes in goes out. GPUs are never crossed, except by the rail rule (NVLink to the GPU on the
// destination's rail first, as NCCL's PXN does). from == to gives no links. Same arguments, same answer.
//
//   auto router = make_router(Routing::spread, fabric, /*seed=*/1);
//   std::vector<LinkShare> path;
//   router->route(GpuId{0}, GpuId{9}, /*flow=*/0, path);        // appends
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

struct LinkShare {
  LinkId link;
  double share = 1;  ///< part of the flow's bytes that crosses this link
};

enum class Routing : std::uint8_t {
  ecmp,             ///< one shortest path, chosen hop by hop by a hash of the flow
  spread,           ///< all shortest paths evenly (adaptive routing, packet spraying)
  rail,             ///< spread, but over NVLink to the destination's rail first
  dimension_order,  ///< x, then y, then z on a torus, the shorter way round; falls back to spread without one
};
inline constexpr Routing all_routings[] = {Routing::ecmp, Routing::spread, Routing::rail, Routing::dimension_order};
[[nodiscard]] std::string_view to_text(Routing routing);

class Router {
 public:
  Router() = default;
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  virtual ~Router() = default;
  /// Appends the links from `from` to `to`. `flow` tells apart flows between the same two GPUs (channels).
  /// Throws std::runtime_error naming both ends when there is no path.
  virtual void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const = 0;
};

/// The router keeps a reference to `fabric`. Routers cache; use one a thread.
[[nodiscard]] std::unique_ptr<Router> make_router(Routing routing, const Fabric& fabric, std::uint64_t seed);

}  // namespace foretrain
