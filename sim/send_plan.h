// Send plans: the calls of fidelity `flows`, with every send's route turned into a shape of the network.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/network.h"
#include "sim/resources.h"

namespace foretrain {

/// One call, ready to be played any number of times.
struct SendPlan {
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Send {
    double wire = 0;                ///< bytes; 0 moves nothing
    std::int64_t latency = 0;       ///< ps
    ShapeId shape;                  ///< meaningless where `wire` is 0
    std::uint32_t waits = 0;        ///< sends that must have arrived before its latency begins
    std::uint32_t next = none;      ///< the send behind it in its line
    bool is_behind = false;         ///< another is ahead of it in its line
    std::uint32_t wakes_begin = 0;  ///< into `wakes`: the sends that wait for it
    std::uint32_t wakes_end = 0;
  };
  Duration launch;
  std::vector<Send> sends;
  std::vector<std::uint32_t> wakes;
};

/// Turns graphs into plans and collects the distinct shapes of their sends: the same way over the fabric at the same
/// goodputs and cap. A shape's unit of progress is a wire byte.
class SendPlanner {
 public:
  /// Link entries of all shapes together: some 1.5 GB with what is made of them.
  static constexpr std::size_t entries_max = std::size_t{1} << 25;

  SendPlanner(const Fabric& fabric, const Router& router);
  /// `rate_cap`: message bytes a second that the protocol moves at most; every line gets what its part of the wire
  /// bytes is of it. Throws std::invalid_argument beyond `entries_max`.
  [[nodiscard]] SendPlan plan(const SendGraph& graph, double message, std::optional<double> rate_cap);

  [[nodiscard]] const LinkTable& loads() const { return loads_; }
  [[nodiscard]] const std::vector<double>& caps() const { return caps_; }
  [[nodiscard]] double weight(std::size_t shape) const;
  /// Forgets which ways are known already; what remains is what was collected.
  void close() { known_ = {}; }
  [[nodiscard]] LinkTable take_wire() &&;

 private:
  struct Way {
    GpuId from, via, to;
    std::uint32_t flow = 0;
    double in_node_goodput = 1, between_goodput = 1, cap = uncapped;
    bool operator==(const Way&) const = default;
  };
  struct WayHash {
    std::size_t operator()(const Way& way) const;
  };
  ShapeId shape_of_way(const Way& way);
  ShapeId collect_path(const Way& way);  ///< path_, as a shape of its own

  const Fabric& fabric_;
  const Router& router_;
  std::optional<TierId> nvlink_;
  std::unordered_map<Way, ShapeId, WayHash> known_;  // looked up only, never iterated
  LinkTable loads_;
  std::vector<double> caps_;
  struct Goodputs {
    double in_node, between;
  };
  std::vector<Goodputs> goodputs_;  // by shape
  std::vector<LinkShare> path_;
};

}  // namespace foretrain
