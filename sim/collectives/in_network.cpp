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

/// The tree of one channel grows from the routes to its first member: a route is followed to the first vertex that an
/// earlier one has reached, for from there on the reduced copy goes. The result comes down the same cables.
class AggregationTree {
 public:
  AggregationTree(UsageSum& sum, const CollectiveContext& context)
      : sum_(sum), context_(context), reached_by_(context.fabric.vertex_count()) {}

  void add(const GroupLayout& layout, std::size_t channel, double wire) {
    ++tree_;
    const GpuId root = layout.nodes.front().gpus[channel];
    for (std::size_t node = 1; node < layout.nodes.size(); ++node) {
      path_.clear();
      context_.router.route(layout.nodes[node].gpus[channel], root, channel, path_);
      for (const LinkShare& hop : path_) {
        const Link& link = context_.fabric.link(hop.link);
        if (reached_by_[link.from.index()] != tree_) add_cable(hop.link, link, wire * hop.share);
      }
      for (const LinkShare& hop : path_) reached_by_[context_.fabric.link(hop.link).from.index()] = tree_;
    }
  }

 private:
  void add_cable(LinkId up, const Link& link, double wire) {
    const double goodput = context_.transport.network.efficiency;
    sum_.add(up, wire, goodput);
    if (const auto down = link_between(context_.fabric, link.to, link.from)) sum_.add(*down, wire, goodput);
  }

  UsageSum& sum_;
  const CollectiveContext& context_;
  std::vector<std::uint32_t> reached_by_;  ///< by vertex: the latest tree that it sends on in
  std::uint32_t tree_ = 0;
  std::vector<LinkShare> path_;
};

}  // namespace

void add_in_network(UsageSum& sum, const GroupLayout& layout, const CollectiveContext& context) {
  const std::size_t channels = layout.ranks_per_node_min();
  AggregationTree tree(sum, context);
  for (std::size_t c = 0; c < channels; ++c) tree.add(layout, c, 1.0 / static_cast<double>(channels));
}

Duration in_network_latency(const Transport& transport) {
  return transport.network.tree_step + transport.network.tree_step;
}

}  // namespace foretrain
