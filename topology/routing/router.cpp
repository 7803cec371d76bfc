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
      return "dimension_order";
    case Routing::static_up_down:
      return "static";
    case Routing::minimal:
      return "minimal";
    case Routing::valiant:
      break;
  }
  return "valiant";
}

namespace {

std::unique_ptr<Router> make_policy(Routing routing, const Fabric& fabric, std::uint64_t seed, bool first_of_alike) {
  switch (routing) {
    case Routing::ecmp:
      return make_ecmp(fabric, seed);
    case Routing::spread:
      return make_spread(fabric, Ways::any, first_of_alike);
    case Routing::rail:
      return make_rail(fabric, first_of_alike);
    case Routing::dimension_order:
      return make_dimension_order(fabric);
    case Routing::static_up_down:
      return make_static(fabric);
    case Routing::minimal:
      return make_minimal(fabric);
    case Routing::valiant:
      break;
  }
  return make_valiant(fabric, seed);
}

}  // namespace

std::unique_ptr<Router> make_router(Routing routing, const Fabric& fabric, const RouterOptions& options) {
  if (options.flows_per_pair == 0 || options.flows_per_pair > flows_per_pair_most) {
    throw std::invalid_argument(
        fmt::format("{} flows a pair; allowed: 1 to {}", options.flows_per_pair, flows_per_pair_most));
  }
  std::unique_ptr<Router> one = make_policy(routing, fabric, options.seed, options.first_of_alike);
  const bool hashes = routing == Routing::ecmp || routing == Routing::valiant;
  return hashes && options.flows_per_pair > 1 ? make_many_flows(std::move(one), fabric, options.flows_per_pair)
                                              : std::move(one);
}

std::unique_ptr<Router> make_router(Routing routing, const Fabric& fabric, std::uint64_t seed) {
  return make_router(routing, fabric, RouterOptions{.seed = seed});
}

std::uint16_t shortest(const SwitchGraph& graph, GpuId from, GpuId to, const SwitchGraph::Toward& toward) {
  std::uint16_t least = SwitchGraph::unreachable;
  for (const Port& port : graph.ports(from)) {
    least = std::min(least, toward.distance(port.at));
  }
  if (least == SwitchGraph::unreachable) {
    throw_no_path(graph.fabric(), from, to);
  }
  return least;
}

bool is_reached(const SwitchGraph& graph, GpuId from, const SwitchGraph::Toward& toward) {
  const std::span<const Port> ports = graph.ports(from);
  return std::any_of(ports.begin(), ports.end(),
                     [&](const Port& port) { return toward.distance(port.at) != SwitchGraph::unreachable; });
}

void throw_no_path(const Fabric& fabric, GpuId from, GpuId to) {
  throw std::runtime_error(
      fmt::format("no path from {} to {}", fabric.name(fabric.vertex_of(from)), fabric.name(fabric.vertex_of(to))));
}

}  // namespace foretrain
