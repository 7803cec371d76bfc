#include "topology/routing/node_ways.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace foretrain {
namespace {

bool is_one_of(VertexKind kind, std::initializer_list<VertexKind> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// The vertices of a node on ways to `end` over vertices of some kinds, with their hops to it. A node has few such, so
/// a list is quicker than a map. Cables go both ways, so the search may start at the end.
class NodeSearch {
 public:
  NodeSearch(const Fabric& fabric, VertexId start, VertexId end, std::initializer_list<VertexKind> over)
      : fabric_(fabric), start_(start) {
    const std::optional<NodeId> node = fabric.vertex(end).node;
    found_.push_back({.vertex = end, .hops = 0});
    for (std::size_t head = 0; head < found_.size() && !hops(start); ++head) {
      const Found here = found_[head];
      const Fabric::LinkRange out = fabric.out_links(here.vertex);
      for (LinkId l = out.first; l < out.last; ++l.value) {
        const VertexId next = fabric.link(l).to;
        const Vertex& vertex = fabric.vertex(next);
        if (vertex.node == node && (next == start || is_one_of(vertex.kind, over)) && !hops(next)) {
          found_.push_back({.vertex = next, .hops = here.hops + 1});
        }
      }
    }
  }

  [[nodiscard]] bool reaches() const { return hops(start_).has_value(); }

  /// Links out of `here` that lead nearer to the end.
  [[nodiscard]] std::vector<LinkId> nearer(VertexId here) const {
    std::vector<LinkId> links;
    const Fabric::LinkRange out = fabric_.out_links(here);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const std::optional<std::size_t> next = hops(fabric_.link(l).to);
      if (next && *next + 1 == *hops(here)) {
        links.push_back(l);
      }
    }
    return links;
  }

 private:
  struct Found {
    VertexId vertex;
    std::size_t hops = 0;
  };

  [[nodiscard]] std::optional<std::size_t> hops(VertexId v) const {
    const auto at = std::find_if(found_.begin(), found_.end(), [&](const Found& f) { return f.vertex == v; });
    return at == found_.end() ? std::nullopt : std::optional(at->hops);
  }

  const Fabric& fabric_;
  VertexId start_;
  std::vector<Found> found_;
};

/// Divides evenly at every vertex over all ways of the fewest hops.
bool route_over(const Fabric& fabric, GpuId from, GpuId to, std::initializer_list<VertexKind> kinds,
                std::vector<LinkShare>& path) {
  const VertexId end = fabric.vertex_of(to);
  const NodeSearch search(fabric, fabric.vertex_of(from), end, kinds);
  if (!search.reaches()) {
    return false;
  }
  std::vector<std::pair<VertexId, double>> level{{fabric.vertex_of(from), 1.0}};  // all equally far from the end
  while (level.front().first != end) {
    std::vector<std::pair<VertexId, double>> next_level;
    for (const auto& [here, held] : level) {
      const std::vector<LinkId> links = search.nearer(here);
      const double share = held / static_cast<double>(links.size());
      for (const LinkId l : links) {
        path.push_back({l, share});
        const VertexId next = fabric.link(l).to;
        const auto known =
            std::find_if(next_level.begin(), next_level.end(), [&](const auto& it) { return it.first == next; });
        if (known == next_level.end()) {
          next_level.emplace_back(next, share);
        } else {
          known->second += share;
        }
      }
    }
    level = std::move(next_level);
  }
  return true;
}

bool route_directly(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path) {
  const std::size_t begin = path.size();
  const VertexId end = fabric.vertex_of(to);
  const Fabric::LinkRange out = fabric.out_links(fabric.vertex_of(from));
  for (LinkId l = out.first; l < out.last; ++l.value) {
    if (fabric.link(l).to == end) {
      path.push_back({l, 1.0});
    }
  }
  const auto count = static_cast<double>(path.size() - begin);
  for (std::size_t i = begin; i < path.size(); ++i) {
    path[i].share /= count;
  }
  return path.size() > begin;
}

}  // namespace

std::optional<LinkId> find_link(const Fabric& fabric, VertexId from, VertexId to) {
  const Fabric::LinkRange out = fabric.out_links(from);
  for (LinkId l = out.first; l < out.last; ++l.value) {
    if (fabric.link(l).to == to) {
      return l;
    }
  }
  return std::nullopt;
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

namespace {

/// What nearly all nodes have, without a search.
bool route_over_one_nvswitch(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path) {
  std::vector<NvSwitchHop> hops;
  find_nvswitch_hops(fabric, from, to, hops);
  const double share = 1.0 / static_cast<double>(std::max<std::size_t>(hops.size(), 1));
  for (const NvSwitchHop& hop : hops) {
    path.push_back({hop.up, share});
    path.push_back({hop.down, share});
  }
  return !hops.empty();
}

}  // namespace

bool route_over_nvlink(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path) {
  return fabric.node_of(from) == fabric.node_of(to) &&
         (route_directly(fabric, from, to, path) || route_over_one_nvswitch(fabric, from, to, path) ||
          route_over(fabric, from, to, {VertexKind::nvswitch}, path));
}

bool route_in_node(const Fabric& fabric, GpuId from, GpuId to, std::vector<LinkShare>& path) {
  return fabric.node_of(from) == fabric.node_of(to) &&
         (route_over_nvlink(fabric, from, to, path) ||
          route_over(fabric, from, to, {VertexKind::pcie_switch, VertexKind::host}, path));
}

namespace {

std::vector<LinkId> first_way(const Fabric& fabric, VertexId from, VertexId to,
                              std::initializer_list<VertexKind> over) {
  const NodeSearch search(fabric, from, to, over);
  std::vector<LinkId> way;
  if (!search.reaches()) {
    return way;
  }
  for (VertexId here = from; here != to; here = fabric.link(way.back()).to) {
    way.push_back(search.nearer(here).front());
  }
  return way;
}

}  // namespace

std::vector<LinkId> way_to_nic(const Fabric& fabric, VertexId gpu, VertexId nic) {
  return first_way(fabric, gpu, nic, {VertexKind::pcie_switch, VertexKind::host});
}

std::vector<LinkId> way_over_nvlink(const Fabric& fabric, VertexId from, VertexId to) {
  return first_way(fabric, from, to, {VertexKind::nvswitch});
}

}  // namespace foretrain
