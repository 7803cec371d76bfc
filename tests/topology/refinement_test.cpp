// Does colour refinement find the coarsest equitable partition, and number it as it says?
#include "topology/refinement.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace foretrain {
namespace {

using Colours = std::vector<std::uint32_t>;
using Cables = std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>;  // both ends, label

LabelledGraph graph_of(std::size_t nodes, const Cables& cables) {
  LabelledGraph graph(nodes);
  graph.connect_all([&](const auto& connect) {
    for (const auto& [a, b, label] : cables) connect(a, b, label, label);
  });
  return graph;
}

/// The textbook's way: recolour every node by its colour and the multiset around it until nothing splits.
Colours refine_slowly(std::size_t nodes, const Cables& cables, Colours colours) {
  std::size_t classes = 0;
  for (;;) {
    std::vector<std::multiset<std::pair<std::uint32_t, std::uint32_t>>> around(nodes);
    for (const auto& [a, b, label] : cables) {
      around[a].insert({label, colours[b]});
      around[b].insert({label, colours[a]});
    }
    std::map<std::pair<std::uint32_t, std::multiset<std::pair<std::uint32_t, std::uint32_t>>>, std::uint32_t> known;
    Colours next;
    for (std::size_t v = 0; v < nodes; ++v)
      next.push_back(
          known.try_emplace({colours[v], around[v]}, static_cast<std::uint32_t>(known.size())).first->second);
    colours = next;
    if (known.size() == classes) return colours;  // numbered by first nodes, since they come in order
    classes = known.size();
  }
}

TEST(Refinement, the_ends_of_a_path_are_alike_and_so_are_nodes_as_far_from_them) {
  EXPECT_EQ(refine(graph_of(5, {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 4, 0}}), {0, 0, 0, 0, 0}),
            (Colours{0, 1, 2, 1, 0}));
}

TEST(Refinement, one_odd_node_of_a_ring_splits_it_by_distance) {
  EXPECT_EQ(refine(graph_of(6, {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 4, 0}, {4, 5, 0}, {5, 0, 0}}), {1, 0, 0, 0, 0, 0}),
            (Colours{0, 1, 2, 3, 2, 1}));
}

TEST(Refinement, a_ring_without_an_odd_node_is_one_class) {
  EXPECT_EQ(refine(graph_of(4, {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 0, 0}}), {0, 0, 0, 0}), (Colours{0, 0, 0, 0}));
}

TEST(Refinement, labels_tell_edges_apart_and_parallel_edges_count) {
  EXPECT_EQ(refine(graph_of(4, {{0, 1, 7}, {2, 3, 8}}), {0, 0, 0, 0}), (Colours{0, 0, 1, 1}));
  EXPECT_EQ(refine(graph_of(4, {{0, 1, 7}, {2, 3, 7}, {2, 3, 7}}), {0, 0, 0, 0}), (Colours{0, 0, 1, 1}));
}

TEST(Refinement, the_two_ends_of_an_edge_may_see_it_differently) {
  LabelledGraph ring(3);
  ring.connect_all([](const auto& connect) { connect(0, 1, 0, 1), connect(1, 2, 0, 1), connect(2, 0, 0, 1); });
  EXPECT_EQ(refine(ring, {0, 0, 0}), (Colours{0, 0, 0}));
  LabelledGraph chain(3);
  chain.connect_all([](const auto& connect) { connect(0, 1, 0, 1), connect(1, 2, 0, 1); });
  EXPECT_EQ(refine(chain, {0, 0, 0}), (Colours{0, 1, 2}));
}

TEST(Refinement, of_nothing_is_nothing) { EXPECT_EQ(refine(LabelledGraph(0), {}), Colours{}); }

RC_GTEST_PROP(Refinement, finds_the_partition_of_the_textbook, ()) {
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 40);
  Cables cables;
  const auto count = *rc::gen::inRange<std::uint32_t>(0, 2 * nodes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto a = *rc::gen::inRange<std::uint32_t>(0, nodes);
    const auto b = *rc::gen::inRange<std::uint32_t>(0, nodes);
    if (a != b) cables.emplace_back(a, b, *rc::gen::inRange<std::uint32_t>(0, 2));
  }
  const auto copies = *rc::gen::inRange<std::uint32_t>(1, 4);  // side by side: there are classes of several
  Cables all;
  Colours colours;
  const auto odd = *rc::gen::inRange<std::uint32_t>(0, 2 * nodes);  // of the first copy only, where it is a node
  for (std::uint32_t k = 0; k < copies; ++k) {
    for (const auto& [a, b, label] : cables) all.emplace_back(a + k * nodes, b + k * nodes, label);
    for (std::uint32_t v = 0; v < nodes; ++v) colours.push_back(k == 0 && v == odd ? 1 : 0);
  }
  RC_ASSERT(refine(graph_of(colours.size(), all), colours) == refine_slowly(colours.size(), all, colours));
}

/// A chain of 2^17 nodes: a refinement that went over all nodes each round would take 2^33 steps.
TEST(Refinement, a_long_chain_costs_little_more_than_its_length) {
  constexpr std::uint32_t nodes = 1U << 17;
  LabelledGraph chain(nodes);
  chain.connect_all([](const auto& connect) {
    for (std::uint32_t v = 0; v + 1 < nodes; ++v) connect(v, v + 1, 0, 0);
  });
  const Colours classes = refine(chain, Colours(nodes, 0));
  for (std::uint32_t v = 0; v < nodes; ++v) ASSERT_EQ(classes[v], std::min(v, nodes - 1 - v));
}

}  // namespace
}  // namespace foretrain
