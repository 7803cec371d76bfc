#include "topology/routing/footprint.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace foretrain {
namespace {

/// Numbers for digests, in the order in which they are first asked for.
class Kinds {
 public:
  std::uint32_t of(const Digest& digest) {
    if (last_ == digest) return number_;
    last_ = digest;
    return number_ = known_.try_emplace(digest, static_cast<std::uint32_t>(known_.size())).first->second;
  }

 private:
  std::unordered_map<Digest, std::uint32_t, DigestHash> known_;  // looked up only, never iterated
  std::optional<Digest> last_;
  std::uint32_t number_ = 0;
};

void append_link(Digest& digest, std::uint64_t to, const Link& link) {
  digest.append(to << 32 | link.tier.value);
  digest.append(static_cast<std::uint64_t>(link.bandwidth.bytes_per_s()));
  digest.append(static_cast<std::uint64_t>(link.latency.ps()));
}

using Edge = SwitchClasses::Edge;

void append_edge(Digest& digest, const Fabric& fabric, const Edge& edge) {
  append_link(digest, 0, fabric.link(edge.first));
  digest.append(std::uint64_t{edge.links} << 32 | edge.into);
}

/// The edge that joins a class to another; there is one kind at most.
const Edge* edge_to(std::span<const Edge> edges, std::uint32_t to) {
  const auto at = std::find_if(edges.begin(), edges.end(), [to](const Edge& e) { return e.to == to; });
  return at == edges.end() ? nullptr : &*at;
}

/// Whether no class is joined to itself, and any two by links of one kind each way or none.
bool joined_simply(const SwitchClasses& classes) {
  std::vector<std::uint32_t> seen_by(classes.count(), UINT32_MAX);
  for (std::uint32_t c = 0; c < classes.count(); ++c) {
    for (const Edge& e : classes.edges(c)) {
      if (e.to == c || std::exchange(seen_by[e.to], c) == c) return false;
    }
  }
  // As many one way as the other between any two: else a search for the way back would find none.
  std::vector<std::uint32_t> out(classes.count()), in(classes.count());
  for (std::uint32_t c = 0; c < classes.count(); ++c) {
    for (const Edge& e : classes.edges(c)) ++out[c], ++in[e.to];
  }
  return out == in;
}

/// By class: the one above it, `none` for roots; empty where the classes form no forest. Peeled from the ends, so that
/// the roots are in the middle.
std::vector<std::uint32_t> find_above(const SwitchClasses& classes, std::uint32_t none) {
  std::vector<std::uint32_t> above(classes.count(), none);
  std::vector<std::size_t> left(classes.count());
  std::vector<bool> peeled(classes.count());
  std::vector<std::uint32_t> ends;
  for (std::uint32_t c = 0; c < classes.count(); ++c) {
    left[c] = classes.edges(c).size();
    if (left[c] <= 1) ends.push_back(c);
  }
  for (std::size_t head = 0; head < ends.size(); ++head) {
    const std::uint32_t c = ends[head];
    peeled[c] = true;
    for (const Edge& e : classes.edges(c)) {
      if (peeled[e.to]) continue;
      above[c] = e.to;
      if (--left[e.to] == 1) ends.push_back(e.to);
    }
  }
  if (ends.size() < classes.count()) return {};
  return above;
}

}  // namespace

std::optional<Footprints> Footprints::of(const SwitchGraph& graph, const SwitchClasses& classes) {
  Footprints made(graph.fabric());
  if (!made.index_classes(graph, classes) || !made.index_nodes()) return std::nullopt;
  return made;
}

bool Footprints::index_classes(const SwitchGraph& graph, const SwitchClasses& classes) {
  if (!joined_simply(classes)) return false;
  const std::vector<std::uint32_t> above = find_above(classes, none);
  if (above.size() < classes.count()) return false;
  Kinds kinds;
  classes_.resize(classes.count());
  class_number_.resize(classes.count());
  is_single_.resize(classes.count());
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    Class& it = classes_[c];
    it.above = above[c];
    Digest digest;
    if (it.above != none) {
      const Edge* up = edge_to(classes.edges(c), it.above);
      const Edge* down = edge_to(classes.edges(it.above), c);
      if (up == nullptr || down == nullptr) return false;
      it.up = up->first;
      it.down = down->first;
      append_edge(digest, *fabric_, *up);
      append_edge(digest, *fabric_, *down);
    }
    it.kind = kinds.of(digest);
  }
  class_at_.assign(fabric_->vertex_count(), none);
  std::vector<std::uint32_t> size(classes_.size());
  for (std::size_t s = 0; s < graph.switch_count(); ++s) {
    const auto id = id_at<SwitchId>(s);
    const std::uint32_t c = classes.class_of(id);
    class_at_[graph.vertex(id).index()] = c;
    is_single_[c] = ++size[c] == 1;
  }
  return true;
}

bool Footprints::index_nodes() {
  nodes_.resize(fabric_->node_count());
  node_number_.resize(nodes_.size());
  places_.resize(fabric_->gpu_count());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const std::span<const GpuId> gpus = fabric_->gpus_of(id_at<NodeId>(n));
    for (std::uint32_t i = 0; i < gpus.size(); ++i) places_[gpus[i].index()] = {id_at<NodeId>(n), i};
  }
  Kinds kinds;
  std::vector<bool> begun(nodes_.size());
  for (std::uint32_t v = 0; v < fabric_->vertex_count();) {
    const std::optional<NodeId> id = fabric_->vertex(VertexId{v}).node;
    if (!id) {
      ++v;
      continue;
    }
    if (begun[id->index()]) return false;
    begun[id->index()] = true;
    Node& node = nodes_[id->index()];
    node.first_vertex = v;
    while (v < fabric_->vertex_count() && fabric_->vertex(VertexId{v}).node == id) ++v;
    if (!index_links(node, v)) return false;
    node.kind = kinds.of(digest_of(node, v));
  }
  return true;
}

/// Which links leave and enter a node whose vertices end before `end`, and over which switches.
bool Footprints::index_links(Node& node, std::uint32_t end) {
  node.first_link_in = static_cast<std::uint32_t>(links_in_.size());
  node.first_switch = static_cast<std::uint32_t>(node_switches_.size());
  bool first = true;
  const auto is_outside = [&](VertexId v) { return v.value < node.first_vertex || v.value >= end; };
  const auto note = [&](VertexId outside) {
    const std::uint32_t c = class_at_[outside.index()];
    if (c != none) node_switches_.push_back(c);
    return c != none;
  };
  for (std::uint32_t v = node.first_vertex; v < end; ++v) {
    const Fabric::LinkRange out = fabric_->out_links(VertexId{v});
    if (out.first == out.last) continue;
    if (std::exchange(first, false)) node.first_link = out.first.value;
    node.links_out = out.last.value - node.first_link;
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const VertexId to = fabric_->link(l).to;
      if (is_outside(to) && !note(to)) return false;
    }
    for (const LinkId l : fabric_->in_links(VertexId{v})) {
      const VertexId from = fabric_->link(l).from;
      if (!is_outside(from)) continue;
      if (!note(from)) return false;
      links_in_.push_back(l);
    }
  }
  const auto switches = node_switches_.begin() + node.first_switch;
  std::sort(switches, node_switches_.end());
  node_switches_.erase(std::unique(switches, node_switches_.end()), node_switches_.end());
  node.switches = static_cast<std::uint32_t>(node_switches_.size()) - node.first_switch;
  return std::all_of(node_switches_.begin() + node.first_switch, node_switches_.end(),
                     [&](std::uint32_t c) { return is_single_[c]; });
}

Digest Footprints::digest_of(const Node& node, std::uint32_t end) const {
  const auto switches = std::span(node_switches_).subspan(node.first_switch, node.switches);
  // Inside: by position; outside: by which of the node's switches.
  const auto other_end = [&](VertexId v) {
    if (v.value >= node.first_vertex && v.value < end) return std::uint64_t{v.value - node.first_vertex} << 1;
    const auto at = std::lower_bound(switches.begin(), switches.end(), class_at_[v.index()]);
    return static_cast<std::uint64_t>(at - switches.begin()) << 1 | 1;
  };
  Digest digest;
  digest.append(std::uint64_t{end - node.first_vertex} << 32 | node.switches);
  for (std::uint32_t v = node.first_vertex; v < end; ++v) {
    const Fabric::LinkRange out = fabric_->out_links(VertexId{v});
    digest.append(static_cast<std::uint64_t>(fabric_->vertex(VertexId{v}).kind) << 32 |
                  (out.last.value - out.first.value));
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const Link& link = fabric_->link(l);
      append_link(digest, other_end(link.to), link);
    }
  }
  for (const LinkId l : std::span(links_in_).subspan(node.first_link_in)) {
    const Link& link = fabric_->link(l);
    append_link(digest, other_end(link.from), link);
    digest.append(other_end(link.to));
  }
  return digest;
}

void Footprints::climb(std::uint32_t c, Footprint& footprint) const {
  for (; c != none; c = classes_[c].above) {
    Number& known = class_number_[c];
    if (known.search == search_) {
      footprint.key.append(known.number);
      return;
    }
    known = {search_, static_cast<std::uint32_t>(footprint.switches.size())};
    footprint.switches.push_back(c);
    footprint.key.append(std::uint64_t{known.number} << 32 | classes_[c].kind);
  }
  footprint.key.append(none);
}

void Footprints::find(std::span<const GpuId> group, Footprint& footprint) const {
  ++search_;
  footprint.key = {};
  footprint.nodes.clear();
  footprint.switches.clear();
  for (const GpuId gpu : group) {
    const Place& place = places_[gpu.index()];
    Number& known = node_number_[place.node.index()];
    const bool is_new = known.search != search_;
    if (is_new) {
      known = {search_, static_cast<std::uint32_t>(footprint.nodes.size())};
      footprint.nodes.push_back(place.node);
    }
    footprint.key.append(std::uint64_t{known.number} << 32 | place.position);
    if (!is_new) continue;
    const Node& node = nodes_[place.node.index()];
    footprint.key.append(node.kind);
    for (const std::uint32_t c : std::span(node_switches_).subspan(node.first_switch, node.switches))
      climb(c, footprint);
  }
  footprint.key.append(group.size());
}

FootprintSpot Footprints::spot(LinkId link, const Footprint& footprint) const {
  const Link& it = fabric_->link(link);
  const std::optional<NodeId> from = fabric_->vertex(it.from).node;
  const std::optional<NodeId> to = fabric_->vertex(it.to).node;
  if (from) return {number_of(node_number_[from->index()]), link.value - nodes_[from->index()].first_link};
  if (to) {
    const Node& node = nodes_[to->index()];
    const auto first = links_in_.begin() + node.first_link_in;
    return {number_of(node_number_[to->index()]),
            node.links_out + static_cast<std::uint32_t>(std::find(first, links_in_.end(), link) - first)};
  }
  const auto nodes = static_cast<std::uint32_t>(footprint.nodes.size());
  const std::uint32_t below = class_at_[it.from.index()];
  if (classes_[below].above != none && classes_[below].up == link) return {nodes + number_of(class_number_[below]), 0};
  const std::uint32_t above_of = class_at_[it.to.index()];
  if (classes_[above_of].above != none && classes_[above_of].down == link)
    return {nodes + number_of(class_number_[above_of]), 1};
  throw std::logic_error("a link that stands for no others on a route");
}

std::uint32_t Footprints::number_of(const Number& known) const {
  if (known.search != search_) throw std::logic_error("a route outside its group's footprint");
  return known.number;
}

}  // namespace foretrain
