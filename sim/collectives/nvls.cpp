// NVLS: an all-reduce of one node, reduced and copied inside the NVSwitch.
#include "sim/collectives/nvls.h"

#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

void add_nvls(UsageSum& sum, const GroupLayout& layout, double wire, double goodput) {
  // A round of neighbours crosses each GPU's link to and from the switch once: the links that NVLS loads.
  for (const GroupLayout::Node& node : layout.nodes) {
    for (std::size_t i = 0; i < node.gpus.size(); ++i) {
      sum.route(node.gpus[i], node.gpus[(i + 1) % node.gpus.size()], 0, wire, goodput, goodput);
    }
  }
}

void send_nvls(SendGraph& graph, const std::vector<GpuId>& gpus, double wire, double goodput,
               std::span<const std::uint32_t> after, std::vector<std::uint32_t>& last) {
  const bool first = last.empty();
  last.resize(gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    ChunkSend send{.from = gpus[i],
                   .via = gpus[i],
                   .to = gpus[(i + 1) % gpus.size()],
                   .wire = wire,
                   .in_node_goodput = goodput,
                   .between_goodput = goodput};
    if (!first) send.behind = last[i];
    last[i] = graph.add(send, after);
  }
}

namespace {

class Nvls final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::nvls; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    return op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes == 1 &&
           timing::has_nvls(shape, transport);
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes size, const GroupShape& shape,
                                 const Transport& transport) const override {
    return timing::launch(shape, transport) + timing::nvls_fill(size, shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    UsageSum sum(context);
    const GroupShape shape = shape_of(context.fabric, layout);
    add_nvls(sum, layout, timing::nvls_wire(shape), timing::nvls_goodput(shape, context.transport));
    return sum.take();
  }

  /// A piece is sent by all to be reduced, and when it is whole its owners send it to be copied.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = latency(op, protocol, size, shape, context.transport);
    const auto message = static_cast<double>(size.count());
    const std::uint32_t pieces = pieces_of(message, context.pieces);
    const double wire = message / pieces;
    const double copied = timing::nvls_wire(shape) - 1;
    const double goodput = timing::nvls_goodput(shape, context.transport);
    const std::vector<GpuId>& gpus = layout.nodes.front().gpus;
    std::vector<std::uint32_t> reduced, spread;
    for (std::uint32_t p = 0; p < pieces; ++p) {
      send_nvls(graph, gpus, wire, goodput, {}, reduced);
      send_nvls(graph, gpus, wire * copied, goodput, reduced, spread);
    }
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_nvls() { return std::make_unique<Nvls>(); }

}  // namespace foretrain
