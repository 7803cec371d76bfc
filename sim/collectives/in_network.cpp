#include "sim/collectives/in_network.h"

namespace foretrain {

namespace {

/// The first link from one vertex to another.
std::optional<LinkId> link_between(const Fabric& fabric, VertexId from, VertexId to) {
  const auto [first, last] = fabric.out_links(from);
  for (std::uint32_t l = first.value; l < last.value; ++l) {
    if (fabric.link(LinkId{l}).to == to) return LinkId{l};
  }
  return std::nullopt;
}

}  // namespace

// The tree grows from the routes to its first member: a route is followed to the first vertex that an earlier one has
// reached, for from there on the reduced copy goes. The result comes down the same cables.
AggregationTree aggregation_tree(const GroupLayout& layout, std::size_t channel, const CollectiveContext& context) {
  AggregationTree tree;
  std::vector<bool> sends_on(context.fabric.vertex_count());
  std::vector<LinkShare> path;
  const GpuId root = layout.nodes.front().gpus[channel];
  for (std::size_t node = 1; node < layout.nodes.size(); ++node) {
    path.clear();
    context.router.route(layout.nodes[node].gpus[channel], root, channel, path);
    for (const LinkShare& hop : path) {
      const Link& link = context.fabric.link(hop.link);
      if (sends_on[link.from.index()]) continue;
      tree.up.push_back(hop);
      if (const auto down = link_between(context.fabric, link.to, link.from)) tree.down.push_back({*down, hop.share});
    }
    for (const LinkShare& hop : path) sends_on[context.fabric.link(hop.link).from.index()] = true;
  }
  return tree;
}

void add_in_network(UsageSum& sum, const GroupLayout& layout, const CollectiveContext& context) {
  const std::size_t channels = layout.ranks_per_node_min();
  const double wire = 1.0 / static_cast<double>(channels);
  const double goodput = context.transport.network.efficiency;
  for (std::size_t c = 0; c < channels; ++c) {
    const AggregationTree tree = aggregation_tree(layout, c, context);
    for (const LinkShare& hop : tree.up) sum.add(hop.link, wire * hop.share, goodput);
    for (const LinkShare& hop : tree.down) sum.add(hop.link, wire * hop.share, goodput);
  }
}

InNetworkSends::InNetworkSends(SendGraph& graph, const GroupLayout& layout, const CollectiveContext& context)
    : graph_(graph) {
  const double goodput = context.transport.network.efficiency;
  for (std::size_t c = 0; c < layout.ranks_per_node_min(); ++c) {
    AggregationTree tree = aggregation_tree(layout, c, context);
    ChunkSend send{.from = layout.nodes[1].gpus[c],
                   .via = layout.nodes[1].gpus[c],
                   .to = layout.nodes[0].gpus[c],
                   .in_node_goodput = goodput,
                   .between_goodput = goodput,
                   .latency = context.transport.network.tree_step};
    Channel channel{send, send};
    channel.up.over = graph.add_way(std::move(tree.up));
    channel.down.over = graph.add_way(std::move(tree.down));
    channels_.push_back(channel);
  }
}

std::uint32_t InNetworkSends::add_piece(std::size_t channel, double wire, std::span<const std::uint32_t> after) {
  auto& [up, down] = channels_[channel];
  up.wire = down.wire = wire;
  const std::uint32_t whole = graph_.add(up, after);
  const std::uint32_t everywhere = graph_.add(down, {&whole, 1});
  up.behind = whole;
  down.behind = everywhere;
  return everywhere;
}

Duration in_network_latency(const Transport& transport) {
  return transport.network.tree_step + transport.network.tree_step;
}

}  // namespace foretrain
