// Do routes that name one link for all that are alike say the same as routes that name every link?
#include "topology/routing/switch_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/topology/shapes.h"
#include "topology/faults.h"
#include "topology/routing/footprint.h"
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

// ---- footprints ---------------------------------------------------------------------------------------------------

/// Groups of `size` that lie `stride` apart, one from each GPU on.
std::vector<std::vector<GpuId>> groups_of_gpus(const Fabric& fabric, std::size_t size, std::size_t stride) {
  std::vector<std::vector<GpuId>> groups;
  for (std::size_t first = 0; first + (size - 1) * stride < fabric.gpu_count(); ++first) {
    auto& group = groups.emplace_back();
    for (std::size_t i = 0; i < size; ++i) group.push_back(id_at<GpuId>(first + i * stride));
  }
  return groups;
}

/// By link, to the bit.
std::map<LinkId, double> route_of(const Router& router, GpuId from, GpuId to) {
  std::vector<LinkShare> path;
  router.route(from, to, 0, path);
  std::map<LinkId, double> route;
  for (const LinkShare& s : path) route[s.link] += s.share;
  return route;
}

/// The routes of a group as spots, and the same spots as another group's.
void expect_laid_on(const Router& router, const Footprints& footprints, const std::vector<GpuId>& group,
                    const std::vector<GpuId>& other) {
  Footprint there;
  footprints.find(other, there);
  Footprint here;
  footprints.find(group, here);
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = 0; j < group.size(); ++j) {
      std::map<LinkId, double> mapped;
      for (const auto& [link, share] : route_of(router, group[i], group[j])) {
        const FootprintSpot spot = footprints.spot(link, here);
        ASSERT_EQ(footprints.link_at(spot, here), link);
        mapped[footprints.link_at(spot, there)] = share;
      }
      ASSERT_EQ(mapped, route_of(router, other[i], other[j]));
    }
}

/// Returns how many groups lie as another does.
std::size_t expect_like_routes(const Fabric& fabric, Routing routing) {
  const auto router = make_router(routing, fabric, RouterOptions{.first_of_alike = true});
  const Footprints* footprints = router->footprints();
  if (footprints == nullptr) return 0;
  std::size_t alike = 0;
  for (const std::size_t size : {1U, 2U, 5U})
    for (const std::size_t stride : {1U, 2U, 8U, 12U}) {
      std::map<Digest, std::vector<GpuId>> first;
      for (const auto& group : groups_of_gpus(fabric, size, stride)) {
        Footprint footprint;
        footprints->find(group, footprint);
        const auto [known, fresh] = first.try_emplace(footprint.key, group);
        if (fresh) continue;
        ++alike;
        expect_laid_on(*router, *footprints, known->second, group);
        if (testing::Test::HasFailure()) return 0;
      }
    }
  return alike;
}

TEST(Footprints, of_one_key_have_the_same_routes_link_by_link_on_every_shape) {
  for (const Shape shape : all_shapes)
    for (const Routing routing : {Routing::spread, Routing::rail}) {
      if (shape == Shape::two_planes) continue;  // not all of its GPUs reach each other
      SCOPED_TRACE(static_cast<int>(shape));
      const std::size_t alike = expect_like_routes(build_shape(shape), routing);
      const bool is_regular = shape == Shape::rail || shape == Shape::fat_tree_three_tiers || shape == Shape::meta;
      EXPECT_TRUE(alike > 0 || !is_regular);
    }
}

/// Two servers a leaf, two leaves a pod, four pods: pairs of servers are told apart by how far up they meet, and by
/// nothing else.
TEST(Footprints, tell_how_far_up_servers_meet) {
  const Fabric fabric =
      build_fat_tree({.node = {.gpus = 1, .nics = 1}, .cable = {}, .gpus = 16, .tiers = 3, .radix = 4});
  const auto router = make_router(Routing::spread, fabric, RouterOptions{.first_of_alike = true});
  ASSERT_NE(router->footprints(), nullptr);
  const auto key = [&](std::uint32_t a, std::uint32_t b) {
    const GpuId pair[] = {GpuId{a}, GpuId{b}};
    Footprint footprint;
    router->footprints()->find(pair, footprint);
    return footprint.key;
  };
  for (std::uint32_t a = 0; a < 16; ++a)
    for (std::uint32_t b = 0; b < 16; ++b) {
      if (a == b) continue;
      const std::uint32_t like = a / 2 == b / 2 ? 1 : a / 4 == b / 4 ? 2 : 4;
      for (const std::uint32_t other : {1U, 2U, 4U}) EXPECT_EQ(key(a, b) == key(0, other), like == other) << a << ' ' << b;
    }
}

/// A link inside a server, or out of it, at half its rate makes it one of another kind.
TEST(Footprints, tell_servers_with_a_slow_cable) {
  const Fabric whole =
      build_fat_tree({.node = {.gpus = 2, .nics = 2}, .cable = {}, .gpus = 16, .tiers = 3, .radix = 8});
  const auto out = whole.out_links(vertices_of(whole, VertexKind::nic)[5]);
  ASSERT_GT(out.last.value - out.first.value, 1U);
  for (LinkId slow = out.first; slow < out.last; ++slow.value) {
    std::vector<double> remaining(whole.link_count(), 1);
    remaining[slow.index()] = 0.5;
    const Fabric fabric = with_faults(whole, remaining);
    const auto router = make_router(Routing::spread, fabric, RouterOptions{.first_of_alike = true});
    ASSERT_NE(router->footprints(), nullptr);
    std::map<Digest, std::size_t> servers;
    for (std::uint32_t first = 0; first < 16; first += 2) {
      const GpuId server[] = {GpuId{first}, GpuId{first + 1}};
      Footprint footprint;
      router->footprints()->find(server, footprint);
      ++servers[footprint.key];
    }
    EXPECT_EQ(servers.size(), 2U);
  }
}

}  // namespace
}  // namespace foretrain
