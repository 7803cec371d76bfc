// One way over the network, chosen place by place: what the policies share that do not divide a flow.
//
// A chooser says `port(gpu, count)`, which of the GPU's ports to take, and `edge(here, edges)`, which edge out of a
// switch; both return a position.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <vector>

#include "topology/routing/flow_hash.h"
#include "topology/routing/policies.h"
#include "topology/routing/switch_graph.h"

namespace foretrain {

template <class C>
concept WayChooser = requires(C& choose, GpuId gpu, std::size_t count, SwitchId here,
                              std::span<const SwitchGraph::Edge> edges) {
  { choose.port(gpu, count) } -> std::convertible_to<std::size_t>;
  { choose.edge(here, edges) } -> std::convertible_to<std::size_t>;
};

inline void append_links(std::span<const LinkId> links, std::vector<LinkShare>& path) {
  for (const LinkId link : links) {
    path.push_back({link, 1});
  }
}

/// One of the ports of a GPU that suit, of which there is at least one.
template <class Suits, WayChooser Chooser>
const Port& choose_port(const SwitchGraph& graph, GpuId gpu, Suits suits, Chooser& choose) {
  const std::span<const Port> ports = graph.ports(gpu);
  auto left = choose.port(gpu, static_cast<std::size_t>(std::count_if(ports.begin(), ports.end(), suits)));
  const auto chosen = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return suits(p) && left-- == 0; });
  return *chosen;
}

/// From the GPU into one of its nearest switches, which is returned. Throws std::runtime_error naming both ends when
/// none of its ports leads to `to`.
template <WayChooser Chooser>
SwitchId enter(const SwitchGraph& graph, GpuId from, GpuId to, const SwitchGraph::Toward& toward, Chooser& choose,
               std::vector<LinkShare>& path) {
  const std::uint16_t least = shortest(graph, from, to, toward);
  const Port& port = choose_port(
      graph, from, [&](const Port& p) { return toward.distance(p.at) == least; }, choose);
  append_links(graph.way_out(port), path);
  return port.at;
}

/// From switch to switch, down the distances; returns the last.
template <WayChooser Chooser>
SwitchId cross(SwitchId here, const SwitchGraph::Toward& toward, Chooser& choose, std::vector<LinkShare>& path) {
  while (toward.distance(here) > 0) {
    const std::span<const SwitchGraph::Edge> edges = toward.nearer(here);
    const SwitchGraph::Edge& next = edges[choose.edge(here, edges)];
    path.push_back({next.link, 1});
    here = next.to;
  }
  return here;
}

/// From a last switch to the GPU.
template <WayChooser Chooser>
void leave(const SwitchGraph& graph, SwitchId here, GpuId to, Chooser& choose, std::vector<LinkShare>& path) {
  const Port& port = choose_port(
      graph, to, [&](const Port& p) { return p.at == here; }, choose);
  append_links(graph.way_in(port), path);
}

/// All three. Throws as `enter`.
template <WayChooser Chooser>
void route_one_way(const SwitchGraph& graph, GpuId from, GpuId to, Chooser& choose, std::vector<LinkShare>& path) {
  const SwitchGraph::Toward toward = graph.toward(graph.attachment(to), graph.switches_of(graph.attachment(from)));
  const SwitchId entry = enter(graph, from, to, toward, choose, path);
  leave(graph, cross(entry, toward, choose, path), to, choose, path);
}

/// Chooses by the flow's hash.
class ByHash {
 public:
  ByHash(const SwitchGraph& graph, const FlowHash& hash) : graph_(graph), hash_(hash) {}
  [[nodiscard]] std::size_t port(GpuId gpu, std::size_t count) const {
    return hash_.pick(graph_.fabric().vertex_of(gpu), count);
  }
  [[nodiscard]] std::size_t edge(SwitchId here, std::span<const SwitchGraph::Edge> edges) const {
    return hash_.pick(graph_.vertex(here), edges.size());
  }

 private:
  const SwitchGraph& graph_;
  const FlowHash& hash_;
};

}  // namespace foretrain
