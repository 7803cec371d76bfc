// Ring: every rank sends to the next one. An all-reduce passes every byte round twice, 2(n-1)/n of the message over
// each edge; all-gather and reduce-scatter once; broadcast and reduce are a chain from, or to, the root (member 0).
//
// Inside a node there are as many rings as its links take (layout_rings.h). Over several nodes there are C channels
// with 1/C of the message each, C = smallest number of members in a node. Channel c enters a node at its c-th member,
// passes all others, and leaves through the c-th member's NIC again, which the last of them reaches over NVLink: so
// channels stay on their rail and every NIC carries the same.
#include <cmath>
#include <limits>

#include "sim/collectives/algorithms.h"
#include "sim/collectives/layout_rings.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

bool is_rooted(Collective op) { return op == Collective::broadcast || op == Collective::reduce; }

/// Part of a link's rate that rings reach, inside a node and between nodes.
struct Goodput {
  double in_node = 1;
  double between = 1;
};

/// Every edge of the closed rings carries its part of `wire`.
void add_closed_rings(UsageSum& sum, const GroupLayout& layout, const LayoutRings& rings, double wire,
                      const Goodput& goodput) {
  const bool across = layout.nodes.size() > 1;
  const std::size_t channels = rings.channels();
  const double part = wire / static_cast<double>(channels);
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    // Inside the node all channels use the same rings, each from another member on: added up at once.
    const std::vector<GpuId>& gpus = layout.nodes[node].gpus;
    for (const RingArc& arc : rings.arcs(node)) {
      sum.route(gpus[arc.from], gpus[arc.to], 0, wire * rings.share(node), goodput.in_node, goodput.between);
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
  Chain(UsageSum& sum, const GroupLayout& layout, const LayoutRings& rings, bool inwards, const Goodput& goodput)
      : sum_(sum),
        layout_(layout),
        rings_(rings),
        inwards_(inwards),
        goodput_(goodput),
        channels_(rings.channels()),
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

  /// All channels start at the root and run along the rings.
  void add_first_node() const {
    const std::vector<GpuId>& gpus = layout_.nodes.front().gpus;
    for (const RingArc& arc : rings_.arcs(0)) {
      if (arc.to != 0) edge(gpus[arc.from], gpus[arc.to], 0, rings_.share(0));
    }
  }

  /// Channel c enters at member c and passes the others.
  void add_later_node(std::size_t node) const {
    const std::vector<GpuId>& gpus = layout_.nodes[node].gpus;
    for (const RingArc& arc : rings_.arcs(node)) {
      edge(gpus[arc.from], gpus[arc.to], 0, (arc.to < channels_ ? 1.0 - part_ : 1.0) * rings_.share(node));
    }
  }

  UsageSum& sum_;
  const GroupLayout& layout_;
  const LayoutRings& rings_;
  bool inwards_;
  Goodput goodput_;
  std::size_t channels_;
  double part_;
};

/// A lane's way through all members, from the first node's member of its channel on.
struct RingPlace {
  GpuId gpu;
  GpuId via;  ///< of its send to the next place
};
std::vector<RingPlace> ring_of(const GroupLayout& layout, const LayoutRings& rings, const RingLane& lane) {
  const bool across = layout.nodes.size() > 1;
  std::vector<RingPlace> ring;
  ring.reserve(layout.ranks());
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    for (const GpuId gpu : rings.members(node, lane.rings[node], lane.channel)) ring.push_back({gpu, gpu});
    if (across) ring.back().via = layout.nodes[node].gpus[lane.channel];
  }
  return ring;
}

/// Every rank has a chunk of each lane; each chunk goes round from neighbour to neighbour, one hop a step. A rank's
/// step begins when its last is over and the chunk is there; only then its latency runs, so that n steps cost n
/// latencies on the slowest edge too: the sum that was fitted.
void send_round(SendGraph& graph, const GroupLayout& layout, const LayoutRings& rings, std::size_t steps,
                double message, const Goodput& goodput, Duration step) {
  const std::size_t n = layout.ranks();
  const std::vector<RingLane> lanes = rings.lanes();
  graph.reserve(steps * lanes.size() * n, 2 * (steps - 1) * lanes.size() * n);
  std::vector<std::vector<RingPlace>> ways;
  ways.reserve(lanes.size());
  for (const RingLane& lane : lanes) ways.push_back(ring_of(layout, rings, lane));
  ChunkSend send{.in_node_goodput = goodput.in_node, .between_goodput = goodput.between, .latency = step};
  for (std::size_t k = 0; k < steps; ++k) {
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      send.wire = message * lanes[l].share / static_cast<double>(n);
      send.flow = static_cast<std::uint32_t>(lanes[l].channel);
      for (std::size_t i = 0; i < n; ++i) {
        send.from = ways[l][i].gpu;
        send.via = ways[l][i].via;
        send.to = ways[l][(i + 1) % n].gpu;
        if (k == 0) {
          graph.add(send);
          continue;
        }
        const std::size_t before = ((k - 1) * lanes.size() + l) * n;
        const std::uint32_t waits[] = {static_cast<std::uint32_t>(before + (i + n - 1) % n),
                                       static_cast<std::uint32_t>(before + i)};
        send.behind = waits[1];
        graph.add(send, waits);
      }
    }
  }
}

/// The edges of a lane's chain from the root, as class Chain adds them.
std::vector<TreeEdge> chain_of(const GroupLayout& layout, const LayoutRings& rings, const RingLane& lane,
                               const Goodput& goodput, const Transport& transport) {
  const std::size_t c = lane.channel;
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
    const GpuId head = layout.nodes[node].gpus[c];
    const std::vector<GpuId> gpus = rings.members(node, lane.rings[node], node == 0 ? 0 : c);
    if (node > 0) {
      edges.push_back(between);
      edges.back().parent = layout.nodes[node - 1].gpus[c];
      edges.back().child = head;
      edges.back().above = into_head;
      into_head = static_cast<std::uint32_t>(edges.size() - 1);
    }
    std::optional<std::uint32_t> above = into_head;
    for (std::size_t i = 1; i < gpus.size(); ++i) {
      edges.push_back(inside);
      edges.back().parent = gpus[i - 1];
      edges.back().child = gpus[i];
      edges.back().above = above;
      above = static_cast<std::uint32_t>(edges.size() - 1);
      if (node == 0 && gpus[i] == head) into_head = above;
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
    const LayoutRings rings(context.fabric, layout);
    if (is_rooted(op)) {
      Chain(sum, layout, rings, op == Collective::reduce, goodput).add();
    } else {
      add_closed_rings(sum, layout, rings, busbw_factor(op, layout.ranks()), goodput);
    }
    return sum.take();
  }

  /// Rings: n chunks a lane, all steps of equal latency. Broadcast and reduce: the chain, in pieces.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const Duration chain = latency(op, protocol, size, shape, context.transport) - graph.launch;
    const Goodput goodput = goodput_of(layout, context.transport);
    const auto message = static_cast<double>(size.count());
    const LayoutRings rings(context.fabric, layout);
    if (!is_rooted(op)) {
      const auto steps = static_cast<std::size_t>(timing::ring_steps(op, shape).all);
      send_round(graph, layout, rings, steps, message, goodput, context.transport.node.ring_step);
      graph.stretch_latencies(chain);
      return graph;
    }
    for (const RingLane& lane : rings.crossed_lanes()) {
      const double line = message * lane.share;
      const std::uint32_t pieces = pieces_of(line, context.pieces);
      TreePipeline way(graph, chain_of(layout, rings, lane, goodput, context.transport), line / pieces);
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
