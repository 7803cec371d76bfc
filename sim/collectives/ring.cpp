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

class Ring final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::ring; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    if (op == Collective::all_to_all || op == Collective::send_recv) return false;
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
    const Transport& transport = context.transport;
    const bool across = layout.nodes.size() > 1;
    const Bandwidth ring_rate =
        across ? transport.node.ring_rate_across.value_or(transport.node.ring_rate) : transport.node.ring_rate;
    const Goodput goodput{ring_rate / transport.node.line, transport.network.efficiency};
    if (is_rooted(op)) {
      Chain(sum, layout, op == Collective::reduce, goodput).add();
    } else {
      add_closed_ring(sum, layout, busbw_factor(op, layout.ranks()), goodput);
    }
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_ring() { return std::make_unique<Ring>(); }

}  // namespace foretrain
