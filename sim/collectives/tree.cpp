// Tree: an all-reduce over several nodes as a double binary tree of nodes and a chain inside each node. The message
// is reduced up the chain and the tree, and comes down the same way.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/double_tree.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// Channel c's chain runs c, c+1, ... round the node, up and down. Added up, the edge from i to its follower is in all
/// channels but the one that starts at the follower.
void add_chains(UsageSum& sum, const GroupLayout& layout, double ring_goodput) {
  const std::size_t channels = layout.ranks_per_node_min();
  const double left_out = 1.0 / static_cast<double>(channels);
  for (const GroupLayout::Node& node : layout.nodes) {
    const std::size_t g = node.gpus.size();
    if (g <= 1) continue;
    // An inner member of a chain sends twice the message, and that is the bound, for all that members take turns at
    // being at an end: 2 / (0.92 ringbw) whatever g is.
    const double goodput = tree_ring_part * ring_goodput * static_cast<double>(g - 1) / static_cast<double>(g);
    for (std::size_t i = 0; i < g; ++i) {
      const std::size_t next = (i + 1) % g;
      const double wire = next < channels ? 1.0 - left_out : 1.0;
      sum.route(node.gpus[i], node.gpus[next], 0, wire, goodput, goodput);
      sum.route(node.gpus[next], node.gpus[i], 0, wire, goodput, goodput);
    }
  }
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
    const NodeTransport& node = context.transport.node;
    add_chains(sum, layout, node.ring_rate_across.value_or(node.ring_rate) / node.line);
    add_double_tree(sum, layout, context.transport.network.efficiency);
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_tree() { return std::make_unique<Tree>(); }

}  // namespace foretrain
