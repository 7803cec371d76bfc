#include "topology/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace foretrain {
namespace {

constexpr std::size_t kind_count = static_cast<std::size_t>(VertexKind::router) + 1;

/// Lists of values, one list a key, packed into one array.
template <class Value>
struct Lists {
  std::vector<std::uint32_t> first{0};
  std::vector<Value> values;

  [[nodiscard]] std::span<const Value> operator[](std::size_t key) const {
    return std::span(values).subspan(first[key], first[key + 1] - first[key]);
  }
  void end_list() { first.push_back(static_cast<std::uint32_t>(values.size())); }
};

std::uint32_t checked_count(std::size_t n, const char* what) {
  if (n >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(fmt::format("a fabric holds at most 2^32 - 2 {}", what));
  }
  return static_cast<std::uint32_t>(n);
}

}  // namespace

std::string_view to_text(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return "gpu";
    case VertexKind::nic:
      return "nic";
    case VertexKind::host:
      return "host";
    case VertexKind::pcie_switch:
      return "pcie";
    case VertexKind::nvswitch:
      return "nvswitch";
    case VertexKind::leaf:
      return "leaf";
    case VertexKind::spine:
      return "spine";
    case VertexKind::core:
      return "core";
    case VertexKind::router:
      break;
  }
  return "router";
}

/// Edges of the CSR graph are numbered in the order of their source, so an edge's index is its LinkId and `links`
/// holds what it carries.
struct Fabric::Graph {
  using Csr = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                 boost::no_property, std::uint32_t, std::uint32_t>;
  Csr csr;
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  Lists<LinkId> in_links;      ///< by vertex
  std::vector<VertexId> gpus;  ///< by GpuId
  std::vector<GpuId> gpu_at;   ///< by vertex; meaningless where the vertex is no GPU
  Lists<VertexId> nics;        ///< by GpuId
  Lists<GpuId> gpus_of_node;   ///< by NodeId
  std::vector<Tier> tiers;
  std::optional<TorusShape> torus;

  void index_in_links();
  void index_gpus(std::size_t node_count);
  [[nodiscard]] std::vector<bool> cabled() const;  ///< by vertex: whether a link leads out of its node
  struct Hop {
    std::vector<VertexId> nics, onwards;
  };
  [[nodiscard]] Hop hop_from(const std::vector<VertexId>& level, GpuId gpu, std::vector<std::uint32_t>& seen_by) const;
  void index_nics();
  void sum_tiers();
};

void Fabric::Graph::index_in_links() {
  std::vector<std::uint32_t> next(vertices.size() + 1, 0);
  for (const Link& link : links) {
    ++next[link.to.index() + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  in_links.first = next;
  in_links.values.resize(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    in_links.values[next[links[i].to.index()]++] = id_at<LinkId>(i);
  }
}

void Fabric::Graph::index_gpus(std::size_t node_count) {
  gpu_at.resize(vertices.size());
  std::vector<std::vector<GpuId>> by_node(node_count);
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    if (vertices[v].kind != VertexKind::gpu) {
      continue;
    }
    const auto gpu = id_at<GpuId>(gpus.size());
    gpu_at[v] = gpu;
    gpus.push_back(id_at<VertexId>(v));
    by_node[vertices[v].node->index()].push_back(gpu);
  }
  for (const std::vector<GpuId>& of_node : by_node) {
    gpus_of_node.values.insert(gpus_of_node.values.end(), of_node.begin(), of_node.end());
    gpus_of_node.end_list();
  }
}

std::vector<bool> Fabric::Graph::cabled() const {
  std::vector<bool> is_cabled(vertices.size(), false);
  for (const Link& link : links) {
    const std::optional<NodeId> node = vertices[link.from.index()].node;
    if (node && vertices[link.to.index()].node != node) {
      is_cabled[link.from.index()] = true;
    }
  }
  return is_cabled;
}

/// One hop further from `level` inside the GPU's node: NICs, and what leads to others. `seen_by` holds the last GPU,
/// counted from 1, that came by.
Fabric::Graph::Hop Fabric::Graph::hop_from(const std::vector<VertexId>& level, GpuId gpu,
                                           std::vector<std::uint32_t>& seen_by) const {
  const std::optional<NodeId> node = vertices[gpus[gpu.index()].index()].node;
  const std::uint32_t mark = gpu.value + 1;
  Hop hop;
  for (const VertexId here : level) {
    const auto [begin, end] = boost::out_edges(here.value, csr);
    for (auto edge = begin; edge != end; ++edge) {
      const VertexId to = links[boost::get(boost::edge_index, csr, *edge)].to;
      const Vertex& vertex = vertices[to.index()];
      if (vertex.node != node || std::exchange(seen_by[to.index()], mark) == mark) continue;
      if (vertex.kind == VertexKind::nic) {
        hop.nics.push_back(to);
      } else if (vertex.kind == VertexKind::pcie_switch || vertex.kind == VertexKind::host) {
        hop.onwards.push_back(to);
      }
    }
  }
  return hop;
}

/// Hop by hop from the GPU over the PCIe switches and hosts of its node, as far as the first NICs with a cable, else
/// the first NICs: ways over an NVSwitch, another GPU or the network do not count as "its" PCIe.
void Fabric::Graph::index_nics() {
  const std::vector<bool> is_cabled = cabled();
  const auto has_cable = [&](VertexId v) { return is_cabled[v.index()]; };
  std::vector<std::uint32_t> seen_by(vertices.size(), 0);
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    std::vector<VertexId> level = {gpus[g]};
    std::vector<VertexId> nearest;
    while (!level.empty() && std::none_of(nearest.begin(), nearest.end(), has_cable)) {
      Hop hop = hop_from(level, id_at<GpuId>(g), seen_by);
      if (nearest.empty() || std::any_of(hop.nics.begin(), hop.nics.end(), has_cable)) nearest = std::move(hop.nics);
      level = std::move(hop.onwards);
    }
    if (std::any_of(nearest.begin(), nearest.end(), has_cable)) {
      std::erase_if(nearest, [&](VertexId v) { return !has_cable(v); });
    }
    std::sort(nearest.begin(), nearest.end());
    nics.values.insert(nics.values.end(), nearest.begin(), nearest.end());
    nics.end_list();
  }
}

void Fabric::Graph::sum_tiers() {
  for (const Link& link : links) {
    Tier& tier = tiers[link.tier.index()];
    ++tier.links;
    tier.bandwidth = tier.bandwidth + link.bandwidth;
  }
}

Fabric::Fabric(std::unique_ptr<Graph> graph) : graph_(std::move(graph)) {}
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;
Fabric::~Fabric() = default;

std::size_t Fabric::vertex_count() const { return graph_->vertices.size(); }
std::size_t Fabric::link_count() const { return graph_->links.size(); }
std::size_t Fabric::gpu_count() const { return graph_->gpus.size(); }
std::size_t Fabric::node_count() const { return graph_->gpus_of_node.first.size() - 1; }
const Vertex& Fabric::vertex(VertexId v) const { return graph_->vertices[v.index()]; }
const Link& Fabric::link(LinkId l) const { return graph_->links[l.index()]; }
std::span<const Link> Fabric::links() const { return graph_->links; }

Fabric::LinkRange Fabric::out_links(VertexId v) const {
  // The edges out of v are consecutive; the first one's index and their number say all.
  const Graph::Csr& csr = graph_->csr;
  const std::uint32_t count = boost::out_degree(v.value, csr);
  if (count == 0) {
    return {};
  }
  const std::uint32_t first = boost::get(boost::edge_index, csr, *boost::out_edges(v.value, csr).first);
  return {LinkId{first}, LinkId{first + count}};
}

std::span<const LinkId> Fabric::in_links(VertexId v) const { return graph_->in_links[v.index()]; }
VertexId Fabric::vertex_of(GpuId gpu) const { return graph_->gpus[gpu.index()]; }

std::optional<GpuId> Fabric::gpu_at(VertexId v) const {
  if (vertex(v).kind != VertexKind::gpu) {
    return std::nullopt;
  }
  return graph_->gpu_at[v.index()];
}

NodeId Fabric::node_of(GpuId gpu) const { return *vertex(vertex_of(gpu)).node; }
std::span<const VertexId> Fabric::nics_of(GpuId gpu) const { return graph_->nics[gpu.index()]; }
std::span<const GpuId> Fabric::gpus_of(NodeId node) const { return graph_->gpus_of_node[node.index()]; }
std::span<const Tier> Fabric::tiers() const { return graph_->tiers; }
const std::optional<TorusShape>& Fabric::torus() const { return graph_->torus; }

std::string Fabric::name(VertexId v) const {
  const Vertex& it = vertex(v);
  if (it.node) {
    return fmt::format("node{}/{}{}", it.node->value, to_text(it.kind), it.in_node);
  }
  return fmt::format("{}{}", to_text(it.kind), it.ordinal);
}

std::string Fabric::name(LinkId l) const {
  const Link& it = link(l);
  return fmt::format("{} > {}", name(it.from), name(it.to));
}

// --- FabricBuilder -------------------------------------------------------------------------------------------------

namespace {

/// Both links of a cable at once, or a link by itself.
struct Cable {
  VertexId a, b;
  Bandwidth bandwidth;
  Duration latency;
  TierId tier;
  bool both_ways = true;

  [[nodiscard]] Link there() const { return {a, b, bandwidth, latency, tier}; }
  [[nodiscard]] Link back() const { return {b, a, bandwidth, latency, tier}; }
};

/// Cables as they are laid: in blocks, because a vector of a million GPUs' cables that grows is copied time and again
/// and stands there twice.
class CableList {
 public:
  void push_back(const Cable& cable) {
    if (blocks_.empty() || blocks_.back().size() == blocks_.back().capacity())
      blocks_.emplace_back().reserve(std::min(block_least << blocks_.size(), block_most));
    blocks_.back().push_back(cable);
    links_ += cable.both_ways ? 2 : 1;
  }
  [[nodiscard]] std::size_t links() const { return links_; }
  /// Calls each(cable) for all.
  template <class Each>
  void for_each(const Each& each) const {
    for (const std::vector<Cable>& block : blocks_)
      for (const Cable& cable : block) each(cable);
  }
  /// The same, and gives back what has been read.
  template <class Each>
  void consume(const Each& each) {
    for (std::vector<Cable>& block : blocks_) {
      for (const Cable& cable : block) each(cable);
      block = {};
    }
    blocks_.clear();
    links_ = 0;
  }

 private:
  static constexpr std::size_t block_least = 512;
  static constexpr std::size_t block_most = std::size_t{1} << 17;  // 4 MiB
  std::vector<std::vector<Cable>> blocks_;
  std::size_t links_ = 0;
};

}  // namespace

struct FabricBuilder::Draft {
  using Counts = std::array<std::uint32_t, kind_count>;
  std::vector<Vertex> vertices;
  CableList cables;
  std::vector<Tier> tiers;
  Counts of_kind{};
  std::vector<Counts> of_kind_in_node;
  std::optional<TorusShape> torus;

  VertexId add(VertexKind kind, std::optional<NodeId> node);
  void check_cable(VertexId a, VertexId b, Bandwidth each_way, Duration latency, TierId tier) const;
  [[nodiscard]] std::vector<Link> take_sorted_links();
};

VertexId FabricBuilder::Draft::add(VertexKind kind, std::optional<NodeId> node) {
  checked_count(vertices.size() + 1, "vertices");
  const auto k = static_cast<std::size_t>(kind);
  const std::uint32_t in_node = node ? of_kind_in_node[node->index()][k]++ : 0;
  vertices.push_back({.kind = kind, .ordinal = of_kind[k]++, .in_node = in_node, .node = node});
  return id_at<VertexId>(vertices.size() - 1);
}

void FabricBuilder::Draft::check_cable(VertexId a, VertexId b, Bandwidth each_way, Duration latency,
                                       TierId tier) const {
  if (a.index() >= vertices.size() || b.index() >= vertices.size()) {
    throw std::invalid_argument(
        fmt::format("a cable joins vertices {} and {}, but there are {}", a.value, b.value, vertices.size()));
  }
  if (a == b) {
    throw std::invalid_argument(fmt::format("a cable joins vertex {} to itself", a.value));
  }
  if (each_way.bytes_per_s() <= 0) {
    throw std::invalid_argument(fmt::format("a cable's bandwidth must be above 0, not {}", to_text(each_way)));
  }
  if (latency < Duration{}) {
    throw std::invalid_argument(fmt::format("a cable's latency must not be negative, but is {}", to_text(latency)));
  }
  if (tier.index() >= tiers.size()) {
    throw std::invalid_argument(fmt::format("a cable is of tier {}, but there are {}", tier.value, tiers.size()));
  }
}

/// By source, in the order connected: a counting sort, stable and linear.
std::vector<Link> FabricBuilder::Draft::take_sorted_links() {
  std::vector<std::uint32_t> next(vertices.size() + 1, 0);
  cables.for_each([&](const Cable& cable) {
    ++next[cable.a.index() + 1];
    if (cable.both_ways) ++next[cable.b.index() + 1];
  });
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Link> sorted(cables.links());
  cables.consume([&](const Cable& cable) {
    sorted[next[cable.a.index()]++] = cable.there();
    if (cable.both_ways) sorted[next[cable.b.index()]++] = cable.back();
  });
  return sorted;
}

FabricBuilder::FabricBuilder() : draft_(std::make_unique<Draft>()) {}
FabricBuilder::~FabricBuilder() = default;
FabricBuilder::FabricBuilder(FabricBuilder&&) noexcept = default;
FabricBuilder& FabricBuilder::operator=(FabricBuilder&&) noexcept = default;

TierId FabricBuilder::tier(std::string_view name) {
  const auto found =
      std::find_if(draft_->tiers.begin(), draft_->tiers.end(), [&](const Tier& t) { return t.name == name; });
  const auto index = static_cast<std::size_t>(found - draft_->tiers.begin());
  if (found == draft_->tiers.end()) {
    draft_->tiers.push_back({.name = std::string(name), .links = 0, .bandwidth = {}});
  }
  return id_at<TierId>(index);
}

NodeId FabricBuilder::node() {
  draft_->of_kind_in_node.emplace_back();
  return NodeId{checked_count(draft_->of_kind_in_node.size() - 1, "nodes")};
}

VertexId FabricBuilder::add(VertexKind kind) {
  if (kind == VertexKind::gpu) {
    throw std::invalid_argument("a GPU must be in a node");
  }
  return draft_->add(kind, std::nullopt);
}

VertexId FabricBuilder::add(VertexKind kind, NodeId node) {
  if (node.index() >= draft_->of_kind_in_node.size()) {
    throw std::invalid_argument(
        fmt::format("a vertex is in node {}, but there are {}", node.value, draft_->of_kind_in_node.size()));
  }
  return draft_->add(kind, node);
}

void FabricBuilder::connect(VertexId a, VertexId b, Bandwidth each_way, Duration latency, TierId tier) {
  draft_->check_cable(a, b, each_way, latency, tier);
  checked_count(draft_->cables.links() + 2, "links");
  draft_->cables.push_back({.a = a, .b = b, .bandwidth = each_way, .latency = latency, .tier = tier});
}

void FabricBuilder::connect_one_way(VertexId from, VertexId to, Bandwidth bandwidth, Duration latency, TierId tier) {
  draft_->check_cable(from, to, bandwidth, latency, tier);
  checked_count(draft_->cables.links() + 1, "links");
  draft_->cables.push_back(
      {.a = from, .b = to, .bandwidth = bandwidth, .latency = latency, .tier = tier, .both_ways = false});
}

void FabricBuilder::set_group(VertexId vertex, std::uint32_t group) {
  if (vertex.index() >= draft_->vertices.size()) {
    throw std::invalid_argument(fmt::format("there is no vertex {} to put into a group", vertex.value));
  }
  draft_->vertices[vertex.index()].group = group;
}

void FabricBuilder::set_torus(TorusShape shape) { draft_->torus = std::move(shape); }

Fabric FabricBuilder::build() && {
  const std::unique_ptr<Draft> draft = std::move(draft_);
  draft_ = std::make_unique<Draft>();
  auto graph = std::make_unique<Fabric::Graph>();
  graph->links = draft->take_sorted_links();
  const auto ends = [](const Link& link) { return std::pair(link.from.value, link.to.value); };
  graph->csr = Fabric::Graph::Csr(boost::edges_are_sorted, boost::make_transform_iterator(graph->links.begin(), ends),
                                  boost::make_transform_iterator(graph->links.end(), ends),
                                  static_cast<std::uint32_t>(draft->vertices.size()),
                                  static_cast<std::uint32_t>(graph->links.size()));
  graph->vertices = std::move(draft->vertices);
  graph->tiers = std::move(draft->tiers);
  graph->torus = std::move(draft->torus);
  graph->index_in_links();
  graph->index_gpus(draft->of_kind_in_node.size());
  graph->index_nics();
  graph->sum_tiers();
  return Fabric(std::move(graph));
}

}  // namespace foretrain
