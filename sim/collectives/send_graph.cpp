#include "sim/collectives/send_graph.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>

namespace foretrain {

std::uint32_t SendGraph::add(const ChunkSend& send, std::span<const std::uint32_t> after) {
  if (sends_.size() == sends_max) {
    throw std::invalid_argument("fidelity flows plays a call of at most " + std::to_string(sends_max) +
                                " chunk sends; a larger one is for fidelity fluid");
  }
  const auto index = static_cast<std::uint32_t>(sends_.size());
  assert(!send.behind || *send.behind < index);
  assert(std::all_of(after.begin(), after.end(), [&](std::uint32_t a) { return a < index; }));
  sends_.push_back(send);
  after_.insert(after_.end(), after.begin(), after.end());
  after_begin_.push_back(static_cast<std::uint32_t>(after_.size()));
  return index;
}

void SendGraph::reserve(std::size_t sends, std::size_t afters) {
  sends_.reserve(std::min(sends, sends_max));
  after_begin_.reserve(std::min(sends, sends_max) + 1);
  after_.reserve(afters);
}

// Instants are scaled and rounded, and latencies are their differences, so the sum along a chain does not drift.
void SendGraph::stretch_latencies(Duration total) {
  std::vector<std::int64_t> reached(sends_.size());
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    for (const std::uint32_t a : after(i)) reached[i] = std::max(reached[i], reached[a]);
    reached[i] += sends_[i].latency.ps();
    longest = std::max(longest, reached[i]);
  }
  if (longest == 0) return;
  const double factor = static_cast<double>(total.ps()) / static_cast<double>(longest);
  const auto scaled = [&](std::int64_t instant) { return std::llround(factor * static_cast<double>(instant)); };
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    sends_[i].latency = picoseconds(scaled(reached[i]) - scaled(reached[i] - sends_[i].latency.ps()));
  }
}

void SendGraph::stretch(double times) {
  const auto longer = [times](Duration d) { return picoseconds(std::llround(times * static_cast<double>(d.ps()))); };
  launch = longer(launch);
  for (ChunkSend& s : sends_) {
    s.latency = longer(s.latency);
    s.in_node_goodput = std::min(s.in_node_goodput, 1.0) / times;
    s.between_goodput = std::min(s.between_goodput, 1.0) / times;
  }
}

ChunkSend TreePipeline::send(const TreeEdge& edge, bool up, Last behind) const {
  const GpuId from = up ? edge.child : edge.parent;
  return {.from = from,
          .via = from,
          .to = up ? edge.parent : edge.child,
          .flow = edge.flow,
          .behind = behind,
          .wire = piece_wire_,
          .in_node_goodput = edge.in_node_goodput,
          .between_goodput = edge.between_goodput,
          .latency = edge.latency};
}

void TreePipeline::broadcast(std::span<const std::uint32_t> after) {
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const ChunkSend next = send(edges_[e], false, down_[e]);
    if (edges_[e].above) {
      const std::uint32_t arrived = *down_[*edges_[e].above];
      down_[e] = graph_.add(next, {&arrived, 1});
    } else {
      down_[e] = graph_.add(next, after);
    }
  }
}

std::uint32_t pieces_of(double line_bytes, std::uint32_t most) {
  // NCCL shortens the chunks of a tree down to 32 KiB (src/enqueue.cc, 2.30).
  constexpr double piece_min = 32.0 * 1024;
  return static_cast<std::uint32_t>(std::clamp(line_bytes / piece_min, 1.0, static_cast<double>(std::max(most, 1U))));
}

}  // namespace foretrain
