// A call as its single chunk sends with their dependencies: what fidelity `flows` plays.
//
//   SendGraph graph;
//   graph.launch = microseconds(16);
//   const auto first = graph.add({.from = a, .via = a, .to = b, .wire = 1e6});
//   graph.add({.from = b, .via = b, .to = c, .wire = 1e6, .latency = microseconds(5)}, {&first, 1});
//
// A send starts when all that it waits for has arrived and its latency has passed, and not before the send ahead of it
// in its line has arrived: a channel sends its chunks one after another, but the latency of one may pass while another
// is under way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/ids.h"
#include "topology/routing/router.h"
#include "topology/units.h"

namespace foretrain {

/// One chunk that one GPU sends another.
struct ChunkSend {
  GpuId from;
  GpuId via;  ///< a GPU of the same node whose NIC the chunk takes, reached over NVLink; `from` itself as a rule
  GpuId to;
  std::uint32_t flow = 0;               ///< for the router, from `via` on: which of several ways between the same two
  std::optional<std::uint32_t> behind;  ///< the send before it in its line: an earlier one of this graph, same ends
  double wire = 0;                      ///< bytes; 0 joins what it waits for and moves nothing
  double in_node_goodput = 1;           ///< as UsageSum::route
  double between_goodput = 1;
  Duration latency;
  /// Bytes whose part of all wire bytes the line gets of the protocol's cap; 0: the line's own. More where several
  /// lines with other ends take turns.
  double cap_wire = 0;
  std::optional<std::uint32_t> over;  ///< a way of the graph's instead of the router's
};

class SendGraph {
 public:
  /// Some 1 GB with all that belongs to them. `add` throws std::invalid_argument beyond.
  static constexpr std::size_t sends_max = std::size_t{1} << 23;

  Duration launch;  ///< before the first send

  /// `after`: earlier sends of this graph.
  std::uint32_t add(const ChunkSend& send, std::span<const std::uint32_t> after = {});
  /// Links that a send may go over at one pace, all at once: what no route between two GPUs is.
  std::uint32_t add_way(std::vector<LinkShare> way) {
    ways_.push_back(std::move(way));
    return static_cast<std::uint32_t>(ways_.size() - 1);
  }
  [[nodiscard]] std::span<const LinkShare> way(std::uint32_t i) const { return ways_[i]; }
  void reserve(std::size_t sends, std::size_t afters);

  [[nodiscard]] std::size_t size() const { return sends_.size(); }
  [[nodiscard]] const ChunkSend& operator[](std::size_t i) const { return sends_[i]; }
  [[nodiscard]] std::span<const std::uint32_t> after(std::size_t i) const {
    return std::span(after_).subspan(after_begin_[i], after_begin_[i + 1] - after_begin_[i]);
  }
  [[nodiscard]] std::size_t after_count() const { return after_.size(); }

  /// Scales all latencies so that the longest chain of them is exactly `total`: the proportions are the hardware's, the
  /// sum is the closed form's, and an empty message takes launch + total.
  void stretch_latencies(Duration total);
  /// All takes `times` as long, but nothing is faster than the links.
  void stretch(double times);

 private:
  std::vector<ChunkSend> sends_;
  std::vector<std::uint32_t> after_begin_{0};
  std::vector<std::uint32_t> after_;
  std::vector<std::vector<LinkShare>> ways_;
};

/// An edge of a rooted tree of GPUs; trees are lists of edges, each after the one that leads to its parent.
struct TreeEdge {
  GpuId parent;
  GpuId child;
  std::optional<std::uint32_t> above;  ///< index of the edge that leads to `parent`; none at the root
  std::uint32_t flow = 0;
  double in_node_goodput = 1;
  double between_goodput = 1;
  Duration latency;
};

/// A message that goes up, or down, a tree of GPUs in pieces; every edge is a line each way.
class TreePipeline {
 public:
  TreePipeline(SendGraph& graph, std::vector<TreeEdge> edges, double piece_wire)
      : graph_(graph), edges_(std::move(edges)), piece_wire_(piece_wire), up_(edges_.size()), down_(edges_.size()) {}

  /// The next piece goes from the leaves to the root: every edge waits for the edges below it, and for what
  /// `ready(child)` names.
  template <class Ready>
  void reduce(Ready ready) {
    std::vector<std::vector<std::uint32_t>> arrived(edges_.size());  // by edge: the sends into its child
    at_root_.clear();
    for (std::size_t e = edges_.size(); e-- > 0;) {
      const std::span<const std::uint32_t> own = ready(edges_[e].child);
      arrived[e].insert(arrived[e].end(), own.begin(), own.end());
      up_[e] = graph_.add(send(edges_[e], true, up_[e]), arrived[e]);
      (edges_[e].above ? arrived[*edges_[e].above] : at_root_).push_back(*up_[e]);
    }
  }
  void reduce() {
    reduce([](GpuId) { return std::span<const std::uint32_t>(); });
  }
  /// The next piece goes from the root, when all of `after` has arrived, to the leaves.
  void broadcast(std::span<const std::uint32_t> after);

  /// Sends of the last piece that arrive at the root; and the one that brought it to the child of an edge.
  [[nodiscard]] std::span<const std::uint32_t> at_root() const { return at_root_; }
  [[nodiscard]] std::uint32_t into(std::size_t edge) const { return *down_[edge]; }

 private:
  using Last = std::optional<std::uint32_t>;  ///< send of a line
  [[nodiscard]] ChunkSend send(const TreeEdge& edge, bool up, Last behind) const;

  SendGraph& graph_;
  std::vector<TreeEdge> edges_;
  double piece_wire_;
  std::vector<Last> up_, down_;  ///< by edge
  std::vector<std::uint32_t> at_root_;
};

/// Pieces in which a line of so many bytes is sent: at most `most`, none smaller than NCCL's smallest chunk.
[[nodiscard]] std::uint32_t pieces_of(double line_bytes, std::uint32_t most);

}  // namespace foretrain
