// Ring: every rank sends to the next one. An all-reduce passes every byte round twice, 2(n-1)/n of the message over
// each edge; all-gather and reduce-scatter once; broadcast and reduce are a chain from, or to, the root (member 0).
//
// Over several nodes there are C channels with 1/C of the message each, C = smallest number of members in a node.
// Channel c enters a node at its c-th member, passes all others, and leaves through the c-th member's NIC again, which
// the last of them reaches over NVLink: so channels stay on their rail and every NIC carries the same.
#include <cmath>
#include <limits>

#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

bool is_rooted(Collective op) { return op == Collective::broadcast || op == Collective::reduce; }

/// Part of a link's rate that rings reach, inside a node and between nodes.
struct Goodput {
  double in_node = 1;
  double between = 1;
};

/// Every edge of the closed ring carries `wire`.
void add_closed_ring(UsageSum& sum, const GroupLayout& layout, double wire, const Goodput& goodput) {
  const bool across = layout.nodes.size() > 1;
  const std::size_t channels = across ? layout.ranks_per_node_min() : 1;
  const double part = wire / static_cast<double>(channels);
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    // Inside the node all channels use the same cycle, each from another member on: added up at once.
    const std::vector<GpuId>& gpus = layout.nodes[node].gpus;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      sum.route(gpus[i], gpus[(i + 1) % gpus.size()], 0, wire, goodput.in_node, goodput.between);
    }
    if (!across) continue;
    const std::vector<GpuId>& next = layout.nodes[(node + 1) % layout.nodes.size()].gpus;
    for (std::size_t c = 0; c < channels; ++c) {
      sum.route(gpus[c], next[c], c, part, goodput.in_node, goodput.between);
    }
  }
}

/// The chain from the root outwards, or the same edges backwards for a reduce. The c-th member of a node, which has
/// channel c's part first (in the root's node: when the chain comes by), also hands it to the next node: n-1 edges.
class Chain {
 public:
  Chain(UsageSum& sum, const GroupLayout& layout, bool inwards, const Goodput& goodput)
      : sum_(sum),
        layout_(layout),
        inwards_(inwards),
        goodput_(goodput),
        channels_(layout.nodes.size() > 1 ? layout.ranks_per_node_min() : 1),
        part_(1.0 / static_cast<double>(channels_)) {}

  void add() const {
    add_first_node();
    for (std::size_t node = 1; node < layout_.nodes.size(); ++node) {
      const std::vector<GpuId>& from = layout_.nodes[node - 1].gpus;
      for (std::size_t c = 0; c < channels_; ++c) edge(from[c], layout_.nodes[node].gpus[c], c, part_);
      add_later_node(node);
    }
  }

 private:
  void edge(GpuId from, GpuId to, std::uint64_t flow, double wire) const {
    if (inwards_) std::swap(from, to);
    sum_.route(from, to, flow, wire, goodput_.in_node, goodput_.between);
  }

  /// All channels start at the root and run through the members in order.
  void add_first_node() const {
    const std::vector<GpuId>& gpus = layout_.nodes.front().gpus;
    for (std::size_t i = 0; i + 1 < gpus.size(); ++i) edge(gpus[i], gpus[i + 1], 0, 1.0);
  }

  /// Channel c enters at member c and passes the others.
  void add_later_node(std::size_t node) const {
    const std::vector<GpuId>& gpus = layout_.nodes[node].gpus;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::size_t next = (i + 1) % gpus.size();
      edge(gpus[i], gpus[next], 0, next < channels_ ? 1.0 - part_ : 1.0);
    }
  }

  UsageSum& sum_;
  const GroupLayout& layout_;
  bool inwards_;
  Goodput goodput_;
  std::size_t channels_;
  double part_;
};

/// Channel c's way through all members, from the first node's c-th on.
struct RingPlace {
  GpuId gpu;
  GpuId via;  ///< of its send to the next place
};
std::vector<RingPlace> ring_of(const GroupLayout& layout, std::size_t channel) {
  const bool across = layout.nodes.size() > 1;
  std::vector<RingPlace> ring;
  ring.reserve(layout.ranks());
  for (const GroupLayout::Node& node : layout.nodes) {
    for (std::size_t i = 0; i < node.gpus.size(); ++i) {
      const GpuId gpu = node.gpus[(channel + i) % node.gpus.size()];
      ring.push_back({gpu, gpu});
    }
    if (across) ring.back().via = node.gpus[channel];
  }
  return ring;
}

/// Every rank has a chunk of each channel; each chunk goes round from neighbour to neighbour, one hop a step. A rank's
/// step begins when its last is over and the chunk is there; only then its latency runs, so that n steps cost n
/// latencies on the slowest edge too: the sum that was fitted.
void send_round(SendGraph& graph, const GroupLayout& layout, std::size_t steps, double message, const Goodput& goodput,
                Duration step) {
  const std::size_t n = layout.ranks();
  const std::size_t channels = layout.nodes.size() > 1 ? layout.ranks_per_node_min() : 1;
  graph.reserve(steps * channels * n, 2 * (steps - 1) * channels * n);
  std::vector<std::vector<RingPlace>> rings;
  for (std::size_t c = 0; c < channels; ++c) rings.push_back(ring_of(layout, c));
  ChunkSend send{.wire = message / static_cast<double>(n * channels),
                 .in_node_goodput = goodput.in_node,
                 .between_goodput = goodput.between,
                 .latency = step};
  for (std::size_t k = 0; k < steps; ++k) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < n; ++i) {
        send.from = rings[c][i].gpu;
        send.via = rings[c][i].via;
        send.to = rings[c][(i + 1) % n].gpu;
        send.flow = static_cast<std::uint32_t>(c);
        if (k == 0) {
          graph.add(send);
          continue;
        }
        const std::size_t before = ((k - 1) * channels + c) * n;
        const std::uint32_t waits[] = {static_cast<std::uint32_t>(before + (i + n - 1) % n),
                                       static_cast<std::uint32_t>(before + i)};
        send.behind = waits[1];
        graph.add(send, waits);
      }
    }
  }
}

/// The edges of channel c's chain from the root, as class Chain adds them.
std::vector<TreeEdge> chain_of(const GroupLayout& layout, std::size_t c, const Goodput& goodput,
                               const Transport& transport) {
  std::vector<TreeEdge> edges;
  const TreeEdge between{.flow = static_cast<std::uint32_t>(c),
                         .in_node_goodput = goodput.in_node,
                         .between_goodput = goodput.between,
                         .latency = transport.network.ring_step};
  TreeEdge inside = between;
  inside.flow = 0;
  inside.latency = transport.node.ring_step;
  std::optional<std::uint32_t> into_head;  // the edge that leads to the node's c-th member
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    const std::vector<GpuId>& gpus = layout.nodes[node].gpus;
    const std::size_t first = node == 0 ? 0 : c;
    if (node > 0) {
      edges.push_back(between);
      edges.back().parent = layout.nodes[node - 1].gpus[c];
      edges.back().child = gpus[c];
      edges.back().above = into_head;
      into_head = static_cast<std::uint32_t>(edges.size() - 1);
    }
    std::optional<std::uint32_t> above = into_head;
    for (std::size_t i = 1; i < gpus.size(); ++i) {
      edges.push_back(inside);
      edges.back().parent = gpus[(first + i - 1) % gpus.size()];
      edges.back().child = gpus[(first + i) % gpus.size()];
      edges.back().above = above;
      above = static_cast<std::uint32_t>(edges.size() - 1);
      if (node == 0 && i == c) into_head = above;
    }
  }
  return edges;
}

class Ring final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::ring; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    if (is_point_to_point(op)) return false;
    if (shape.nodes <= 1) return true;
    // LL128's bandwidth between nodes is known as a part of the NICs' only.
    if (protocol == Protocol::ll128 && shape.nic == Bandwidth{}) return false;
    const NetworkTransport& network = transport.network;
    return op != Collective::all_reduce || network.ring_all_reduce_allowed || !network.tree_allowed;
  }

  [[nodiscard]] Duration latency(Collective op, Protocol protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    if (shape.ranks <= 1) return Duration{};
    const double tree_depth = std::log2(static_cast<double>(shape.nodes));
    const timing::RingSteps steps = timing::ring_steps(op, shape);
    const double between = is_rooted(op) ? tree_depth : steps.between;
    if (protocol == Protocol::ll) return timing::low_latency(op, protocol, between, shape, transport);
    const double ring_step = static_cast<double>(transport.node.ring_step.ps());
    const double launch = static_cast<double>(timing::launch(shape, transport).ps());
    if (protocol == Protocol::ll128) {
      const bool large_node = op == Collective::all_reduce && shape.per_node_max > 8 && shape.nodes > 1;
      const Duration base = timing::low_latency(op, protocol, between, shape, transport);
      if (!large_node) return base;
      return base + timing::rounded((steps.all - steps.between) * static_cast<double>(transport.node.ll128_step.ps()));
    }
    const double network_step = static_cast<double>(transport.network.ring_step.ps());
    if (shape.nodes <= 1 && !is_rooted(op)) {
      return timing::rounded(launch + 2 * static_cast<double>(shape.ranks - 1) * ring_step);
    }
    return timing::rounded(launch + (steps.all - steps.between) * ring_step + between * network_step);
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective op, Protocol protocol, const GroupShape& shape,
                                               const Transport& transport) const override {
    return timing::protocol_cap(op, protocol, shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    const Goodput goodput = goodput_of(layout, context.transport);
    if (is_rooted(op)) {
      Chain(sum, layout, op == Collective::reduce, goodput).add();
    } else {
      add_closed_ring(sum, layout, busbw_factor(op, layout.ranks()), goodput);
    }
    return sum.take();
  }

  /// Rings: n chunks a channel, all steps of equal latency. Broadcast and reduce: the chain, in pieces.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const Duration chain = latency(op, protocol, size, shape, context.transport) - graph.launch;
    const Goodput goodput = goodput_of(layout, context.transport);
    const auto message = static_cast<double>(size.count());
    if (!is_rooted(op)) {
      const auto steps = static_cast<std::size_t>(timing::ring_steps(op, shape).all);
      send_round(graph, layout, steps, message, goodput, context.transport.node.ring_step);
      graph.stretch_latencies(chain);
      return graph;
    }
    const std::size_t channels = layout.nodes.size() > 1 ? layout.ranks_per_node_min() : 1;
    const std::uint32_t pieces = pieces_of(message / static_cast<double>(channels), context.pieces);
    for (std::size_t c = 0; c < channels; ++c) {
      TreePipeline way(graph, chain_of(layout, c, goodput, context.transport),
                       message / static_cast<double>(channels * pieces));
      for (std::uint32_t p = 0; p < pieces; ++p) {
        if (op == Collective::reduce) {
          way.reduce();
        } else {
          way.broadcast({});
        }
      }
    }
    graph.stretch_latencies(chain);
    return graph;
  }

 private:
  [[nodiscard]] static Goodput goodput_of(const GroupLayout& layout, const Transport& transport) {
    const bool across = layout.nodes.size() > 1;
    const Bandwidth ring_rate =
        across ? transport.node.ring_rate_across.value_or(transport.node.ring_rate) : transport.node.ring_rate;
    return {ring_rate / transport.node.line, transport.network.efficiency};
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_ring() { return std::make_unique<Ring>(); }

}  // namespace foretrain
