#include "topology/routing/switch_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace foretrain {
namespace {

bool forwards(VertexKind kind) {
  return kind == VertexKind::leaf || kind == VertexKind::spine || kind == VertexKind::core ||
         kind == VertexKind::router;
}

/// Searches kept at once: about 100 MB of them. A torus of 25,000 routers would otherwise ask for 4 GB.
std::size_t searches_most(std::size_t switch_count) { return (std::size_t{16} << 20) / (switch_count + 1) + 1; }

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

SwitchGraph::SwitchGraph(const Fabric& fabric) : fabric_(fabric) {
  index_switches();
  index_edges();
  index_ports();
  intern_attachments();
  searches_.resize(attachments_.size());
}

void SwitchGraph::index_switches() {
  switch_at_.resize(fabric_.vertex_count());
  for (std::size_t v = 0; v < fabric_.vertex_count(); ++v) {
    if (forwards(fabric_.vertex(id_at<VertexId>(v)).kind)) {
      switch_at_[v] = id_at<SwitchId>(switches_.size());
      switches_.push_back(id_at<VertexId>(v));
    }
  }
}

void SwitchGraph::index_edges() {
  std::vector<std::uint32_t> next(switches_.size() + 1, 0);
  first_edge_.push_back(0);
  for (const VertexId v : switches_) {
    const Fabric::LinkRange out = fabric_.out_links(v);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      if (const std::optional<SwitchId> to = switch_at_[fabric_.link(l).to.index()]) {
        edges_.push_back({.link = l, .to = *to});
        ++next[to->index() + 1];
      }
    }
    first_edge_.push_back(edges_.size());
  }
  for (std::size_t s = 0; s < switches_.size(); ++s) {
    next[s + 1] += next[s];
  }
  first_back_edge_ = next;
  back_edges_.resize(edges_.size());
  for (std::size_t s = 0; s < switches_.size(); ++s) {
    for (const Edge& edge : edges(id_at<SwitchId>(s))) {
      back_edges_[next[edge.to.index()]++] = id_at<SwitchId>(s);
    }
  }
}

std::vector<Port> SwitchGraph::ports_directly(GpuId gpu) const {
  std::vector<Port> found;
  const VertexId here = fabric_.vertex_of(gpu);
  const Fabric::LinkRange out = fabric_.out_links(here);
  for (LinkId l = out.first; l < out.last; ++l.value) {
    const VertexId to = fabric_.link(l).to;
    const std::optional<SwitchId> at = switch_at_[to.index()];
    const std::optional<LinkId> back = at ? find_link(fabric_, to, here) : std::nullopt;
    if (back) {
      found.push_back({.at = *at, .to_nic = {}, .to_switch = l, .from_nic = {}, .from_switch = *back});
    }
  }
  return found;
}

std::vector<Port> SwitchGraph::ports_by_nic(GpuId gpu) const {
  std::vector<Port> found;
  const VertexId here = fabric_.vertex_of(gpu);
  for (const VertexId nic : fabric_.nics_of(gpu)) {
    const std::optional<LinkId> to_nic = find_link(fabric_, here, nic);
    const std::optional<LinkId> from_nic = find_link(fabric_, nic, here);
    const Fabric::LinkRange out = fabric_.out_links(nic);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const VertexId to = fabric_.link(l).to;
      const std::optional<SwitchId> at = switch_at_[to.index()];
      // Cables are laid both ways, so the way back is there; of parallel cables all go back over the first.
      const std::optional<LinkId> back = at ? find_link(fabric_, to, nic) : std::nullopt;
      if (to_nic && from_nic && back) {
        found.push_back({.at = *at, .to_nic = to_nic, .to_switch = l, .from_nic = from_nic, .from_switch = *back});
      }
    }
  }
  return found;
}

void SwitchGraph::index_ports() {
  first_port_.push_back(0);
  for (std::size_t g = 0; g < fabric_.gpu_count(); ++g) {
    const auto gpu = id_at<GpuId>(g);
    // Directly is nearer than by NIC, and paths are shortest.
    std::vector<Port> found = ports_directly(gpu);
    if (found.empty()) {
      found = ports_by_nic(gpu);
    }
    std::sort(found.begin(), found.end(),
              [](const Port& a, const Port& b) { return std::tie(a.at, a.to_switch) < std::tie(b.at, b.to_switch); });
    ports_.insert(ports_.end(), found.begin(), found.end());
    first_port_.push_back(ports_.size());
  }
}

void SwitchGraph::intern_attachments() {
  std::map<std::pair<std::vector<SwitchId>, std::size_t>, AttachmentId> known;
  for (std::size_t g = 0; g < fabric_.gpu_count(); ++g) {
    std::vector<SwitchId> at;
    std::size_t hops = 0;
    for (const Port& port : ports(id_at<GpuId>(g))) {
      at.push_back(port.at);
      hops = port.to_nic ? 2 : 1;
    }
    const auto [entry, is_new] = known.try_emplace({at, hops}, id_at<AttachmentId>(attachments_.size()));
    if (is_new) {
      attachments_.push_back({.at = std::move(at), .hops = hops});
    }
    attachment_of_.push_back(entry->second);
  }
}

void SwitchGraph::begin(Search& search, AttachmentId destination) const {
  if (searches_held_ == searches_most(switches_.size())) {
    for (Search& old : searches_) {
      old = {};
    }
    searches_held_ = 0;
  }
  ++searches_held_;
  search.distance.assign(switches_.size(), unreachable);
  for (const SwitchId s : attachments_[destination.index()].at) {
    if (search.distance[s.index()] != 0) {
      search.distance[s.index()] = 0;
      search.queue.push_back(s);
    }
  }
}

void SwitchGraph::expand(Search& search) const {
  const std::size_t here = search.queue[search.head++].index();
  for (std::uint32_t e = first_back_edge_[here]; e < first_back_edge_[here + 1]; ++e) {
    const SwitchId from = back_edges_[e];
    if (search.distance[from.index()] == unreachable) {
      search.distance[from.index()] = static_cast<std::uint16_t>(search.distance[here] + 1);
      search.queue.push_back(from);
    }
  }
}

std::uint16_t SwitchGraph::nearest(const Search& search, AttachmentId source) const {
  std::uint16_t least = unreachable;
  for (const SwitchId s : attachments_[source.index()].at) {
    least = std::min(least, search.distance[s.index()]);
  }
  return least;
}

std::span<const std::uint16_t> SwitchGraph::distances(AttachmentId destination, AttachmentId source) const {
  Search& search = searches_[destination.index()];
  if (search.distance.empty()) {
    begin(search, destination);
  }
  // Once a switch as far off as the source is next, all that are as near have been found.
  std::uint16_t least = nearest(search, source);
  while (search.head < search.queue.size() && search.distance[search.queue[search.head].index()] < least) {
    expand(search);
    least = nearest(search, source);
  }
  return search.distance;
}

}  // namespace foretrain
