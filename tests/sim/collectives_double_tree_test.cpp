// Are the two trees trees, shallow, and with disjoint inner nodes?
#include "sim/collectives/double_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace foretrain {
namespace {

std::vector<int> children_of(const TreeParents& parents) {
  std::vector<int> children(parents.size());
  for (const auto& parent : parents) {
    if (parent) ++children[*parent];
  }
  return children;
}

/// Edges from a node to the root; more than N when there is a cycle.
std::size_t depth_of(const TreeParents& parents, std::uint32_t node) {
  std::size_t depth = 0;
  while (parents[node] && depth <= parents.size()) {
    node = *parents[node];
    ++depth;
  }
  return depth;
}

TEST(DoubleTree, EachTreeSpansAndIsShallow) {
  for (std::uint32_t n = 1; n <= 300; ++n) {
    const std::size_t most = static_cast<std::size_t>(std::bit_width(n - 1)) + 1;  // ceil(log2 N) + 1
    const DoubleTree trees = double_tree(n);
    for (const TreeParents* tree : {&trees.first, &trees.second}) {
      EXPECT_EQ(std::count(tree->begin(), tree->end(), std::nullopt), 1) << n;  // one root
      for (std::uint32_t node = 0; node < n; ++node) EXPECT_LE(depth_of(*tree, node), most) << n;
      for (const int children : children_of(*tree)) EXPECT_LE(children, 2) << n;
    }
  }
}

TEST(DoubleTree, NoNodeHasChildrenInBoth) {
  for (std::uint32_t n = 2; n <= 300; ++n) {
    const DoubleTree trees = double_tree(n);
    const std::vector<int> first = children_of(trees.first);
    const std::vector<int> second = children_of(trees.second);
    for (std::uint32_t node = 0; node < n; ++node)
      EXPECT_TRUE(first[node] == 0 || second[node] == 0) << n << " " << node;
  }
}

TEST(DoubleTree, WireIsTheBusiestNodesOutput) {
  for (std::uint32_t n = 2; n <= 300; ++n) {
    const DoubleTree trees = double_tree(n);
    const std::vector<int> first = children_of(trees.first);
    const std::vector<int> second = children_of(trees.second);
    double most = 0;
    for (std::uint32_t node = 0; node < n; ++node) {
      // Half a message up to each parent and down to each child.
      const double out =
          0.5 * ((trees.first[node] ? 1 : 0) + (trees.second[node] ? 1 : 0) + first[node] + second[node]);
      most = std::max(most, out);
    }
    EXPECT_EQ(double_tree_wire(n), most) << n;
  }
}

}  // namespace
}  // namespace foretrain
