// Two-hop all-to-all: what a GPU sends to another node goes to the GPU of its own index there, over one rail, and from
// there over NVLink. The network sees g times fewer and larger messages, none of which changes rail; NVLink carries
// (g-1)/g of the message instead of (g-1)/n.
//
// Source: DeepEP's normal mode (github.com/deepseek-ai/DeepEP). It also sends a token that several experts of a node
// want only once to that node; here every pair has its own 1/n.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

class TwoHop final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::two_hop; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape&, const Transport&) const override {
    return op == Collective::all_to_all && protocol == Protocol::simple;
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    if (shape.ranks <= 1) return Duration{};
    const Duration launch = timing::launch(shape, transport);
    if (shape.nodes <= 1) return launch;
    return launch + transport.network.ring_step + (shape.per_node_max > 1 ? transport.node.ring_step : Duration{});
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                               const Transport&) const override {
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    const double in_node = context.transport.node.p2p_efficiency;
    const double between = context.transport.network.efficiency;
    const double part = 1.0 / static_cast<double>(layout.ranks());
    for (const GroupLayout::Node& node : layout.nodes) {
      const std::size_t g = node.gpus.size();
      std::vector<double> held(g, part);  // by GPU of this node: what it has for each GPU of the node
      for (const GroupLayout::Node& source : layout.nodes) {
        if (&source == &node) continue;
        for (std::size_t i = 0; i < source.gpus.size(); ++i) {
          sum.route(source.gpus[i], node.gpus[i % g], 0, part * static_cast<double>(g), in_node, between);
          held[i % g] += part;
        }
      }
      for (std::size_t i = 0; i < g; ++i) {
        for (std::size_t j = 0; j < g; ++j) sum.route(node.gpus[i], node.gpus[j], 0, held[i], in_node, between);
      }
    }
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_two_hop() { return std::make_unique<TwoHop>(); }

}  // namespace foretrain
