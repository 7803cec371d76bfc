// Tree: an all-reduce over several nodes as a double binary tree of nodes and a chain inside each node, which follows
// the node's rings (layout_rings.h). The message is reduced up the chain and the tree, and comes down the same way.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/double_tree.h"
#include "sim/collectives/layout_rings.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

double chain_goodput(double ring_goodput, std::size_t g) {
  // An inner member of a chain sends twice the message, and that is the bound, for all that members take turns at
  // being at an end: 2 / (0.92 ringbw) whatever g is.
  return tree_ring_part * ring_goodput * static_cast<double>(g - 1) / static_cast<double>(g);
}

double ring_goodput(const NodeTransport& node) { return node.ring_rate_across.value_or(node.ring_rate) / node.line; }

/// Channel c's chain runs from member c round each ring of the node, up and down. Added up, an edge of a ring is in all
/// channels but the one that starts where it leads.
void add_chains(UsageSum& sum, const GroupLayout& layout, const LayoutRings& rings, double ring) {
  const double left_out = 1.0 / static_cast<double>(rings.channels());
  for (std::size_t n = 0; n < layout.nodes.size(); ++n) {
    const std::vector<GpuId>& gpus = layout.nodes[n].gpus;
    const double goodput = chain_goodput(ring, gpus.size());
    for (const RingArc& arc : rings.arcs(n)) {
      const double wire = (arc.to < rings.channels() ? 1.0 - left_out : 1.0) * rings.share(n);
      sum.route(gpus[arc.from], gpus[arc.to], 0, wire, goodput, goodput);
      sum.route(gpus[arc.to], gpus[arc.from], 0, wire, goodput, goodput);
    }
  }
}

/// The same as one tree of GPUs: the edges between the nodes' members of a lane's channel, and below each its chain.
std::vector<TreeEdge> lane_tree(const GroupLayout& layout, const LayoutRings& rings, std::size_t tree,
                                const RingLane& lane, const Transport& transport) {
  std::vector<TreeEdge> edges =
      tree_edges(layout, tree, lane.channel, transport.network.efficiency, transport.network.tree_step);
  const std::size_t between = edges.size();
  for (std::size_t n = 0; n < layout.nodes.size(); ++n) {
    const std::vector<GpuId> chain = rings.members(n, lane.rings[n], lane.channel);
    if (chain.size() <= 1) continue;
    std::optional<std::uint32_t> above;
    for (std::uint32_t e = 0; e < between; ++e)
      if (edges[e].child == chain.front()) above = e;
    const double goodput = chain_goodput(ring_goodput(transport.node), chain.size());
    for (std::size_t i = 1; i < chain.size(); ++i) {
      edges.push_back({.parent = chain[i - 1],
                       .child = chain[i],
                       .above = above,
                       .in_node_goodput = goodput,
                       .between_goodput = goodput,
                       .latency = transport.node.ring_step});
      above = static_cast<std::uint32_t>(edges.size() - 1);
    }
  }
  return edges;
}

class Tree final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::tree; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    if (protocol == Protocol::ll128 && shape.nic == Bandwidth{}) return false;
    return op == Collective::all_reduce && shape.nodes > 1 && transport.network.tree_allowed;
  }

  [[nodiscard]] Duration latency(Collective op, Protocol protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    const double hops = timing::tree_hops(shape);
    if (protocol != Protocol::simple) return timing::low_latency(op, protocol, hops, shape, transport);
    return timing::launch(shape, transport) +
           timing::rounded(2 * static_cast<double>(shape.per_node_max - 1) *
                               static_cast<double>(transport.node.ring_step.ps()) +
                           hops * static_cast<double>(transport.network.tree_step.ps()));
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective op, Protocol protocol, const GroupShape& shape,
                                               const Transport& transport) const override {
    return timing::protocol_cap(op, protocol, shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    add_chains(sum, layout, LayoutRings(context.fabric, layout), ring_goodput(context.transport.node));
    add_double_tree(sum, layout, context.transport.network.efficiency);
    return sum.take();
  }

  /// Every piece goes up its lane's tree and, once it is whole at the root, down again.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const LayoutRings rings(context.fabric, layout);
    for (const RingLane& lane : rings.crossed_lanes()) {
      const double line = static_cast<double>(size.count()) * lane.share / 2;
      const std::uint32_t pieces = pieces_of(line, context.pieces);
      for (std::size_t tree = 0; tree < 2; ++tree) {
        TreePipeline way(graph, lane_tree(layout, rings, tree, lane, context.transport), line / pieces);
        for (std::uint32_t p = 0; p < pieces; ++p) {
          way.reduce();
          way.broadcast(way.at_root());
        }
      }
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_tree() { return std::make_unique<Tree>(); }

}  // namespace foretrain
