// A collective algorithm: turns one call on one communicator into a latency and a usage vector.
//
// Contract. For a group laid out on a fabric, an algorithm says
//   - `latency`: its chain of steps and software overheads, paid before the bytes flow;
//   - `rate_cap`: the most message bytes a second that the protocol itself moves (nothing: no such bound);
//   - `usage`: for every link it crosses, wire bytes per byte of message, and `load` >= wire, the same divided by the
//     part of the line rate that this algorithm reaches there (its goodput). The sum of loads times rate is what the
//     max-min solver holds below a link's bandwidth; wire is what the link's byte counter counts.
// On an idle network the time of a call is latency + size / min(rate_cap, min over links of bandwidth / load).
//
// One algorithm a file, one line in `algorithms()` (algorithms.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/collectives/send_graph.h"
#include "sim/communicator.h"
#include "sim/exchange.h"
#include "sim/transport.h"
#include "topology/routing/router.h"

namespace foretrain {

struct Usage {
  LinkId link;
  double wire = 0;
  double load = 0;
  double flows = 1;  ///< that compete there for a fair share: 8 for eight pairs of an all-to-all
};

/// The same bytes on the links in `times` the time, but not faster than the links.
void stretch(std::vector<Usage>& usage, double times);

/// Where the members of a communicator sit. Order inside `nodes` is order of first appearance.
struct GroupLayout {
  struct Node {
    NodeId id;
    std::vector<GpuId> gpus;
    std::vector<std::size_t> positions;  ///< of those, in `members`
  };
  std::vector<GpuId> members;  ///< in communicator order
  std::vector<Node> nodes;
  std::size_t channels_max = SIZE_MAX;  ///< between nodes

  GroupLayout(const Fabric& fabric, std::vector<GpuId> members);
  [[nodiscard]] std::size_t ranks() const { return members.size(); }
  [[nodiscard]] std::size_t ranks_per_node_max() const;
  [[nodiscard]] std::size_t ranks_per_node_min() const;
};

/// A line of routers along one dimension of a torus.
struct TorusLine {
  std::uint32_t extent = 1;  ///< of the group
  bool closed = false;       ///< a cable joins its ends
  auto operator<=>(const TorusLine&) const = default;
};

/// What of a layout decides latency and choice; communicators of one shape share one decision.
struct GroupShape {
  std::uint32_t ranks = 1;
  std::uint32_t nodes = 1;
  std::uint32_t per_node_max = 1;
  std::uint32_t nics_per_node = 1;  ///< that the members of a node drive
  Bandwidth nic;                    ///< line rate of one; 0 where there is none
  std::vector<TorusLine> torus;     ///< of a group that fills a box of a torus: its dimensions; else empty
  Bandwidth torus_link;             ///< of one cable there, one direction
  /// Of GPUs joined directly, without a switch: what the rings inside a node let a GPU send (NodeRings::rate).
  std::optional<Bandwidth> ring_line;
  auto operator<=>(const GroupShape&) const = default;
};
[[nodiscard]] GroupShape shape_of(const Fabric& fabric, const GroupLayout& layout);

inline const Exchange even_exchange{};

struct CollectiveContext {
  const Fabric& fabric;
  const Router& router;
  const Transport& transport;
  std::uint32_t pieces = 64;                 ///< of `sends`: into how many a pipelined message is cut at most
  const Exchange& exchange = even_exchange;  ///< of all_to_allv and its way back
};

class CollectiveAlgorithm {
 public:
  CollectiveAlgorithm() = default;
  CollectiveAlgorithm(const CollectiveAlgorithm&) = delete;
  CollectiveAlgorithm& operator=(const CollectiveAlgorithm&) = delete;
  virtual ~CollectiveAlgorithm() = default;
  [[nodiscard]] virtual Algorithm id() const = 0;
  [[nodiscard]] virtual bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                                      const Transport& transport) const = 0;
  [[nodiscard]] virtual Duration latency(Collective op, Protocol protocol, Bytes size, const GroupShape& shape,
                                         const Transport& transport) const = 0;
  /// Message bytes a second; nothing unless an algorithm says otherwise.
  [[nodiscard]] virtual std::optional<double> rate_cap(Collective op, Protocol protocol, const GroupShape& shape,
                                                       const Transport& transport) const;
  /// One entry a link, links ascending.
  [[nodiscard]] virtual std::vector<Usage> usage(Collective op, Protocol protocol, const GroupLayout& layout,
                                                 const CollectiveContext& context) const = 0;
  /// The same call as its chunk sends, for fidelity `flows`: over each link as many wire bytes as `usage` says, and
  /// launch and latencies along the longest chain that add up to `latency`. Throws std::invalid_argument naming the
  /// algorithm where it has none.
  [[nodiscard]] virtual SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                        const CollectiveContext& context) const;
};

/// All that we have, in NCCL's order of preference at a tie.
[[nodiscard]] std::span<const std::unique_ptr<CollectiveAlgorithm>> algorithms();
[[nodiscard]] const CollectiveAlgorithm& algorithm(Algorithm id);

/// Adds up the shares of many routes into usage entries, links ascending: the helper that every algorithm uses.
class UsageSum {
 public:
  explicit UsageSum(const CollectiveContext& context);
  /// `wire` bytes per byte of message from one GPU to another; on tier "nvlink" at `in_node`, on all other tiers at
  /// `between` goodput (0 < goodput <= 1).
  void route(GpuId from, GpuId to, std::uint64_t flow, double wire, double in_node_goodput, double between_goodput);
  void add(LinkId link, double wire, double goodput);
  [[nodiscard]] std::vector<Usage> take();

 private:
  struct Running;  ///< a sum over very many routes: one cell a link
  struct RunningDeleter {
    void operator()(Running* running) const;
  };
  void spill();
  void count_flows(std::vector<Usage>& sums);

  const CollectiveContext& context_;
  std::optional<TierId> nvlink_;
  double route_most_ = 0;  ///< wire of the largest route so far
  std::vector<Usage> entries_;
  std::unique_ptr<Running, RunningDeleter> running_;
  std::vector<LinkShare> path_;
};

}  // namespace foretrain
