// Router: which links the bytes from one GPU to another cross. One policy a file; `make_router` knows them by name.
//
// Contract: the shares of the links out of the source add up to 1, as do those into the destination, and at every
// vertex between what comes in goes out. GPUs are never crossed, except by the rail rule (NVLink to the GPU on the
// destination's rail first, as NCCL's PXN does). Between GPUs of one node all policies but ecmp agree: node_ways.h.
// from == to gives no links. Same arguments, same answer.
//
//   auto router = make_router(Routing::spread, fabric, /*seed=*/1);
//   std::vector<LinkShare> path;
//   router->route(GpuId{0}, GpuId{9}, /*flow=*/0, path);        // appends
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

class Footprints;

struct LinkShare {
  LinkId link;
  double share = 1;  ///< part of the flow's bytes that crosses this link
};

enum class Routing : std::uint8_t {
  ecmp,             ///< one shortest path, chosen hop by hop by a hash of the flow
  spread,           ///< all shortest paths evenly (adaptive routing, packet spraying)
  rail,             ///< spread, but over NVLink to the destination's rail first
  dimension_order,  ///< x, then y, then z on a torus, the shorter way round; falls back to spread without one
  static_up_down,   ///< "static": one shortest path by the destination alone, as InfiniBand's forwarding tables
  minimal,          ///< on a dragonfly at most one link between groups, evenly; falls back to spread without groups
  valiant,          ///< on a dragonfly by way of a third group, by a hash of the flow; falls back as minimal
};
inline constexpr Routing all_routings[] = {
    Routing::ecmp,           Routing::spread,  Routing::rail,   Routing::dimension_order,
    Routing::static_up_down, Routing::minimal, Routing::valiant};
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
  /// By link: the first of the links that carry the same share of every route. Empty: each stands for itself.
  [[nodiscard]] virtual std::span<const LinkId> alike() const { return {}; }
  /// What tells groups of GPUs whose routes are alike; null where routes depend on more, or the fabric is irregular.
  [[nodiscard]] virtual const Footprints* footprints() const { return nullptr; }
};

inline constexpr std::uint32_t flows_per_pair_most = 256;

struct RouterOptions {
  std::uint64_t seed = 1;
  /// Each call's bytes in so many equal flows that hash each by itself (ecmp, valiant), 1 to flows_per_pair_most.
  std::uint32_t flows_per_pair = 1;
  /// Routes name only the first of links that are alike (Router::alike): the others carry as much.
  bool first_of_alike = false;
};

/// The router keeps a reference to `fabric`. Routers cache; use one a thread. Throws std::invalid_argument for a number
/// of flows that is not allowed.
[[nodiscard]] std::unique_ptr<Router> make_router(Routing routing, const Fabric& fabric, const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_router(Routing routing, const Fabric& fabric, std::uint64_t seed);

}  // namespace foretrain
