// Max-flow between two sets of GPUs: Boost's Boykov-Kolmogorov on what is left after exact contraction.
//
// The capacity graph is the fabric without GPUs of neither set and without hosts that only NICs hang on: neither
// forwards. GPUs of `from` are
// the source, those of `to` the sink. A vertex that takes from the source at least as much as it can pass on to others
// joins the source: moving it to the source's side of any cut never makes that cut larger, so some minimum cut has it
// there. The same holds at the sink the other way round, and each step leaves the maximum flow what it was. Servers,
// leaves, and where nothing is oversubscribed whole tiers go this way, which turns 24,576 GPUs into a graph of a few
// switches without giving up exactness.

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 believes that the edge iterator of boost::adjacency_list may be copied before it is set; the warning arises
// where the template is instantiated, so a system include does not silence it.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cstdint>
#include <map>
#include <utility>

#include "topology/analysis.h"

namespace foretrain {
namespace {

enum class Side : std::uint8_t { open, source, sink, left_out };

/// A host bridge is on the GPUs' ways to the NICs of its node; a host that only NICs hang on is none.
bool is_bridge(const Fabric& fabric, VertexId host) {
  const std::optional<NodeId> node = fabric.vertex(host).node;
  const Fabric::LinkRange out = fabric.out_links(host);
  for (LinkId l = out.first; l < out.last; ++l.value) {
    const Vertex& next = fabric.vertex(fabric.link(l).to);
    if (node && next.node == node && next.kind != VertexKind::nic) {
      return true;
    }
  }
  return false;
}

class CapacityGraph {
 public:
  CapacityGraph(const Fabric& fabric, std::span<const GpuId> from, std::span<const GpuId> to) : fabric_(fabric) {
    side_.assign(fabric.vertex_count(), Side::open);
    for (std::size_t v = 0; v < side_.size(); ++v) {
      const VertexKind kind = fabric.vertex(id_at<VertexId>(v)).kind;
      const bool is_idle_host = kind == VertexKind::host && !is_bridge(fabric, id_at<VertexId>(v));
      side_[v] = kind == VertexKind::gpu || is_idle_host ? Side::left_out : Side::open;
    }
    mark(from, Side::source);
    mark(to, Side::sink);
    sum();
  }

  void contract() {
    for (std::size_t v = 0; v < side_.size(); ++v) {
      consider(id_at<VertexId>(v));
    }
    while (!joined_.empty()) {
      const VertexId v = joined_.back();
      joined_.pop_back();
      tell_neighbours(v);
    }
  }

  [[nodiscard]] std::int64_t solve() const;

 private:
  /// Bandwidths around one open vertex.
  struct Around {
    std::int64_t from_source = 0;
    std::int64_t in_others = 0;  ///< from all but the sink's side, the source's included
    std::int64_t to_sink = 0;
    std::int64_t out_others = 0;  ///< to all but the source's side, the sink's included
  };

  [[nodiscard]] Side side(VertexId v) const { return side_[v.index()]; }

  void mark(std::span<const GpuId> gpus, Side as) {
    for (const GpuId gpu : gpus) {
      side_[fabric_.vertex_of(gpu).index()] = as;
    }
  }

  void sum() {
    around_.resize(side_.size());
    for (const Link& link : fabric_.links()) {
      const Side tail = side(link.from);
      const Side head = side(link.to);
      const std::int64_t rate = link.bandwidth.bytes_per_s();
      if (tail != Side::left_out && tail != Side::sink) {
        around_[link.to.index()].from_source += tail == Side::source ? rate : 0;
        around_[link.to.index()].in_others += rate;
      }
      if (head != Side::left_out && head != Side::source) {
        around_[link.from.index()].to_sink += head == Side::sink ? rate : 0;
        around_[link.from.index()].out_others += rate;
      }
    }
  }

  void consider(VertexId v) {
    if (side(v) != Side::open) {
      return;
    }
    const Around& it = around_[v.index()];
    if (it.from_source >= it.out_others) {
      side_[v.index()] = Side::source;
      joined_.push_back(v);
    } else if (it.to_sink >= it.in_others) {
      side_[v.index()] = Side::sink;
      joined_.push_back(v);
    }
  }

  void tell_neighbours(VertexId v) {
    const Fabric::LinkRange out = fabric_.out_links(v);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      Around& head = around_[fabric_.link(l).to.index()];
      const std::int64_t rate = fabric_.link(l).bandwidth.bytes_per_s();
      if (side(v) == Side::source) {
        head.from_source += rate;
      } else {
        head.in_others -= rate;
      }
    }
    for (const LinkId l : fabric_.in_links(v)) {
      Around& tail = around_[fabric_.link(l).from.index()];
      const std::int64_t rate = fabric_.link(l).bandwidth.bytes_per_s();
      if (side(v) == Side::sink) {
        tail.to_sink += rate;
      } else {
        tail.out_others -= rate;
      }
    }
    for (LinkId l = out.first; l < out.last; ++l.value) {
      consider(fabric_.link(l).to);
    }
    for (const LinkId l : fabric_.in_links(v)) {
      consider(fabric_.link(l).from);
    }
  }

  const Fabric& fabric_;
  std::vector<Side> side_;
  std::vector<Around> around_;
  std::vector<VertexId> joined_;  ///< whose neighbours do not know yet
};

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS,
    boost::property<
        boost::vertex_index_t, std::size_t,
        boost::property<boost::vertex_color_t, boost::default_color_type,
                        boost::property<boost::vertex_distance_t, std::int64_t,
                                        boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>>>,
    boost::property<boost::edge_capacity_t, std::int64_t,
                    boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

void add_pair(FlowGraph& graph, std::size_t a, std::size_t b, std::int64_t forth, std::int64_t back) {
  const auto there = boost::add_edge(a, b, graph).first;
  const auto again = boost::add_edge(b, a, graph).first;
  boost::put(boost::edge_capacity, graph, there, forth);
  boost::put(boost::edge_capacity, graph, again, back);
  boost::put(boost::edge_reverse, graph, there, again);
  boost::put(boost::edge_reverse, graph, again, there);
}

std::int64_t CapacityGraph::solve() const {
  constexpr std::size_t source = 0;
  constexpr std::size_t sink = 1;
  std::vector<std::size_t> place(side_.size(), source);
  std::size_t count = 2;
  for (std::size_t v = 0; v < side_.size(); ++v) {
    place[v] = side_[v] == Side::open ? count++ : side_[v] == Side::sink ? sink : source;
  }
  // Parallel links add up; (a, b) with a < b holds both directions.
  std::map<std::pair<std::size_t, std::size_t>, std::pair<std::int64_t, std::int64_t>> capacity;
  std::int64_t direct = 0;
  for (const Link& link : fabric_.links()) {
    const std::size_t a = place[link.from.index()];
    const std::size_t b = place[link.to.index()];
    const std::int64_t rate = link.bandwidth.bytes_per_s();
    if (a == b || side(link.from) == Side::left_out || side(link.to) == Side::left_out) {
      continue;
    }
    if (a == source && b == sink) {
      direct += rate;
    } else if (a < b) {
      capacity[{a, b}].first += rate;
    } else {
      capacity[{b, a}].second += rate;
    }
  }
  FlowGraph graph(count);
  for (const auto& [ends, rates] : capacity) {
    add_pair(graph, ends.first, ends.second, rates.first, rates.second);
  }
  return direct + (count == 2 ? 0 : boost::boykov_kolmogorov_max_flow(graph, source, sink));
}

}  // namespace

Bandwidth max_flow(const Fabric& fabric, std::span<const GpuId> from, std::span<const GpuId> to) {
  CapacityGraph graph(fabric, from, to);
  graph.contract();
  return bytes_per_second(graph.solve());
}

}  // namespace foretrain
