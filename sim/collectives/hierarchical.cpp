// Hierarchical: rings inside every node, and between them a ring a channel over the c-th members, so two short rings
// instead of a long one. An all-gather hands the nodes' blocks round each channel first and spreads them inside the
// node then; a reduce-scatter is the same backwards; an all-reduce is both, with 1/(N C) of the message as block: a GPU
// sends 2(g-1)/g of the message over NVLink and 2(N-1)/N of 1/g by its NIC.
//
// C = smallest number of members in a node. In larger nodes the others hand their block to a channel's member first.
//
// Source: the two-dimensional ring of Ying et al., "Image classification at supercomputer scale", 2018 (arXiv
// 1811.06992), with a node as one dimension.
#include <algorithm>

#include "sim/collectives/algorithms.h"
#include "sim/collectives/layout_rings.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

class TwoLevels {
 public:
  TwoLevels(UsageSum& sum, const GroupLayout& layout, const LayoutRings& rings, const Transport& transport,
            bool backwards)
      : sum_(sum),
        layout_(layout),
        rings_(rings),
        channels_(std::max<std::size_t>(layout.ranks_per_node_min(), 1)),
        backwards_(backwards) {
    const NodeTransport& node = transport.node;
    const bool across = layout.nodes.size() > 1;
    in_node_ = (across ? node.ring_rate_across.value_or(node.ring_rate) : node.ring_rate) / node.line;
    between_ = transport.network.efficiency;
  }

  /// Every channel of every node starts with the same block.
  void gather_evenly() {
    const std::size_t blocks = channels_ * layout_.nodes.size();
    blocks_.assign(blocks, 1.0 / static_cast<double>(blocks));
    spread();
  }

  /// Every member starts with its own block.
  void gather_members() {
    const double block = 1.0 / static_cast<double>(layout_.ranks());
    blocks_.assign(channels_ * layout_.nodes.size(), 0);
    for (std::size_t node = 0; node < layout_.nodes.size(); ++node) {
      const std::vector<GpuId>& gpus = layout_.nodes[node].gpus;
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        blocks_[node * channels_ + i % channels_] += block;
        if (i >= channels_) send(gpus[i], gpus[i % channels_], 0, block);
      }
    }
    spread();
  }

 private:
  void send(GpuId from, GpuId to, std::size_t channel, double wire) const {
    sum_.route(backwards_ ? to : from, backwards_ ? from : to, channel, wire, in_node_, between_);
  }

  void spread() const {
    const std::size_t nodes = layout_.nodes.size();
    std::vector<double> whole(channels_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) whole[i % channels_] += blocks_[i];
    double all = 0;
    for (const double part : whole) all += part;
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::vector<GpuId>& gpus = layout_.nodes[node].gpus;
      const std::size_t after = (node + 1) % nodes;
      // Over an edge of a ring goes all but what its end began with.
      for (std::size_t c = 0; c < channels_ && nodes > 1; ++c) {
        send(gpus[c], layout_.nodes[after].gpus[c], c, whole[c] - blocks_[after * channels_ + c]);
      }
      for (const RingArc& arc : rings_.arcs(node)) {
        const double wire = arc.to < channels_ ? all - whole[arc.to] : all;
        send(gpus[arc.from], gpus[arc.to], 0, wire * rings_.share(node));
      }
    }
  }

  UsageSum& sum_;
  const GroupLayout& layout_;
  const LayoutRings& rings_;
  std::size_t channels_;
  bool backwards_;
  double in_node_ = 1;
  double between_ = 1;
  std::vector<double> blocks_;  ///< by node and channel, parts of the message
};

/// A gather's sends. Blocks have to be there before they go on, which a join (a send of nothing) stands for; each line
/// sends piece after piece. Only the first piece has latencies: those of later ones pass while it is under way.
class TwoLevelSends {
 public:
  TwoLevelSends(const GroupLayout& layout, const LayoutRings& rings, const Transport& transport, bool by_members)
      : layout_(layout),
        rings_(rings),
        channels_(std::max<std::size_t>(layout.ranks_per_node_min(), 1)),
        by_members_(by_members),
        near_step_(transport.node.ring_step),
        far_step_(transport.network.ring_step),
        blocks_(channels_ * layout.nodes.size()),
        whole_(channels_) {
    const NodeTransport& node = transport.node;
    const bool across = layout.nodes.size() > 1;
    send_.in_node_goodput = (across ? node.ring_rate_across.value_or(node.ring_rate) : node.ring_rate) / node.line;
    send_.between_goodput = transport.network.efficiency;
    for (std::size_t n = 0; n < layout.nodes.size(); ++n) {
      if (!by_members) {
        for (std::size_t c = 0; c < channels_; ++c)
          blocks_[n * channels_ + c] = 1.0 / static_cast<double>(blocks_.size());
        continue;
      }
      for (std::size_t i = 0; i < layout.nodes[n].gpus.size(); ++i)
        blocks_[n * channels_ + i % channels_] += 1.0 / static_cast<double>(layout.ranks());
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) whole_[b % channels_] += blocks_[b];
  }

  /// `piece`: bytes of the message. Later ones wait for their turn only, not for latencies.
  void add_piece(double piece, bool has_latencies) {
    piece_ = piece;
    has_latencies_ = has_latencies;
    line_ = 0;
    const std::vector<std::uint32_t> own = join_blocks();
    const std::vector<std::uint32_t> there = go_between(own);
    for (std::size_t n = 0; n < layout_.nodes.size(); ++n) go_inside(n, own, there);
  }
  [[nodiscard]] const SendGraph& graph() const { return graph_; }

 private:
  std::uint32_t send(GpuId from, GpuId to, std::size_t channel, double part, Duration latency,
                     std::span<const std::uint32_t> after) {
    if (line_ >= last_.size()) last_.resize(line_ + 1);
    send_.from = send_.via = from;
    send_.to = to;
    send_.flow = static_cast<std::uint32_t>(channel);
    send_.behind = last_[line_];
    send_.wire = piece_ * part;
    send_.latency = has_latencies_ ? latency : Duration{};
    last_[line_] = graph_.add(send_, after);
    return *last_[line_++];
  }

  /// By node and channel: the node's block is there.
  std::vector<std::uint32_t> join_blocks() {
    std::vector<std::uint32_t> own;
    for (const GroupLayout::Node& node : layout_.nodes) {
      std::vector<std::vector<std::uint32_t>> handed(channels_);
      for (std::size_t i = channels_; i < node.gpus.size() && by_members_; ++i) {
        const std::size_t c = i % channels_;
        handed[c].push_back(send(node.gpus[i], node.gpus[c], 0, 1.0 / static_cast<double>(layout_.ranks()), {}, {}));
      }
      for (std::size_t c = 0; c < channels_; ++c)
        own.push_back(graph_.add({.from = node.gpus[c], .via = node.gpus[c], .to = node.gpus[c]}, handed[c]));
    }
    return own;
  }

  /// Every channel's ring of nodes. By node and channel: the last block has come.
  std::vector<std::uint32_t> go_between(const std::vector<std::uint32_t>& own) {
    const std::size_t nodes = layout_.nodes.size();
    std::vector<std::uint32_t> there = own;
    const std::size_t first_line = line_;
    for (std::size_t step = 0; step + 1 < nodes; ++step) {
      line_ = first_line;  // a line an edge: one step after another
      std::vector<std::uint32_t> next(there.size());
      for (std::size_t n = 0; n < nodes; ++n) {
        const std::size_t to = (n + 1) % nodes, origin = (n + nodes - step) % nodes;
        for (std::size_t c = 0; c < channels_; ++c) {
          next[to * channels_ + c] = send(layout_.nodes[n].gpus[c], layout_.nodes[to].gpus[c], c,
                                          blocks_[origin * channels_ + c], far_step_, {&there[n * channels_ + c], 1});
        }
      }
      there = std::move(next);
    }
    return there;
  }

  /// The rings in a node: channel c's whole starts at its c-th member.
  void go_inside(std::size_t n, const std::vector<std::uint32_t>& own, const std::vector<std::uint32_t>& there) {
    for (std::size_t r = 0; r < rings_.rings(n).size(); ++r) go_round(n, r, own, there);
  }

  void go_round(std::size_t n, std::size_t r, const std::vector<std::uint32_t>& own,
                const std::vector<std::uint32_t>& there) {
    const NodeRing& ring = rings_.rings(n)[r];
    const std::size_t g = ring.size();
    const std::size_t first_line = line_;
    std::vector<std::size_t> place(g);  // by member
    for (std::size_t i = 0; i < g; ++i) place[ring[i]] = i;
    std::vector<std::uint32_t> got(channels_);  // by channel: its last send
    for (std::size_t step = 0; step + 1 < g; ++step) {
      for (std::size_t c = 0; c < channels_; ++c) {
        const std::size_t at = (place[c] + step) % g;
        line_ = first_line + at;
        const std::size_t b = n * channels_ + c;
        const std::uint32_t start[] = {there[b], own[b]};
        const std::span<const std::uint32_t> after =
            step > 0 ? std::span<const std::uint32_t>(&got[c], 1) : std::span<const std::uint32_t>(start);
        const std::vector<GpuId>& gpus = layout_.nodes[n].gpus;
        got[c] = send(gpus[ring[at]], gpus[ring[(at + 1) % g]], 0, whole_[c] * rings_.share(n), near_step_, after);
      }
    }
    line_ = first_line + (g > 1 ? g : 0);
  }

  const GroupLayout& layout_;
  const LayoutRings& rings_;
  std::size_t channels_;
  bool by_members_;
  Duration near_step_, far_step_;
  std::vector<double> blocks_;  ///< by node and channel, parts of the message
  std::vector<double> whole_;   ///< by channel
  double piece_ = 0;
  bool has_latencies_ = true;
  SendGraph graph_;
  ChunkSend send_;
  std::size_t line_ = 0;
  std::vector<std::optional<std::uint32_t>> last_;  ///< by line
};

/// Adds `gather` backwards: last send first, every send the other way, waiting for what waited for it.
void add_backwards(SendGraph& graph, const SendGraph& gather) {
  const std::size_t n = gather.size();
  std::vector<std::vector<std::uint32_t>> waits(n);
  std::vector<std::optional<std::uint32_t>> behind(n);
  const auto mirrored = [n](std::size_t i) { return static_cast<std::uint32_t>(n - 1 - i); };
  for (std::size_t i = 0; i < n; ++i) {
    for (const std::uint32_t a : gather.after(i)) waits[a].push_back(mirrored(i));
    if (gather[i].behind) behind[*gather[i].behind] = mirrored(i);
  }
  for (std::size_t i = n; i-- > 0;) {
    ChunkSend send = gather[i];
    std::swap(send.from, send.to);
    send.via = send.from;
    send.behind = behind[i];
    graph.add(send, waits[i]);
  }
}

/// Adds `gather` behind what is already there: as many sends backwards, of as many pieces. A block of it is there when
/// it has been reduced.
void add_after_backwards(SendGraph& graph, const SendGraph& gather, std::size_t pieces) {
  const auto n = static_cast<std::uint32_t>(gather.size());
  const std::size_t per_piece = gather.size() / pieces;
  std::vector<std::uint32_t> waits;
  for (std::size_t i = 0; i < gather.size(); ++i) {
    ChunkSend send = gather[i];
    if (send.behind) *send.behind += n;
    waits.assign(gather.after(i).begin(), gather.after(i).end());
    for (std::uint32_t& wait : waits) wait += n;
    // The first piece backwards is the last forwards, and mirrored within itself.
    if (send.from == send.to) {
      const std::size_t piece = i / per_piece;
      waits.push_back(static_cast<std::uint32_t>(piece * per_piece + per_piece - 1 - i % per_piece));
    }
    graph.add(send, waits);
  }
}

class Hierarchical final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::hierarchical; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport&) const override {
    const bool has_op =
        op == Collective::all_reduce || op == Collective::all_gather || op == Collective::reduce_scatter;
    return has_op && protocol == Protocol::simple && shape.ranks > 1;
  }

  [[nodiscard]] Duration latency(Collective op, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    const double passes = op == Collective::all_reduce ? 2 : 1;
    const double in_node = static_cast<double>(shape.per_node_max - 1);
    const double between = static_cast<double>(shape.nodes - 1);
    return timing::launch(shape, transport) +
           timing::rounded(passes * (in_node * static_cast<double>(transport.node.ring_step.ps()) +
                                     between * static_cast<double>(transport.network.ring_step.ps())));
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    const LayoutRings rings(context.fabric, layout);
    TwoLevels forwards(sum, layout, rings, context.transport, false);
    TwoLevels backwards(sum, layout, rings, context.transport, true);
    if (op == Collective::all_reduce) {
      backwards.gather_evenly();
      forwards.gather_evenly();
    } else {
      (op == Collective::all_gather ? forwards : backwards).gather_members();
    }
    return sum.take();
  }

  /// In pieces, so that a phase of one goes on while others are in other phases.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const auto message = static_cast<double>(size.count());
    const LayoutRings rings(context.fabric, layout);
    const std::uint32_t pieces = pieces_for(message, layout, rings, context.pieces);
    const bool both = op == Collective::all_reduce;
    TwoLevelSends backwards(layout, rings, context.transport, !both);
    TwoLevelSends forwards(layout, rings, context.transport, !both);
    for (std::uint32_t p = 0; p < pieces; ++p) {
      if (op != Collective::all_gather) backwards.add_piece(message / pieces, p + 1 == pieces);
      if (op != Collective::reduce_scatter) forwards.add_piece(message / pieces, p == 0);
    }
    add_backwards(graph, backwards.graph());
    if (both) {
      add_after_backwards(graph, forwards.graph(), pieces);
    } else if (op == Collective::all_gather) {
      const Duration launch = graph.launch;
      graph = forwards.graph();
      graph.launch = launch;
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }

 private:
  /// Not so many that the sends of a large group exceed some million.
  [[nodiscard]] static std::uint32_t pieces_for(double message, const GroupLayout& layout, const LayoutRings& rings,
                                                std::uint32_t most) {
    constexpr std::size_t sends_wanted = std::size_t{1} << 20;
    const std::size_t channels = layout.ranks_per_node_min();
    const std::size_t nodes = layout.nodes.size();
    std::size_t inside = 0;
    for (std::size_t n = 0; n < nodes; ++n) inside += layout.nodes[n].gpus.size() * rings.rings(n).size();
    const std::size_t per_piece = channels * (nodes * nodes + inside);
    const std::size_t bound = std::max<std::size_t>(sends_wanted / per_piece, 1);
    const double block = message / static_cast<double>(channels * nodes);
    return pieces_of(block, static_cast<std::uint32_t>(std::min<std::size_t>(most, bound)));
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_hierarchical() { return std::make_unique<Hierarchical>(); }

}  // namespace foretrain
