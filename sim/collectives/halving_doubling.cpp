// Recursive halving and doubling. With p a power of two, a reduce-scatter exchanges half of the message with the
// neighbour at distance 1, a quarter at distance 2, ... p/2: big pieces go near, so inside the node. An all-gather is
// the same backwards, an all-reduce both: 2(p-1)/p of the message a rank in 2 log2 p steps.
//
// Other numbers of ranks: of the first 2r, r = n - p, the odd ones hand theirs to the even one before them, which plays
// for both, and get their result from it.
//
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005,
// sections 4.1 to 4.5 (vector halving and distance doubling; the fold is MPICH's, a whole message each way).
#include <algorithm>
#include <bit>

#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

struct Fold {
  std::vector<GpuId> players;  ///< a power of two
  std::vector<GpuId> extras;   ///< extras[i] is played for by players[i]
};

/// Members node by node, so that neighbours share one.
Fold fold(const GroupLayout& layout) {
  std::vector<GpuId> order;
  for (const GroupLayout::Node& node : layout.nodes) order.insert(order.end(), node.gpus.begin(), node.gpus.end());
  const std::size_t folded = order.size() - std::bit_floor(order.size());
  Fold result;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool extra = i < 2 * folded && i % 2 == 1;
    (extra ? result.extras : result.players).push_back(order[i]);
  }
  return result;
}

class Exchange {
 public:
  Exchange(UsageSum& sum, const CollectiveContext& context)
      : sum_(sum), in_node_(context.transport.node.p2p_efficiency), between_(context.transport.network.efficiency) {}

  /// All-gather of what the players own, as parts of the message; or backwards.
  void gather(const std::vector<GpuId>& players, std::vector<double> owned, bool backwards) const {
    for (std::size_t distance = players.size() / 2; distance > 0; distance /= 2) {
      for (std::size_t i = 0; i < players.size(); ++i) send(players[i], players[i ^ distance], owned[i], backwards);
      for (std::size_t i = 0; i < players.size(); ++i) {
        if ((i & distance) != 0) continue;
        owned[i] += owned[i | distance];
        owned[i | distance] = owned[i];
      }
    }
  }

  /// Each extra hands `in` to its player and gets `out`.
  void fold(const Fold& f, double in, double out) const {
    for (std::size_t i = 0; i < f.extras.size(); ++i) {
      send(f.extras[i], f.players[i], in, false);
      send(f.players[i], f.extras[i], out, false);
    }
  }

 private:
  void send(GpuId from, GpuId to, double wire, bool backwards) const {
    sum_.route(backwards ? to : from, backwards ? from : to, 0, wire, in_node_, between_);
  }
  UsageSum& sum_;
  double in_node_;
  double between_;
};

/// The same as sends, a step of all players at a time; a player's step begins when its last is over and its partner's
/// last has arrived.
class ExchangeSends {
 public:
  ExchangeSends(SendGraph& graph, const Fold& f, double message, const GroupShape& shape, const Transport& transport)
      : graph_(graph),
        fold_(f),
        message_(message),
        near_below_(std::bit_floor(shape.per_node_max)),
        near_step_(transport.node.ring_step),
        far_step_(transport.network.ring_step),
        fold_step_(shape.per_node_max > 1 ? near_step_ : far_step_),
        waits_(f.players.size()) {
    send_.in_node_goodput = transport.node.p2p_efficiency;
    send_.between_goodput = transport.network.efficiency;
  }

  void hand_in(double part) {
    for (std::size_t i = 0; i < fold_.extras.size(); ++i)
      waits_[i] = {send(fold_.extras[i], fold_.players[i], part, fold_step_, {})};
  }
  void hand_out(double part) {
    for (std::size_t i = 0; i < fold_.extras.size(); ++i)
      static_cast<void>(send(fold_.players[i], fold_.extras[i], part, fold_step_, waits_[i]));
  }

  /// Exchange::gather: backwards, its steps in the opposite order.
  void gather(std::vector<double> owned, bool backwards) {
    const std::size_t p = fold_.players.size();
    struct Step {
      std::size_t distance;
      std::vector<double> owned;
    };
    std::vector<Step> steps;
    for (std::size_t distance = p / 2; distance > 0; distance /= 2) {
      steps.push_back({distance, owned});
      std::vector<double> both(p);
      for (std::size_t i = 0; i < p; ++i) both[i] = owned[i] + owned[i ^ distance];
      owned = std::move(both);
    }
    if (backwards) std::reverse(steps.begin(), steps.end());
    for (const Step& step : steps) exchange(step.distance, step.owned, backwards);
  }

 private:
  void exchange(std::size_t distance, const std::vector<double>& owned, bool backwards) {
    const Duration latency = distance < near_below_ ? near_step_ : far_step_;
    std::vector<std::uint32_t> sent(owned.size());
    for (std::size_t i = 0; i < owned.size(); ++i) {
      // Backwards, what a player then owns comes to it.
      const double part = owned[backwards ? i ^ distance : i];
      sent[i] = send(fold_.players[i], fold_.players[i ^ distance], part, latency, waits_[i]);
    }
    for (std::size_t i = 0; i < owned.size(); ++i) waits_[i] = {sent[i], sent[i ^ distance]};
  }

  std::uint32_t send(GpuId from, GpuId to, double part, Duration latency, std::span<const std::uint32_t> after) {
    send_.from = send_.via = from;
    send_.to = to;
    send_.wire = message_ * part;
    send_.latency = latency;
    return graph_.add(send_, after);
  }

  SendGraph& graph_;
  const Fold& fold_;
  double message_;
  std::size_t near_below_;
  Duration near_step_, far_step_, fold_step_;
  ChunkSend send_;
  std::vector<std::vector<std::uint32_t>> waits_;  ///< by player: before its next step
};

class HalvingDoubling final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::halving_doubling; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport&) const override {
    const bool has_op =
        op == Collective::all_reduce || op == Collective::all_gather || op == Collective::reduce_scatter;
    return has_op && protocol == Protocol::simple && shape.ranks > 1;
  }

  [[nodiscard]] Duration latency(Collective op, Protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    const auto log2_floor = [](std::uint32_t x) { return static_cast<double>(std::bit_width(x) - 1); };
    const double passes = op == Collective::all_reduce ? 2 : 1;
    const double in_node = log2_floor(shape.per_node_max);
    const double between = log2_floor(shape.ranks) - in_node;
    const double folds = std::has_single_bit(shape.ranks) ? 0 : 2;
    const double near_step = static_cast<double>(transport.node.ring_step.ps());
    const double far_step = static_cast<double>(transport.network.ring_step.ps());
    return timing::launch(shape, transport) + timing::rounded(passes * (in_node * near_step + between * far_step) +
                                                              folds * (shape.per_node_max > 1 ? near_step : far_step));
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.ranks() <= 1) return {};
    UsageSum sum(context);
    const Exchange exchange(sum, context);
    const Fold f = foretrain::fold(layout);
    const double chunk = 1.0 / static_cast<double>(layout.ranks());
    if (op == Collective::all_reduce) {
      const std::vector<double> owned(f.players.size(), 1.0 / static_cast<double>(f.players.size()));
      exchange.fold(f, 1, 1);
      exchange.gather(f.players, owned, true);
      exchange.gather(f.players, owned, false);
      return sum.take();
    }
    std::vector<double> owned(f.players.size(), chunk);
    for (std::size_t i = 0; i < f.extras.size(); ++i) owned[i] += chunk;
    const bool scatters = op == Collective::reduce_scatter;
    exchange.fold(f, scatters ? 1 - chunk : chunk, scatters ? chunk : 1 - chunk);
    exchange.gather(f.players, owned, scatters);
    return sum.take();
  }

  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    if (layout.ranks() <= 1) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const Fold f = foretrain::fold(layout);
    ExchangeSends exchange(graph, f, static_cast<double>(size.count()), shape, context.transport);
    const double chunk = 1.0 / static_cast<double>(layout.ranks());
    if (op == Collective::all_reduce) {
      const std::vector<double> owned(f.players.size(), 1.0 / static_cast<double>(f.players.size()));
      exchange.hand_in(1);
      exchange.gather(owned, true);
      exchange.gather(owned, false);
      exchange.hand_out(1);
    } else {
      std::vector<double> owned(f.players.size(), chunk);
      for (std::size_t i = 0; i < f.extras.size(); ++i) owned[i] += chunk;
      const bool scatters = op == Collective::reduce_scatter;
      exchange.hand_in(scatters ? 1 - chunk : chunk);
      exchange.gather(owned, scatters);
      exchange.hand_out(scatters ? chunk : 1 - chunk);
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_halving_doubling() { return std::make_unique<HalvingDoubling>(); }

}  // namespace foretrain
