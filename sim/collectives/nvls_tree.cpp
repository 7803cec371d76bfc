// NVLSTree: an all-reduce over several nodes, inside each in the NVSwitch, between them on a double binary tree.
#include <map>

#include "sim/collectives/algorithms.h"
#include "sim/collectives/double_tree.h"
#include "sim/collectives/nvls.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// The sends of one call, a piece of the message at a time.
class NvlsTreeSends {
 public:
  NvlsTreeSends(SendGraph& graph, const GroupLayout& layout, const Transport& transport, double piece, double nvls_wire,
                double nvls_goodput)
      : graph_(graph),
        layout_(layout),
        piece_(piece),
        copied_(nvls_wire - 1),
        goodput_(nvls_goodput),
        reduced_(layout.nodes.size()),
        spread_(layout.nodes.size()) {
    const std::size_t channels = layout.ranks_per_node_min();
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t tree = 0; tree < 2; ++tree) {
        edges_.push_back(tree_edges(layout, tree, c, transport.network.efficiency, transport.network.tree_step));
        trees_.emplace_back(graph, edges_.back(), piece / (2.0 * static_cast<double>(channels)));
      }
    }
    for (std::size_t node = 0; node < layout.nodes.size(); ++node)
      for (const GpuId gpu : layout.nodes[node].gpus) node_of_.emplace(gpu, node);
  }

  /// Reduced in every node, up the trees, down the trees, copied in every node.
  void add_piece() {
    const std::size_t nodes = layout_.nodes.size();
    for (std::size_t node = 0; node < nodes; ++node)
      send_nvls(graph_, layout_.nodes[node].gpus, piece_, goodput_, {}, reduced_[node]);
    std::vector<std::vector<std::uint32_t>> whole(nodes);  // by node: sends that make the piece whole there
    for (std::size_t t = 0; t < trees_.size(); ++t) {
      trees_[t].reduce([&](GpuId gpu) { return std::span<const std::uint32_t>(reduced_[node_of_.at(gpu)]); });
      const std::size_t root = node_of_.at(edges_[t].front().parent);
      std::vector<std::uint32_t> at_root(trees_[t].at_root().begin(), trees_[t].at_root().end());
      at_root.insert(at_root.end(), reduced_[root].begin(), reduced_[root].end());
      trees_[t].broadcast(at_root);
      whole[root].insert(whole[root].end(), at_root.begin(), at_root.end());
      for (std::size_t e = 0; e < edges_[t].size(); ++e)
        whole[node_of_.at(edges_[t][e].child)].push_back(trees_[t].into(e));
    }
    for (std::size_t node = 0; node < nodes; ++node)
      send_nvls(graph_, layout_.nodes[node].gpus, piece_ * copied_, goodput_, whole[node], spread_[node]);
  }

 private:
  SendGraph& graph_;
  const GroupLayout& layout_;
  double piece_, copied_, goodput_;
  std::vector<std::vector<TreeEdge>> edges_;  ///< by tree
  std::vector<TreePipeline> trees_;
  std::map<GpuId, std::size_t> node_of_;
  std::vector<std::vector<std::uint32_t>> reduced_, spread_;  ///< by node: lines of the last piece
};

class NvlsTree final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::nvls_tree; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    return op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes > 1 &&
           transport.network.tree_allowed && timing::has_nvls(shape, transport);
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes size, const GroupShape& shape,
                                 const Transport& transport) const override {
    return timing::launch(shape, transport) +
           timing::rounded(timing::tree_hops(shape) * static_cast<double>(transport.network.tree_step.ps())) +
           timing::nvls_fill(size, shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    UsageSum sum(context);
    const GroupShape shape = shape_of(context.fabric, layout);
    add_nvls(sum, layout, timing::nvls_wire(shape), timing::nvls_goodput(shape, context.transport));
    add_double_tree(sum, layout, context.transport.network.efficiency);
    return sum.take();
  }

  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const Transport& transport = context.transport;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, transport) + timing::nvls_fill(size, shape, transport);
    const auto message = static_cast<double>(size.count());
    const auto lines = 2.0 * static_cast<double>(layout.ranks_per_node_min());
    const std::uint32_t pieces = pieces_of(message / lines, context.pieces);
    NvlsTreeSends call(graph, layout, transport, message / pieces, timing::nvls_wire(shape),
                       timing::nvls_goodput(shape, transport));
    for (std::uint32_t p = 0; p < pieces; ++p) call.add_piece();
    graph.stretch_latencies(latency(op, protocol, size, shape, transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_nvls_tree() { return std::make_unique<NvlsTree>(); }

}  // namespace foretrain
