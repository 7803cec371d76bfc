// PAT (parallel aggregated trees): all-gather and reduce-scatter in log2 n steps. Every chunk spreads over a binomial
// tree of its own, farthest step first: when the peers at distance 2^k exchange, a rank sends every chunk whose owner
// is a multiple of 2^(k+1) behind it and has not been there. So the far steps carry few chunks and the near ones many,
// a rank sends (n-1)/n of the message in all, and n need not be a power of two. A reduce-scatter is the same backwards.
//
// Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025 (arXiv
// 2506.20252). As NCCL does, with one GPU a node only.
#include <algorithm>

#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// Offsets 1 .. n-1 whose lowest set bit is `distance`: the chunks that travel that far in that step.
double chunks_at(std::size_t distance, std::size_t ranks) {
  const std::size_t after_the_first = (ranks - 1 - distance) / (2 * distance);
  return static_cast<double>(after_the_first + 1);
}

class Pat final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::pat; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    const bool has_op = op == Collective::all_gather || op == Collective::reduce_scatter;
    return has_op && protocol == Protocol::simple && shape.nodes > 1 && shape.per_node_max == 1 &&
           transport.node.generation != GpuGeneration::other;
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    return timing::launch(shape, transport) + timing::pat_steps(shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    const std::vector<GpuId>& members = layout.members;
    const std::size_t n = members.size();
    UsageSum sum(context);
    const double goodput = timing::pat_part * context.transport.network.efficiency;
    for (std::size_t distance = 1; distance < n; distance *= 2) {
      const double wire = chunks_at(distance, n) / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i) {
        const GpuId near = members[i];
        const GpuId far = members[(i + distance) % n];
        const bool gathers = op == Collective::all_gather;
        sum.route(gathers ? near : far, gathers ? far : near, 0, wire, goodput, goodput);
      }
    }
    return sum.take();
  }

  /// A rank's chunks of a step are one send. Its step begins when its last is over and the chunks are there.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    const std::vector<GpuId>& members = layout.members;
    const std::size_t n = members.size();
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const double goodput = timing::pat_part * context.transport.network.efficiency;
    ChunkSend send{
        .in_node_goodput = goodput, .between_goodput = goodput, .latency = context.transport.network.ring_step};
    const bool gathers = op == Collective::all_gather;
    std::vector<std::size_t> distances;
    for (std::size_t distance = 1; distance < n; distance *= 2) distances.push_back(distance);
    if (gathers) std::reverse(distances.begin(), distances.end());
    graph.reserve(distances.size() * n, 2 * distances.size() * n);
    std::size_t before = 0;  // distance from which a rank received in the last step
    for (std::size_t k = 0; k < distances.size(); ++k) {
      const std::size_t hop = gathers ? distances[k] : n - distances[k];
      send.wire = static_cast<double>(size.count()) * chunks_at(distances[k], n) / static_cast<double>(n);
      for (std::size_t i = 0; i < n; ++i) {
        send.from = send.via = members[i];
        send.to = members[(i + hop) % n];
        if (k == 0) {
          graph.add(send);
          continue;
        }
        const std::uint32_t waits[] = {static_cast<std::uint32_t>((k - 1) * n + i),
                                       static_cast<std::uint32_t>((k - 1) * n + (i + n - before) % n)};
        graph.add(send, waits);
      }
      before = hop;
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_pat() { return std::make_unique<Pat>(); }

}  // namespace foretrain
