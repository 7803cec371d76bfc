// Do routes that name one link for all that are alike say the same as routes that name every link?
#include "topology/routing/switch_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/topology/shapes.h"
#include "topology/faults.h"
#include "topology/routing/router.h"

namespace foretrain {
namespace {

std::vector<double> shares_by_link(const Router& router, const Fabric& fabric, GpuId from, GpuId to) {
  std::vector<LinkShare> path;
  router.route(from, to, 0, path);
  std::vector<double> shares(fabric.link_count());
  for (const LinkShare& s : path) shares[s.link.index()] += s.share;
  return shares;
}

/// Every pair of GPUs; returns how many links another stands for.
std::size_t expect_same_routes(const Fabric& fabric, Routing routing) {
  const auto every = make_router(routing, fabric, RouterOptions{});
  const auto first = make_router(routing, fabric, RouterOptions{.first_of_alike = true});
  std::vector<LinkId> alike(first->alike().begin(), first->alike().end());
  for (std::size_t l = alike.size(); l < fabric.link_count(); ++l) alike.push_back(id_at<LinkId>(l));
  for (std::size_t from = 0; from < fabric.gpu_count(); ++from)
    for (std::size_t to = 0; to < fabric.gpu_count(); ++to) {
      const auto all = shares_by_link(*every, fabric, id_at<GpuId>(from), id_at<GpuId>(to));
      const auto some = shares_by_link(*first, fabric, id_at<GpuId>(from), id_at<GpuId>(to));
      for (std::size_t l = 0; l < all.size(); ++l) {
        EXPECT_NEAR(all[l], some[alike[l].index()], 1e-12) << fabric.name(id_at<LinkId>(l));
        EXPECT_TRUE(some[l] == 0 || alike[l].index() == l);
        if (testing::Test::HasFailure()) return 0;
      }
    }
  std::size_t others = 0;
  for (std::size_t l = 0; l < alike.size(); ++l) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    const Link& stands_for_it = fabric.link(alike[l]);
    EXPECT_EQ(link.bandwidth, stands_for_it.bandwidth);
    EXPECT_EQ(link.tier, stands_for_it.tier);
    others += alike[l].index() != l ? 1 : 0;
  }
  return others;
}

TEST(SwitchClasses, one_link_of_each_kind_says_the_whole_route_on_every_shape) {
  for (const Shape shape : all_shapes)
    for (const Routing routing : {Routing::spread, Routing::rail}) {
      if (shape == Shape::two_planes) continue;  // not all of its GPUs reach each other
      SCOPED_TRACE(static_cast<int>(shape));
      static_cast<void>(expect_same_routes(build_shape(shape), routing));
    }
}

/// Two pods of two leaves under four upper switches each, and 2 cores above each of four planes: from a leaf, all four
/// cables up are alike, and so are all 16 from a pod to the cores, the same down; none to a server is.
TEST(SwitchClasses, the_upper_switches_of_a_pod_are_alike_and_so_are_all_cores) {
  const Fabric fabric =
      build_fat_tree({.node = {.gpus = 2, .nics = 2}, .cable = {}, .gpus = 16, .tiers = 3, .radix = 8});
  const SwitchGraph graph(fabric);
  const SwitchClasses classes(graph);
  ASSERT_TRUE(classes.some_alike());
  const auto leaves = vertices_of(fabric, VertexKind::leaf);
  for (const VertexId leaf : leaves) {
    std::vector<LinkId> up;
    const auto out = fabric.out_links(leaf);
    for (LinkId l = out.first; l < out.last; ++l.value)
      if (fabric.vertex(fabric.link(l).to).kind == VertexKind::spine) up.push_back(classes.links_alike()[l.index()]);
    ASSERT_GT(up.size(), 1U);
    EXPECT_EQ(std::count(up.begin(), up.end(), up.front()), static_cast<std::ptrdiff_t>(up.size()));
  }
  EXPECT_GT(expect_same_routes(fabric, Routing::spread), 0U);
}

/// One of a leaf's cables is cut to half its rate: it stands for itself, and routes are as before.
TEST(SwitchClasses, a_slow_cable_stands_for_itself) {
  const Fabric whole =
      build_fat_tree({.node = {.gpus = 2, .nics = 2}, .cable = {}, .gpus = 16, .tiers = 3, .radix = 8});
  std::vector<double> remaining(whole.link_count(), 1);
  const VertexId leaf = vertices_of(whole, VertexKind::leaf).front();
  LinkId slow;
  for (LinkId l = whole.out_links(leaf).first; l < whole.out_links(leaf).last; ++l.value)
    if (whole.vertex(whole.link(l).to).kind == VertexKind::spine) slow = l;
  remaining[slow.index()] = 0.5;
  const Fabric fabric = with_faults(whole, remaining);
  const SwitchGraph graph(fabric);
  const SwitchClasses classes(graph);
  std::size_t as_it = 0;
  for (const LinkId l : classes.links_alike()) as_it += l == slow ? 1 : 0;
  EXPECT_EQ(as_it, 1U);
  EXPECT_GT(expect_same_routes(fabric, Routing::spread), 0U);
}

}  // namespace
}  // namespace foretrain
