#include "topology/routing/switch_graph.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "topology/routing/node_ways.h"

namespace foretrain {
namespace {

bool forwards(VertexKind kind) {
  return kind == VertexKind::leaf || kind == VertexKind::spine || kind == VertexKind::core ||
         kind == VertexKind::router;
}

/// Kept of searches at once. All destinations of 32,768 GPUs on a fat-tree need 50 MB; an irregular network of 25,000
/// switches would ask for 10 GB.
constexpr std::size_t bytes_most = std::size_t{256} << 20;

}  // namespace

SwitchGraph::SwitchGraph(const Fabric& fabric, Ways ways) : fabric_(fabric), ways_(ways) {
  index_switches();
  index_groups();
  index_edges();
  index_ports();
  intern_attachments();
  if (ways_ == Ways::one_global_hop) {
    add_groups_as_attachments();
  } else {
    torus_ = TorusMetric::of(fabric);
  }
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

void SwitchGraph::index_groups() {
  group_of_.assign(switches_.size(), 0);
  std::set<std::uint32_t> names;
  for (const VertexId v : switches_) {
    const std::optional<std::uint32_t> group = fabric_.vertex(v).group;
    if (!group) {
      return;
    }
    names.insert(*group);
  }
  group_count_ = names.size();
  for (std::size_t s = 0; s < switches_.size(); ++s) {
    const auto at = names.find(*fabric_.vertex(switches_[s]).group);
    group_of_[s] = static_cast<std::uint32_t>(std::distance(names.begin(), at));
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

std::vector<SwitchGraph::Way> SwitchGraph::ports_directly(GpuId gpu) const {
  std::vector<Way> found;
  const VertexId here = fabric_.vertex_of(gpu);
  const Fabric::LinkRange out = fabric_.out_links(here);
  for (LinkId l = out.first; l < out.last; ++l.value) {
    const VertexId to = fabric_.link(l).to;
    const std::optional<SwitchId> at = switch_at_[to.index()];
    const std::optional<LinkId> back = at ? find_link(fabric_, to, here) : std::nullopt;
    if (back) {
      found.push_back({.at = *at, .out = {l}, .back = {*back}});
    }
  }
  return found;
}

std::vector<LinkId> SwitchGraph::way_back(std::span<const LinkId> way) const {
  std::vector<LinkId> back;
  for (auto l = way.rbegin(); l != way.rend(); ++l) {
    back.push_back(*find_link(fabric_, fabric_.link(*l).to, fabric_.link(*l).from));
  }
  return back;
}

std::vector<SwitchGraph::Way> SwitchGraph::ports_by_nic(GpuId gpu) const {
  std::vector<Way> found;
  for (const VertexId nic : fabric_.nics_of(gpu)) {
    const std::vector<LinkId> to_nic = way_to_nic(fabric_, fabric_.vertex_of(gpu), nic);
    const std::vector<LinkId> from_nic = way_back(to_nic);
    const Fabric::LinkRange out = fabric_.out_links(nic);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const VertexId to = fabric_.link(l).to;
      const std::optional<SwitchId> at = switch_at_[to.index()];
      const std::optional<LinkId> back = at ? find_link(fabric_, to, nic) : std::nullopt;
      if (!back) {
        continue;
      }
      Way way{.at = *at, .out = to_nic, .back = {*back}};
      way.out.push_back(l);
      way.back.insert(way.back.end(), from_nic.begin(), from_nic.end());
      found.push_back(std::move(way));
    }
  }
  return found;
}

std::vector<SwitchGraph::Way> SwitchGraph::ports_borrowed(GpuId gpu) const {
  std::vector<Way> found;
  for (const GpuId mate : fabric_.gpus_of(fabric_.node_of(gpu))) {
    std::vector<Way> of_mate = ports_by_nic(mate);
    if (of_mate.empty()) {
      continue;
    }
    const std::vector<LinkId> there = way_over_nvlink(fabric_, fabric_.vertex_of(gpu), fabric_.vertex_of(mate));
    if (there.empty()) {
      continue;
    }
    const std::vector<LinkId> back = way_back(there);
    for (Way& way : of_mate) {
      way.out.insert(way.out.begin(), there.begin(), there.end());
      way.back.insert(way.back.end(), back.begin(), back.end());
      found.push_back(std::move(way));
    }
  }
  const auto longer = [](const Way& a, const Way& b) { return a.out.size() < b.out.size(); };
  const auto nearest = std::min_element(found.begin(), found.end(), longer);
  const std::size_t least = nearest == found.end() ? 0 : nearest->out.size();
  std::erase_if(found, [&](const Way& way) { return way.out.size() > least; });
  return found;
}

void SwitchGraph::index_ports() {
  first_port_.push_back(0);
  for (std::size_t g = 0; g < fabric_.gpu_count(); ++g) {
    const auto gpu = id_at<GpuId>(g);
    // Directly is nearer than by NIC, and paths are shortest.
    std::vector<Way> found = ports_directly(gpu);
    if (found.empty()) {
      found = ports_by_nic(gpu);
    }
    borrows_.push_back(found.empty());
    if (found.empty()) {
      found = ports_borrowed(gpu);
    }
    std::sort(found.begin(), found.end(), [](const Way& a, const Way& b) {
      return std::tuple(a.at, a.out.back(), a.out.front()) < std::tuple(b.at, b.out.back(), b.out.front());
    });
    for (const Way& way : found) {
      ports_.push_back({.at = way.at,
                        .first_link = static_cast<std::uint32_t>(port_links_.size()),
                        .hops = static_cast<std::uint32_t>(way.out.size())});
      port_links_.insert(port_links_.end(), way.out.begin(), way.out.end());
      port_links_.insert(port_links_.end(), way.back.begin(), way.back.end());
    }
    first_port_.push_back(ports_.size());
  }
}

void SwitchGraph::intern_attachments() {
  std::map<std::pair<std::vector<SwitchId>, std::uint32_t>, AttachmentId> known;
  for (std::size_t g = 0; g < fabric_.gpu_count(); ++g) {
    std::vector<SwitchId> at;
    std::uint32_t hops = 0;
    for (const Port& port : ports(id_at<GpuId>(g))) {
      at.push_back(port.at);
      hops = port.hops;  // the same for all: only the nearest NICs count
    }
    const auto [entry, is_new] = known.try_emplace({at, hops}, id_at<AttachmentId>(attachments_.size()));
    if (is_new) {
      attachments_.push_back({.at = std::move(at), .hops = hops});
    }
    attachment_of_.push_back(entry->second);
  }
}

void SwitchGraph::add_groups_as_attachments() {
  const std::size_t first = attachments_.size();
  attachments_.resize(first + group_count_);
  for (std::size_t s = 0; group_count_ > 0 && s < switches_.size(); ++s) {
    attachments_[first + group_of_[s]].at.push_back(id_at<SwitchId>(s));
  }
}

void SwitchGraph::begin(Search& search, AttachmentId destination) const {
  const std::size_t size =
      switches_.size() * (sizeof(search.distance[0]) + sizeof(search.queue[0]) + sizeof(search.nearer[0]));
  if (bytes_held_ + size > bytes_most) {
    for (Search& old : searches_) {
      old = {};
    }
    bytes_held_ = 0;
  }
  bytes_held_ += size;
  search.distance.assign(switches_.size(), unreachable);
  for (const SwitchId s : attachments_[destination.index()].at) {
    if (search.distance[s.index()] != 0) {
      search.distance[s.index()] = 0;
      search.queue.push_back(s);
      search.groups.push_back(group_of_[s.index()]);
    }
  }
  std::sort(search.groups.begin(), search.groups.end());
  search.groups.erase(std::unique(search.groups.begin(), search.groups.end()), search.groups.end());
}

bool SwitchGraph::is_allowed(SwitchId from, SwitchId to, const Search& search) const {
  if (ways_ == Ways::any || group_of_[from.index()] == group_of_[to.index()]) {
    return true;
  }
  const auto is_goal = [&](SwitchId s) {
    return std::binary_search(search.groups.begin(), search.groups.end(), group_of_[s.index()]);
  };
  return is_goal(to) && !is_goal(from);
}

void SwitchGraph::expand(Search& search) const {
  const SwitchId here = search.queue[search.head++];
  const auto next = static_cast<std::uint16_t>(search.distance[here.index()] + 1);
  if (next == unreachable) {
    return;
  }
  for (std::uint32_t e = first_back_edge_[here.index()]; e < first_back_edge_[here.index() + 1]; ++e) {
    const SwitchId from = back_edges_[e];
    if (search.distance[from.index()] == unreachable && is_allowed(from, here, search)) {
      search.distance[from.index()] = next;
      search.queue.push_back(from);
    }
  }
}

std::uint16_t SwitchGraph::nearest(const Search& search, std::span<const SwitchId> sources) {
  std::uint16_t least = unreachable;
  for (const SwitchId s : sources) {
    least = std::min(least, search.distance[s.index()]);
  }
  return least;
}

SwitchGraph::Toward SwitchGraph::toward(AttachmentId destination, std::span<const SwitchId> sources) const {
  Toward toward;
  toward.graph_ = this;
  const std::vector<SwitchId>& goals = attachments_[destination.index()].at;
  if (torus_ && goals.size() == 1) {
    toward.goal_ = goals.front();
    return toward;
  }
  Search& search = searches_[destination.index()];
  if (search.distance.empty()) {
    begin(search, destination);
  }
  // Once a switch as far off as the source is next, all that are as near have been found.
  std::uint16_t least = nearest(search, sources);
  while (search.head < search.queue.size() && search.distance[search.queue[search.head].index()] < least) {
    expand(search);
    least = nearest(search, sources);
  }
  toward.search_ = &search;
  return toward;
}

std::span<const SwitchGraph::Edge> SwitchGraph::Toward::nearer(SwitchId here) const {
  if (search_ == nullptr) {
    graph_->scratch_.clear();
    const std::uint16_t distance_here = distance(here);
    for (const Edge& edge : graph_->edges(here)) {
      if (distance(edge.to) + 1 == distance_here) {
        graph_->scratch_.push_back(edge);
      }
    }
    return graph_->scratch_;
  }
  if (search_->nearer.empty()) {
    search_->nearer.resize(graph_->switches_.size());
  }
  if (search_->nearer[here.index()].count == 0) {
    graph_->look_up_nearer(*search_, here);
  }
  const Hops& hops = search_->nearer[here.index()];
  return std::span(hops.in_pool ? search_->pool : graph_->edges_).subspan(hops.first, hops.count);
}

void SwitchGraph::look_up_nearer(Search& search, SwitchId here) const {
  const std::span<const Edge> all = edges(here);
  const auto leads_nearer = [&](const Edge& edge) {
    return search.distance[edge.to.index()] + 1 == search.distance[here.index()] && is_allowed(here, edge.to, search);
  };
  // Where the builders laid a switch's cables upwards in a row, the list is a run of its edges and costs no memory.
  const auto begin = std::find_if(all.begin(), all.end(), leads_nearer);
  const auto end = std::find_if_not(begin, all.end(), leads_nearer);
  if (std::none_of(end, all.end(), leads_nearer)) {
    search.nearer[here.index()] = {
        .first = static_cast<std::uint32_t>(first_edge_[here.index()] + static_cast<std::size_t>(begin - all.begin())),
        .count = static_cast<std::uint32_t>(end - begin) & 0x7fffffffU};
    return;
  }
  const std::size_t first = search.pool.size();
  std::copy_if(begin, all.end(), std::back_inserter(search.pool), leads_nearer);
  bytes_held_ += (search.pool.size() - first) * sizeof(Edge);
  search.nearer[here.index()] = {.first = static_cast<std::uint32_t>(first),
                                 .count = static_cast<std::uint32_t>(search.pool.size() - first) & 0x7fffffffU,
                                 .in_pool = true};
}

}  // namespace foretrain
