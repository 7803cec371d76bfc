// Is the reduction from links to resources exact: the same rates with far fewer constraints?
#include "sim/resources.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/small_fabric.h"

namespace foretrain {
namespace {

/// The max-min rates of the shapes in `active`, from every link of the fabric or from the reduced resources.
std::vector<double> rates(std::span<const double> capacity, const std::vector<std::vector<Load>>& loads,
                          const std::vector<double>& cap, const std::vector<double>& weight,
                          const std::vector<std::size_t>& active) {
  std::vector<StaticFlow> flows;
  for (std::size_t s : active) flows.push_back({loads[s], cap[s], weight[s]});
  return max_min_rates(capacity, flows);
}

std::vector<double> link_capacities(const Fabric& fabric) {
  std::vector<double> c;
  for (const Link& l : fabric.links()) c.push_back(static_cast<double>(l.bandwidth.bytes_per_s()));
  return c;
}

UsageTable as_table(const std::vector<std::vector<Usage>>& usage) {
  UsageTable table;
  for (const auto& shape : usage) table.add(shape);
  return table;
}

std::vector<std::vector<Load>> as_loads(const std::vector<std::vector<Usage>>& usage) {
  std::vector<std::vector<Load>> loads;
  for (const auto& shape : usage) {
    auto& l = loads.emplace_back();
    for (const Usage& u : shape) l.push_back({ResourceId{u.link.value}, u.load});
  }
  return loads;
}

std::vector<Usage> random_shape(std::size_t links) {
  const auto chosen = *rc::gen::unique<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, links));
  std::set<std::size_t> ordered(chosen.begin(), chosen.end());
  ordered.insert(*rc::gen::inRange<std::size_t>(0, links));
  std::vector<Usage> shape;
  for (std::size_t l : ordered) {
    const double load = *rc::gen::element(0.25, 0.5, 1.0, 1.0, 2.0);
    shape.push_back({id_at<LinkId>(l), load, load, 1});
  }
  return shape;
}

RC_GTEST_PROP(Resources, reduced_and_whole_systems_have_the_same_rates_whatever_is_active, ()) {
  const Fabric fabric = test::build({.nodes = 2, .gpus = 2});
  const auto shapes = *rc::gen::inRange<std::size_t>(1, 8);
  std::vector<std::vector<Usage>> usage;
  std::vector<double> cap;
  std::vector<double> weight;
  for (std::size_t s = 0; s < shapes; ++s) {
    usage.push_back(random_shape(fabric.link_count()));
    cap.push_back(*rc::gen::element(uncapped, uncapped, 10e9, 60e9));
    weight.push_back(*rc::gen::element(0.5, 1.0, 1.0, 2.0));
  }
  const ResourceTable map = reduce_links(fabric, as_table(usage), cap);
  RC_ASSERT(map.capacity.size() <= fabric.link_count());
  std::vector<std::size_t> active;
  for (std::size_t s = 0; s < shapes; ++s)
    if (*rc::gen::arbitrary<bool>()) active.push_back(s);
  const auto whole = rates(link_capacities(fabric), as_loads(usage), cap, weight, active);
  std::vector<std::vector<Load>> left;
  for (std::size_t s = 0; s < map.shapes(); ++s) left.emplace_back(map.of(s).begin(), map.of(s).end());
  const auto reduced = rates(map.capacity, left, cap, weight, active);
  for (std::size_t i = 0; i < active.size(); ++i) RC_ASSERT(std::abs(whole[i] - reduced[i]) <= 1e-6 * whole[i]);
}

/// Flows that leave GPUs one by one over their own NIC into a leaf that is as wide as they are together: only the NICs
/// can bind. Halve the trunk and it must stay.
TEST(Resources, a_trunk_as_wide_as_what_feeds_it_is_left_out_and_a_narrower_one_is_not) {
  for (const bool narrow : {false, true}) {
    FabricBuilder b;
    const TierId tier = b.tier("nic");
    const NodeId node = b.node();
    const VertexId leaf = b.add(VertexKind::leaf);
    const VertexId spine = b.add(VertexKind::spine);
    const VertexId gpus[] = {b.add(VertexKind::gpu, node), b.add(VertexKind::gpu, node)};
    for (VertexId g : gpus) b.connect(g, leaf, gigabytes_per_second(50), {}, tier);
    b.connect(leaf, spine, gigabytes_per_second(narrow ? 50 : 100), {}, tier);
    const Fabric fabric = std::move(b).build();
    const auto out_of = [&](VertexId v, VertexId to) {
      for (auto l = fabric.out_links(v).first; l != fabric.out_links(v).last; l.value++)
        if (fabric.link(l).to == to) return l;
      return LinkId{};
    };
    const LinkId trunk = out_of(leaf, spine);
    std::vector<std::vector<Usage>> usage;
    for (VertexId g : gpus) {
      usage.push_back({{out_of(g, leaf), 1, 1}, {trunk, 1, 1}});
      std::sort(usage.back().begin(), usage.back().end(), [](auto& x, auto& y) { return x.link < y.link; });
    }
    const ResourceTable map = reduce_links(fabric, as_table(usage), std::vector{uncapped, uncapped});
    bool kept = false;
    for (const LinkId link : map.links) kept = kept || link == trunk;
    EXPECT_EQ(kept, narrow);
  }
}

TEST(Resources, links_loaded_alike_become_one_as_narrow_as_the_narrowest) {
  const Fabric fabric = test::build({.nodes = 2, .gpus = 1});
  const auto router = make_router(Routing::spread, fabric, 1);
  std::vector<LinkShare> path;
  router->route(GpuId{0}, GpuId{1}, 0, path);
  std::vector<Usage> shape;
  for (const LinkShare& s : path) shape.push_back({s.link, 1, 1});
  std::sort(shape.begin(), shape.end(), [](auto& x, auto& y) { return x.link < y.link; });
  const ResourceTable map = reduce_links(fabric, as_table({shape}), std::vector{uncapped});
  ASSERT_EQ(map.capacity.size(), 1U);  // GPU, PCIe, NIC, leaf, NIC, PCIe: one chain
  EXPECT_EQ(map.capacity[0], 50e9);
  EXPECT_EQ(map.links_of(0).size(), 2U);  // the two NIC cables; PCIe is twice as wide
}

}  // namespace
}  // namespace foretrain
