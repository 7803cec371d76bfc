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
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

class TwoLevels {
 public:
  TwoLevels(UsageSum& sum, const GroupLayout& layout, const Transport& transport, bool backwards)
      : sum_(sum),
        layout_(layout),
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
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        const std::size_t next = (i + 1) % gpus.size();
        send(gpus[i], gpus[next], 0, next < channels_ ? all - whole[next] : all);
      }
    }
  }

  UsageSum& sum_;
  const GroupLayout& layout_;
  std::size_t channels_;
  bool backwards_;
  double in_node_ = 1;
  double between_ = 1;
  std::vector<double> blocks_;  ///< by node and channel, parts of the message
};

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

  [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                               const Transport&) const override {
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    TwoLevels forwards(sum, layout, context.transport, false);
    TwoLevels backwards(sum, layout, context.transport, true);
    if (op == Collective::all_reduce) {
      backwards.gather_evenly();
      forwards.gather_evenly();
    } else {
      (op == Collective::all_gather ? forwards : backwards).gather_members();
    }
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_hierarchical() { return std::make_unique<Hierarchical>(); }

}  // namespace foretrain
