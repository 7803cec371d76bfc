// Fabric and FabricBuilder: the graph is what was connected, and misuse is refused.
#include "topology/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "tests/topology/shapes.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

TEST(Fabric, IsWhatWasConnected) {
  FabricBuilder b;
  const TierId nvlink = b.tier("nvlink");
  const TierId pcie = b.tier("pcie");
  EXPECT_EQ(b.tier("nvlink"), nvlink);
  const NodeId node = b.node();
  const VertexId gpu0 = b.add(VertexKind::gpu, node);
  const VertexId nvswitch = b.add(VertexKind::nvswitch, node);
  const VertexId gpu1 = b.add(VertexKind::gpu, node);
  const VertexId nic = b.add(VertexKind::nic, node);
  const VertexId leaf = b.add(VertexKind::leaf);
  b.connect(gpu1, nvswitch, gigabytes_per_second(450), nanoseconds(500), nvlink);
  b.connect(gpu0, nvswitch, gigabytes_per_second(450), nanoseconds(500), nvlink);
  b.connect(gpu0, nic, gigabytes_per_second(64), nanoseconds(400), pcie);
  b.connect(nic, leaf, gigabytes_per_second(50), nanoseconds(600), b.tier("nic"));
  const Fabric fabric = std::move(b).build();

  EXPECT_EQ(fabric.vertex_count(), 5U);
  EXPECT_EQ(fabric.link_count(), 8U);  // four cables
  EXPECT_EQ(fabric.gpu_count(), 2U);
  EXPECT_EQ(fabric.node_count(), 1U);
  EXPECT_EQ(fabric.vertex_of(GpuId{1}), gpu1);
  EXPECT_EQ(fabric.gpu_at(gpu1), GpuId{1});
  EXPECT_EQ(fabric.gpu_at(leaf), std::nullopt);
  EXPECT_THAT(fabric.nics_of(GpuId{0}), ElementsAre(nic));
  EXPECT_TRUE(fabric.nics_of(GpuId{1}).empty());  // its only way to a NIC leads over the NVSwitch
  EXPECT_THAT(fabric.gpus_of(node), ElementsAre(GpuId{0}, GpuId{1}));
  EXPECT_EQ(fabric.name(gpu1), "node0/gpu1");
  EXPECT_EQ(fabric.name(nic), "node0/nic0");
  EXPECT_EQ(fabric.name(nvswitch), "node0/nvswitch0");
  EXPECT_EQ(fabric.name(leaf), "leaf0");
  EXPECT_EQ(fabric.name(fabric.out_links(leaf).first), "leaf0 > node0/nic0");
  ASSERT_EQ(fabric.tiers().size(), 3U);
  EXPECT_EQ(fabric.tiers()[0].name, "nvlink");
  EXPECT_EQ(fabric.tiers()[0].links, 4U);
  EXPECT_EQ(fabric.tiers()[0].bandwidth, gigabytes_per_second(450) * 4);
  EXPECT_FALSE(fabric.torus());
}

TEST(Fabric, AnEmptyOneIsAFabric) {
  const Fabric fabric = FabricBuilder().build();
  EXPECT_EQ(fabric.vertex_count(), 0U);
  EXPECT_TRUE(fabric.links().empty());
}

TEST(Fabric, MisuseIsRefused) {
  FabricBuilder b;
  const TierId tier = b.tier("t");
  const VertexId leaf = b.add(VertexKind::leaf);
  const VertexId spine = b.add(VertexKind::spine);
  const Bandwidth rate = gigabytes_per_second(1);
  EXPECT_THROW(b.connect(leaf, VertexId{9}, rate, Duration{}, tier), std::invalid_argument);
  EXPECT_THROW(b.connect(leaf, leaf, rate, Duration{}, tier), std::invalid_argument);
  EXPECT_THROW(b.connect(leaf, spine, Bandwidth{}, Duration{}, tier), std::invalid_argument);
  EXPECT_THROW(b.connect(leaf, spine, rate, picoseconds(-1), tier), std::invalid_argument);
  EXPECT_THROW(b.connect(leaf, spine, rate, Duration{}, TierId{7}), std::invalid_argument);
  EXPECT_THROW(b.add(VertexKind::gpu), std::invalid_argument);
  EXPECT_THROW(b.add(VertexKind::gpu, NodeId{0}), std::invalid_argument);
}

class FabricOf : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Fabric, FabricOf, testing::ValuesIn(all_shapes));

TEST_P(FabricOf, LinksAreSortedAndIndexedBothWays) {
  const Fabric fabric = build_shape(GetParam());
  const std::span<const Link> links = fabric.links();
  EXPECT_TRUE(std::is_sorted(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.from < b.from; }));
  std::vector<int> seen(links.size(), 0);
  for (std::size_t i = 0; i < fabric.vertex_count(); ++i) {
    const auto v = id_at<VertexId>(i);
    for (LinkId l = fabric.out_links(v).first; l < fabric.out_links(v).last; ++l.value) {
      EXPECT_EQ(fabric.link(l).from, v);
      ++seen[l.index()];
    }
    for (const LinkId l : fabric.in_links(v)) {
      EXPECT_EQ(fabric.link(l).to, v);
      ++seen[l.index()];
    }
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 2; }));
}

TEST_P(FabricOf, EveryLinkHasItsTwinBack) {
  const Fabric fabric = build_shape(GetParam());
  std::multiset<std::tuple<VertexId, VertexId, Bandwidth, Duration, TierId>> there;
  std::multiset<std::tuple<VertexId, VertexId, Bandwidth, Duration, TierId>> back;
  for (const Link& link : fabric.links()) {
    there.emplace(link.from, link.to, link.bandwidth, link.latency, link.tier);
    back.emplace(link.to, link.from, link.bandwidth, link.latency, link.tier);
  }
  EXPECT_EQ(there, back);
}

TEST_P(FabricOf, NamesAreUnique) {
  const Fabric fabric = build_shape(GetParam());
  std::set<std::string> names;
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    EXPECT_TRUE(names.insert(fabric.name(id_at<VertexId>(v))).second);
  }
}

TEST_P(FabricOf, GpusAndNodesAgree) {
  const Fabric fabric = build_shape(GetParam());
  std::size_t counted = 0;
  for (std::size_t n = 0; n < fabric.node_count(); ++n) {
    for (const GpuId gpu : fabric.gpus_of(id_at<NodeId>(n))) {
      EXPECT_EQ(gpu.index(), counted++);  // node by node
      EXPECT_EQ(fabric.node_of(gpu).index(), n);
      EXPECT_EQ(fabric.gpu_at(fabric.vertex_of(gpu)), gpu);
    }
  }
  EXPECT_EQ(counted, fabric.gpu_count());
}

/// The size that the engine is made for: 25,000 GPUs, 10^5 vertices, close to 10^6 links.
TEST(Fabric, TwentyFiveThousandGpusBuild) {
  const MetaClosSpec spec{.node = {},
                          .cable = {},
                          .gpus = 8 * 2 * 192 * 8,
                          .gpus_per_rack = 16,
                          .racks_per_pod = 192,
                          .pods = 8,
                          .cluster_switches = 192,
                          .aggregation_switches = 64};
  const Fabric fabric = build_meta_clos(spec);
  EXPECT_EQ(fabric.gpu_count(), 24576U);
  const std::size_t nodes = spec.gpus / 8;
  const std::size_t racks = nodes / 2;
  const std::size_t cables = nodes * (8 + 8 + 8 + 8)       // NVLink, GPU to NIC, host to NIC, NIC to rack
                             + racks * 192                 // rack to cluster switch
                             + std::size_t{8} * 192 * 64;  // cluster to aggregation switch
  EXPECT_EQ(fabric.link_count(), 2 * cables);
  EXPECT_GT(fabric.link_count(), 900'000U);
}

}  // namespace
}  // namespace foretrain
