// Tree: an all-reduce over several nodes as a double binary tree of nodes and a chain inside each node. The message
// is reduced up the chain and the tree, and comes down the same way.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/double_tree.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

double chain_goodput(double ring_goodput, std::size_t g) {
  // An inner member of a chain sends twice the message, and that is the bound, for all that members take turns at
  // being at an end: 2 / (0.92 ringbw) whatever g is.
  return tree_ring_part * ring_goodput * static_cast<double>(g - 1) / static_cast<double>(g);
}

double ring_goodput(const NodeTransport& node) { return node.ring_rate_across.value_or(node.ring_rate) / node.line; }

/// Channel c's chain runs c, c+1, ... round the node, up and down. Added up, the edge from i to its follower is in all
/// channels but the one that starts at the follower.
void add_chains(UsageSum& sum, const GroupLayout& layout, double ring) {
  const std::size_t channels = layout.ranks_per_node_min();
  const double left_out = 1.0 / static_cast<double>(channels);
  for (const GroupLayout::Node& node : layout.nodes) {
    const std::size_t g = node.gpus.size();
    if (g <= 1) continue;
    const double goodput = chain_goodput(ring, g);
    for (std::size_t i = 0; i < g; ++i) {
      const std::size_t next = (i + 1) % g;
      const double wire = next < channels ? 1.0 - left_out : 1.0;
      sum.route(node.gpus[i], node.gpus[next], 0, wire, goodput, goodput);
      sum.route(node.gpus[next], node.gpus[i], 0, wire, goodput, goodput);
    }
  }
}

/// The same as one tree of GPUs: the edges between the nodes' c-th members, and below each its node's chain.
std::vector<TreeEdge> channel_tree(const GroupLayout& layout, std::size_t tree, std::size_t channel,
                                   const Transport& transport) {
  std::vector<TreeEdge> edges =
      tree_edges(layout, tree, channel, transport.network.efficiency, transport.network.tree_step);
  const std::size_t between = edges.size();
  for (const GroupLayout::Node& node : layout.nodes) {
    const std::size_t g = node.gpus.size();
    if (g <= 1) continue;
    std::optional<std::uint32_t> above;
    for (std::uint32_t e = 0; e < between; ++e)
      if (edges[e].child == node.gpus[channel]) above = e;
    const double goodput = chain_goodput(ring_goodput(transport.node), g);
    for (std::size_t i = 1; i < g; ++i) {
      edges.push_back({.parent = node.gpus[(channel + i - 1) % g],
                       .child = node.gpus[(channel + i) % g],
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
    add_chains(sum, layout, ring_goodput(context.transport.node));
    add_double_tree(sum, layout, context.transport.network.efficiency);
    return sum.take();
  }

  /// Every piece goes up its channel's tree and, once it is whole at the root, down again.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const std::size_t channels = layout.ranks_per_node_min();
    const double line = static_cast<double>(size.count()) / (2.0 * static_cast<double>(channels));
    const std::uint32_t pieces = pieces_of(line, context.pieces);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t tree = 0; tree < 2; ++tree) {
        TreePipeline way(graph, channel_tree(layout, tree, c, context.transport), line / pieces);
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
