#include "topology/routing/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "topology/routing/policies.h"

namespace foretrain {

std::string_view to_text(Routing routing) {
  switch (routing) {
    case Routing::ecmp:
      return "ecmp";
    case Routing::spread:
      return "spread";
    case Routing::rail:
      return "rail";
    case Routing::dimension_order:
      break;
  }
  return "dimension_order";
}

std::unique_ptr<Router> make_router(Routing routing, const Fabric& fabric, std::uint64_t seed) {
  switch (routing) {
    case Routing::ecmp:
      return make_ecmp(fabric, seed);
    case Routing::spread:
      return make_spread(fabric);
    case Routing::rail:
      return make_rail(fabric);
    case Routing::dimension_order:
      break;
  }
  return make_dimension_order(fabric);
}

void find_nvswitch_hops(const Fabric& fabric, GpuId from, GpuId to, std::vector<NvSwitchHop>& hops) {
  hops.clear();
  if (fabric.node_of(from) != fabric.node_of(to)) {
    return;
  }
  const Fabric::LinkRange out = fabric.out_links(fabric.vertex_of(from));
  for (LinkId up = out.first; up < out.last; ++up.value) {
    const VertexId middle = fabric.link(up).to;
    if (fabric.vertex(middle).kind != VertexKind::nvswitch) {
      continue;
    }
    if (const std::optional<LinkId> down = find_link(fabric, middle, fabric.vertex_of(to))) {
      hops.push_back({.up = up, .down = *down});
    }
  }
}

bool route_over_nvswitch(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path) {
  std::vector<NvSwitchHop> hops;
  find_nvswitch_hops(fabric, from, to, hops);
  const double share = 1.0 / static_cast<double>(std::max<std::size_t>(hops.size(), 1));
  for (const NvSwitchHop& hop : hops) {
    path.push_back({hop.up, share});
    path.push_back({hop.down, share});
  }
  return !hops.empty();
}

std::uint16_t shortest(const SwitchGraph& graph, GpuId from, GpuId to, std::span<const std::uint16_t> distance) {
  std::uint16_t least = SwitchGraph::unreachable;
  for (const Port& port : graph.ports(from)) {
    least = std::min(least, distance[port.at.index()]);
  }
  if (least == SwitchGraph::unreachable) {
    throw_no_path(graph.fabric(), from, to);
  }
  return least;
}

void throw_no_path(const Fabric& fabric, GpuId from, GpuId to) {
  throw std::runtime_error(
      fmt::format("no path from {} to {}", fabric.name(fabric.vertex_of(from)), fabric.name(fabric.vertex_of(to))));
}

}  // namespace foretrain
