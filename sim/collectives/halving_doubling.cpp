// Recursive halving and doubling. With p a power of two, a reduce-scatter exchanges half of the message with the
// neighbour at distance 1, a quarter at distance 2, ... p/2: big pieces go near, so inside the node. An all-gather is
// the same backwards, an all-reduce both: 2(p-1)/p of the message a rank in 2 log2 p steps.
//
// Other numbers of ranks: of the first 2r, r = n - p, the odd ones hand theirs to the even one before them, which plays
// for both, and get their result from it.
//
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005,
// sections 4.1 to 4.5 (vector halving and distance doubling; the fold is MPICH's, a whole message each way).
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

  [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                               const Transport&) const override {
    return std::nullopt;
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
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_halving_doubling() { return std::make_unique<HalvingDoubling>(); }

}  // namespace foretrain
