// Two-hop all-to-all: what a GPU sends to another node goes to the GPU of its own index there, over one rail, and from
// there over NVLink. The network sees g times fewer and larger messages, none of which changes rail; NVLink carries
// (g-1)/g of the message instead of (g-1)/n. On the way back the same lines run the other way: a node adds up what
// belongs together before it goes over the rail.
//
// Source: DeepEP's normal mode (github.com/deepseek-ai/DeepEP). It sends a token that several experts of a node want
// only once to that node, and from there once to each rank that holds some of them: `Exchange::copies_per_node`,
// `copies_per_rank`. A plain all-to-all has nothing in common; there every pair has its own 1/n.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// What of a call concerns one node: lines between nodes and their relays inside, in even parts of the message.
class Relays {
 public:
  Relays(Collective op, const GroupLayout& layout, const GroupLayout::Node& node, const Exchange& asked)
      : node_(node), back_(op == Collective::all_to_allv_back) {
    const Exchange& exchange = op == Collective::all_to_all ? even_exchange : asked;
    double demand = 0;
    for (const std::size_t member : node.positions) demand += demand_.emplace_back(exchange.demand_of(member));
    far_ = demand / as_factor(exchange.copies_per_node);
    const double own = 1 / as_factor(exchange.copies_per_rank);
    held_.assign(node.gpus.size(), own);
    for (const GroupLayout::Node& source : layout.nodes) {
      if (&source == &node) continue;
      for (std::size_t i = 0; i < source.gpus.size(); ++i) held_[relay(i)] += own;
    }
  }

  [[nodiscard]] bool back() const { return back_; }
  [[nodiscard]] std::size_t relay(std::size_t source_index) const { return source_index % node_.gpus.size(); }
  /// Between a GPU of another node and its relay here.
  [[nodiscard]] double far() const { return far_; }
  /// Between a relay, which holds something of every GPU whose relay it is and of itself, and another GPU of the node.
  [[nodiscard]] double near(std::size_t relay, std::size_t other) const { return held_[relay] * demand_[other]; }

 private:
  const GroupLayout::Node& node_;
  bool back_;
  std::vector<double> demand_;  ///< by GPU of the node
  std::vector<double> held_;    ///< by GPU of the node, as a relay: what it has for each of them
  double far_ = 0;
};

/// The same as sends, a piece of every pair's part at a time.
class TwoHopSends {
 public:
  TwoHopSends(SendGraph& graph, Collective op, const GroupLayout& layout, const CollectiveContext& context,
              double piece)
      : graph_(graph), layout_(layout), piece_(piece) {
    const Transport& transport = context.transport;
    send_.in_node_goodput = transport.node.p2p_efficiency;
    send_.between_goodput = transport.network.efficiency;
    for (const GroupLayout::Node& node : layout.nodes) relays_.emplace_back(op, layout, node, context.exchange);
    if (layout.nodes.size() <= 1) return;
    far_step_ = transport.network.ring_step;
    if (layout.ranks_per_node_max() > 1) near_step_ = transport.node.ring_step;
  }

  void add_piece() {
    line_ = 0;
    for (std::size_t n = 0; n < layout_.nodes.size(); ++n) {
      if (relays_[n].back()) {
        const Arrivals arrived = spread(layout_.nodes[n], relays_[n], {});
        cross(layout_.nodes[n], relays_[n], arrived);
      } else {
        const Arrivals arrived = cross(layout_.nodes[n], relays_[n], {});
        spread(layout_.nodes[n], relays_[n], arrived);
      }
    }
  }

 private:
  using Arrivals = std::vector<std::vector<std::uint32_t>>;  ///< by GPU of a node: sends that end, or wait, at it

  /// Between the other nodes and the relays of this one; returns what arrives at each of these.
  Arrivals cross(const GroupLayout::Node& node, const Relays& relays, const Arrivals& before) {
    Arrivals arrived(node.gpus.size());
    for (const GroupLayout::Node& source : layout_.nodes) {
      if (&source == &node) continue;
      for (std::size_t i = 0; i < source.gpus.size(); ++i) {
        const std::size_t r = relays.relay(i);
        const Ends ends{source.gpus[i], node.gpus[r]};
        arrived[r].push_back(send(relays.back() ? ends.turned() : ends, relays.far(), far_step_, before, r));
      }
    }
    return arrived;
  }

  /// Between the relays and the GPUs of the node. A relay spreads a piece when it has it from all other nodes.
  Arrivals spread(const GroupLayout::Node& node, const Relays& relays, const Arrivals& before) {
    Arrivals arrived(node.gpus.size());
    for (std::size_t i = 0; i < node.gpus.size(); ++i) {
      for (std::size_t j = 0; j < node.gpus.size(); ++j) {
        if (i == j) continue;
        const Ends ends{node.gpus[i], node.gpus[j]};
        arrived[i].push_back(send(relays.back() ? ends.turned() : ends, relays.near(i, j), near_step_, before, i));
      }
    }
    return arrived;
  }

  struct Ends {
    GpuId from, to;
    [[nodiscard]] Ends turned() const { return {to, from}; }
  };
  std::uint32_t send(Ends ends, double parts, Duration latency, const Arrivals& before, std::size_t relay) {
    if (line_ == last_.size()) last_.emplace_back();
    std::optional<std::uint32_t>& last = last_[line_++];
    send_.from = send_.via = ends.from;
    send_.to = ends.to;
    send_.behind = last;
    send_.wire = piece_ * parts;
    send_.latency = latency;
    last = before.empty() ? graph_.add(send_) : graph_.add(send_, before[relay]);
    return *last;
  }

  SendGraph& graph_;
  const GroupLayout& layout_;
  std::vector<Relays> relays_;  ///< by node
  double piece_;
  ChunkSend send_;
  Duration far_step_, near_step_;
  std::size_t line_ = 0;
  std::vector<std::optional<std::uint32_t>> last_;  ///< by line
};

class TwoHop final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::two_hop; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape&, const Transport&) const override {
    return is_all_to_all(op) && protocol == Protocol::simple;
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    if (shape.ranks <= 1) return Duration{};
    const Duration launch = timing::launch(shape, transport);
    if (shape.nodes <= 1) return launch;
    return launch + transport.network.ring_step + (shape.per_node_max > 1 ? transport.node.ring_step : Duration{});
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    const double part = 1.0 / static_cast<double>(layout.ranks());
    const auto add = [&](GpuId from, GpuId to, double parts, bool back) {
      sum.route(back ? to : from, back ? from : to, 0, part * parts, context.transport.node.p2p_efficiency,
                context.transport.network.efficiency);
    };
    for (const GroupLayout::Node& node : layout.nodes) {
      const Relays relays(op, layout, node, context.exchange);
      for (const GroupLayout::Node& source : layout.nodes) {
        if (&source == &node) continue;
        for (std::size_t i = 0; i < source.gpus.size(); ++i) {
          add(source.gpus[i], node.gpus[relays.relay(i)], relays.far(), relays.back());
        }
      }
      for (std::size_t i = 0; i < node.gpus.size(); ++i) {
        for (std::size_t j = 0; j < node.gpus.size(); ++j) {
          add(node.gpus[i], node.gpus[j], relays.near(i, j), relays.back());
        }
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
    TwoHopSends call(graph, op, layout, context, part / pieces);
    for (std::uint32_t p = 0; p < pieces; ++p) call.add_piece();
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_two_hop() { return std::make_unique<TwoHop>(); }

}  // namespace foretrain
