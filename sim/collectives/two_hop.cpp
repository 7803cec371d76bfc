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

/// The same as sends, a piece of every pair's part at a time.
class TwoHopSends {
 public:
  TwoHopSends(SendGraph& graph, const GroupLayout& layout, const Transport& transport, double piece)
      : graph_(graph), layout_(layout), piece_(piece) {
    send_.in_node_goodput = transport.node.p2p_efficiency;
    send_.between_goodput = transport.network.efficiency;
    if (layout.nodes.size() <= 1) return;
    far_step_ = transport.network.ring_step;
    if (layout.ranks_per_node_max() > 1) near_step_ = transport.node.ring_step;
  }

  /// A GPU spreads a piece in its node when it has it from all other nodes.
  void add_piece() {
    std::size_t line = 0;
    for (const GroupLayout::Node& node : layout_.nodes) {
      const std::size_t g = node.gpus.size();
      std::vector<std::vector<std::uint32_t>> arrived(g);
      for (const GroupLayout::Node& source : layout_.nodes) {
        if (&source == &node) continue;
        for (std::size_t i = 0; i < source.gpus.size(); ++i) {
          const double wire = piece_ * static_cast<double>(g);
          arrived[i % g].push_back(send(line++, source.gpus[i], node.gpus[i % g], wire, far_step_, {}));
        }
      }
      for (std::size_t i = 0; i < g; ++i) {
        const double held = piece_ * static_cast<double>(1 + arrived[i].size());
        for (std::size_t j = 0; j < g; ++j) {
          if (i != j) static_cast<void>(send(line++, node.gpus[i], node.gpus[j], held, near_step_, arrived[i]));
        }
      }
    }
  }

 private:
  std::uint32_t send(std::size_t line, GpuId from, GpuId to, double wire, Duration latency,
                     std::span<const std::uint32_t> after) {
    if (line == last_.size()) last_.emplace_back();
    send_.from = send_.via = from;
    send_.to = to;
    send_.behind = last_[line];
    send_.wire = wire;
    send_.latency = latency;
    last_[line] = graph_.add(send_, after);
    return *last_[line];
  }

  SendGraph& graph_;
  const GroupLayout& layout_;
  double piece_;
  ChunkSend send_;
  Duration far_step_, near_step_;
  std::vector<std::optional<std::uint32_t>> last_;  ///< by line
};

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

  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const double part = static_cast<double>(size.count()) / static_cast<double>(layout.ranks());
    const bool across = layout.nodes.size() > 1;
    const double line = part * static_cast<double>(layout.ranks_per_node_max());
    const std::uint32_t pieces = across ? pieces_of(line, context.pieces) : 1;
    TwoHopSends call(graph, layout, context.transport, part / pieces);
    for (std::uint32_t p = 0; p < pieces; ++p) call.add_piece();
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_two_hop() { return std::make_unique<TwoHop>(); }

}  // namespace foretrain
