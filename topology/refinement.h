// Colour refinement: the coarsest partition of a graph's nodes in which no node can be told from another of its class
// by the colour it began with or by its edges.
//
// Edges carry a label at either end, the same where an edge has no direction. In the partition that comes out, any two
// nodes of a class began with the same colour and have, for every label and every class, equally many edges of that
// label into that class: it is *equitable*, and every equitable partition that keeps the first colours apart is finer
// than it (or equal).
//
// How. Each node holds the sum of a hash of (label, colour at the other end) over its edges, 2 x 64 bits. Where nodes
// of a class come to hold different sums, the class is split, the largest part keeps the colour, and the sums around
// the rest are corrected by the difference. A node so changes its colour at most log2(nodes) times: O(edges *
// log(nodes)), no two nodes are ever compared, and the order of all steps is fixed by the numbers of the nodes. Two
// nodes that differ are taken for equal only if 128 bits of hash collide.
//
//   LabelledGraph path(3);
//   path.connect_all([](const auto& connect) { connect(0, 1, 0, 0), connect(1, 2, 0, 0); });
//   refine(path, {0, 0, 0});   // {0, 1, 0}: the ends are alike
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace foretrain {

/// 128 bits that two different things share by accident only.
struct Digest {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  friend auto operator<=>(const Digest&, const Digest&) = default;
  Digest& operator+=(const Digest& other);  ///< makes digests of a multiset from those of its elements
  Digest& operator-=(const Digest& other);
  /// The digest of a sequence, longer by one word.
  void append(std::uint64_t word);
};
struct DigestHash {
  std::size_t operator()(const Digest& d) const { return d.a * 0x9e3779b97f4a7c15ULL ^ d.b; }
};

class LabelledGraph {
 public:
  struct Edge {
    std::uint32_t to = 0;
    std::uint32_t label = 0;  ///< at that end
  };
  explicit LabelledGraph(std::size_t nodes) : begin_(nodes + 1, 0) {}
  /// `each(connect)` calls connect(a, b, label at a, label at b) for every edge; it is called twice and must do the
  /// same both times. Once a graph.
  template <class Each>
  void connect_all(const Each& each) {
    each([&](std::uint32_t a, std::uint32_t b, std::uint32_t, std::uint32_t) { ++begin_[a + 1], ++begin_[b + 1]; });
    for (std::size_t v = 1; v < begin_.size(); ++v) begin_[v] += begin_[v - 1];
    edges_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    each([&](std::uint32_t a, std::uint32_t b, std::uint32_t at_a, std::uint32_t at_b) {
      edges_[next[a]++] = {b, at_b};
      edges_[next[b]++] = {a, at_a};
    });
  }
  [[nodiscard]] std::size_t nodes() const { return begin_.size() - 1; }
  [[nodiscard]] std::span<const Edge> edges(std::uint32_t node) const {
    return std::span(edges_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }

 private:
  std::vector<std::size_t> begin_;
  std::vector<Edge> edges_;
};

/// `colours` by node: those to begin with, dense from 0. Returns the classes by node, numbered in the order of their
/// first nodes.
[[nodiscard]] std::vector<std::uint32_t> refine(const LabelledGraph& graph, std::vector<std::uint32_t> colours);

}  // namespace foretrain
