// NVLS with SHARP: an all-reduce over several nodes, reduced inside each in the NVSwitch and between them in the
// switches of the network. NCCL calls it NVLS; it needs CollNet over several nodes.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/in_network.h"
#include "sim/collectives/nvls.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

class NvlsSharp final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::nvls_sharp; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    return op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes > 1 &&
           transport.network.in_network_reduction && timing::has_nvls(shape, transport);
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes size, const GroupShape& shape,
                                 const Transport& transport) const override {
    return timing::launch(shape, transport) + in_network_latency(transport) + timing::nvls_fill(size, shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.nodes.size() <= 1) return {};
    UsageSum sum(context);
    const GroupShape shape = shape_of(context.fabric, layout);
    add_nvls(sum, layout, timing::nvls_wire(shape), timing::nvls_goodput(shape, context.transport));
    add_in_network(sum, layout, context);
    return sum.take();
  }

  /// A piece is reduced in every node, then up and down the channels' trees, and copied in every node.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.nodes.size() <= 1) return graph;
    const Transport& transport = context.transport;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, transport) + timing::nvls_fill(size, shape, transport);
    const std::size_t channels = layout.ranks_per_node_min();
    const double line = static_cast<double>(size.count()) / static_cast<double>(channels);
    const std::uint32_t pieces = pieces_of(line, context.pieces);
    const double piece = static_cast<double>(size.count()) / pieces;
    const double copied = timing::nvls_wire(shape) - 1;
    const double goodput = timing::nvls_goodput(shape, transport);
    InNetworkSends network(graph, layout, context);
    std::vector<std::vector<std::uint32_t>> reduced(layout.nodes.size()), spread(layout.nodes.size());
    for (std::uint32_t p = 0; p < pieces; ++p) {
      std::vector<std::uint32_t> ready, there;
      for (std::size_t n = 0; n < layout.nodes.size(); ++n) {
        send_nvls(graph, layout.nodes[n].gpus, piece, goodput, {}, reduced[n]);
        ready.insert(ready.end(), reduced[n].begin(), reduced[n].end());
      }
      for (std::size_t c = 0; c < channels; ++c) there.push_back(network.add_piece(c, line / pieces, ready));
      for (std::size_t n = 0; n < layout.nodes.size(); ++n)
        send_nvls(graph, layout.nodes[n].gpus, piece * copied, goodput, there, spread[n]);
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_nvls_sharp() { return std::make_unique<NvlsSharp>(); }

}  // namespace foretrain
