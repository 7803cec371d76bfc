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

/// The same as sends, with the network between: to the heads, up and down the trees, back.
class CollNetSends {
 public:
  CollNetSends(SendGraph& graph, const GroupLayout& layout, const CollectiveContext& context)
      : graph_(graph), layout_(layout), network_(graph, layout, context) {
    send_.in_node_goodput = send_.between_goodput = context.transport.node.p2p_efficiency;
    send_.latency = context.transport.node.ring_step;
  }

  /// `wire`: bytes in channel c.
  void add_piece(std::size_t channel, double wire) {
    send_.wire = wire;
    send_.flow = static_cast<std::uint32_t>(channel);
    std::vector<std::uint32_t> at_heads;
    hop(channel, true, {}, at_heads);
    const std::uint32_t reduced = network_.add_piece(channel, wire, at_heads);
    std::vector<std::uint32_t> back;
    hop(channel, false, {&reduced, 1}, back);
  }
  void start_piece() { line_ = 0; }

 private:
  /// All members of all nodes to or from their node's head.
  void hop(std::size_t channel, bool to_head, std::span<const std::uint32_t> after, std::vector<std::uint32_t>& sent) {
    for (const GroupLayout::Node& node : layout_.nodes) {
      const GpuId head = node.gpus[channel];
      for (const GpuId gpu : node.gpus) {
        if (gpu == head) continue;
        if (line_ == last_.size()) last_.emplace_back();
        send_.from = send_.via = to_head ? gpu : head;
        send_.to = to_head ? head : gpu;
        send_.behind = last_[line_];
        last_[line_] = graph_.add(send_, after);
        sent.push_back(*last_[line_++]);
      }
    }
  }

  SendGraph& graph_;
  const GroupLayout& layout_;
  InNetworkSends network_;
  ChunkSend send_;
  std::size_t line_ = 0;
  std::vector<std::optional<std::uint32_t>> last_;  ///< by line
};

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

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.nodes.size() <= 1) return {};
    UsageSum sum(context);
    add_heads(sum, layout, context.transport.node.p2p_efficiency);
    add_in_network(sum, layout, context);
    return sum.take();
  }

  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.nodes.size() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const std::size_t channels = layout.ranks_per_node_min();
    const double line = static_cast<double>(size.count()) / static_cast<double>(channels);
    const std::uint32_t pieces = pieces_of(line, context.pieces);
    CollNetSends call(graph, layout, context);
    for (std::uint32_t p = 0; p < pieces; ++p) {
      call.start_piece();
      for (std::size_t c = 0; c < channels; ++c) call.add_piece(c, line / pieces);
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_collnet() { return std::make_unique<CollNet>(); }

}  // namespace foretrain
