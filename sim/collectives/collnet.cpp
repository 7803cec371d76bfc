// CollNet: an all-reduce over several nodes that the network's switches reduce (SHARP), as NCCL's CollNetDirect. In the
// node every GPU sends each channel's head its part of the message to be reduced, and gets the result back from there.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/in_network.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// Member c < C of a node is the head of channel c.
void add_heads(UsageSum& sum, const GroupLayout& layout, double goodput) {
  const std::size_t channels = layout.ranks_per_node_min();
  const double part = 1.0 / static_cast<double>(channels);
  for (const GroupLayout::Node& node : layout.nodes) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (const GpuId gpu : node.gpus) {
        sum.route(gpu, node.gpus[c], c, part, goodput, goodput);
        sum.route(node.gpus[c], gpu, c, part, goodput, goodput);
      }
    }
  }
}

class CollNet final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::collnet; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    return op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes > 1 &&
           transport.network.in_network_reduction;
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    const double in_node_steps = shape.per_node_max > 1 ? 2 : 0;  // to the heads and back
    return timing::launch(shape, transport) + in_network_latency(transport) +
           timing::rounded(in_node_steps * static_cast<double>(transport.node.ring_step.ps()));
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                               const Transport&) const override {
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.nodes.size() <= 1) return {};
    UsageSum sum(context);
    add_heads(sum, layout, context.transport.node.p2p_efficiency);
    add_in_network(sum, layout, context);
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_collnet() { return std::make_unique<CollNet>(); }

}  // namespace foretrain
