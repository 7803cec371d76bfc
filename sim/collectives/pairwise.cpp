// Pairwise: point-to-point copies. An all-to-all is one of 1/n of the message for every pair of ranks, or of what the
// receiver's demand makes of that; a gather or scatter one between the root (member 0) and every other rank; a
// send/recv is one, a shift one from every rank to the next.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// What member `from` sends member `to`, over an even part.
double part_of(Collective op, const Exchange& exchange, std::size_t from, std::size_t to) {
  if (op == Collective::all_to_allv) return exchange.demand_of(to);
  if (op == Collective::all_to_allv_back) return exchange.demand_of(from);
  return 1;
}

/// The whole message goes to the member behind the sender.
constexpr bool is_to_next(Collective op) { return op == Collective::send_recv || op == Collective::shift; }

std::size_t senders_of(Collective op, const GroupLayout& layout) {
  return op == Collective::scatter || op == Collective::send_recv ? 1 : layout.members.size();
}

class Pairwise final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::pairwise; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape&, const Transport&) const override {
    return is_point_to_point(op) && protocol == Protocol::simple;
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    if (shape.ranks <= 1) return Duration{};
    const Duration launch = timing::launch(shape, transport);
    return shape.nodes > 1 ? launch + transport.network.ring_step : launch;
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    const std::vector<GpuId>& members = layout.members;
    if (members.size() <= 1) return {};
    const double in_node = context.transport.node.p2p_efficiency;
    const double between = context.transport.network.efficiency;
    UsageSum sum(context);
    if (is_to_next(op)) {
      for (std::size_t from = 0; from < senders_of(op, layout); ++from)
        sum.route(members[from], members[(from + 1) % members.size()], 0, 1.0, in_node, between);
      return sum.take();
    }
    const double part = 1.0 / static_cast<double>(members.size());
    for (std::size_t from = 0; from < members.size(); ++from) {
      if (op == Collective::gather) sum.route(members[from], members[0], 0, part, in_node, between);
      if (op == Collective::scatter) sum.route(members[0], members[from], 0, part, in_node, between);
      if (!is_all_to_all(op)) continue;
      for (std::size_t to = 0; to < members.size(); ++to) {
        sum.route(members[from], members[to], 0, part * part_of(op, context.exchange, from, to), in_node, between);
      }
    }
    return sum.take();
  }

  /// All pairs of the collective at once; nobody waits for anybody.
  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    graph.launch = latency(op, protocol, size, shape_of(context.fabric, layout), context.transport);
    const std::vector<GpuId>& members = layout.members;
    if (members.size() <= 1) return graph;
    ChunkSend send{.in_node_goodput = context.transport.node.p2p_efficiency,
                   .between_goodput = context.transport.network.efficiency};
    const std::size_t senders = senders_of(op, layout);
    if (is_to_next(op)) {
      send.wire = static_cast<double>(size.count());
      for (std::size_t from = 0; from < senders; ++from) {
        send.from = send.via = members[from];
        send.to = members[(from + 1) % members.size()];
        graph.add(send);
      }
      return graph;
    }
    const double part = static_cast<double>(size.count()) / static_cast<double>(members.size());
    const std::size_t receivers = op == Collective::gather ? 1 : members.size();
    graph.reserve(senders * receivers, 0);
    for (std::size_t from = 0; from < senders; ++from) {
      send.from = send.via = members[from];
      for (std::size_t to = 0; to < receivers; ++to) {
        send.to = members[to];
        send.wire = part * part_of(op, context.exchange, from, to);
        if (from != to) graph.add(send);
      }
    }
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_pairwise() { return std::make_unique<Pairwise>(); }

}  // namespace foretrain
