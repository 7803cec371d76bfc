// Collectives inside nodes whose GPUs are joined directly: all links carry their part, and the rate is the closed form.
#include <gtest/gtest.h>

#include <map>

#include "sim/collectives/layout_rings.h"
#include "sim/collectives/timing.h"
#include "tests/sim/hand_made_fabric.h"
#include "tests/sim/usage_reading.h"
#include "topology/builders/builders.h"

namespace foretrain {
namespace {

constexpr double link_rate = 64e9;

/// MI300X: seven links of 64 GB/s a GPU, one to each other of the node.
Ground full_mesh(std::uint32_t gpus) {
  const NodeSpec node{.nvlink = gigabytes_per_second(7 * 64), .shape = NodeShape::full_mesh};
  Transport transport = perfect_transport();
  transport.node.line = transport.node.ring_rate = node.nvlink;
  return {build_rail_optimised({.node = node, .gpus = gpus}), transport, Routing::rail};
}

Ground cube_mesh(std::uint32_t gpus) {
  const NodeSpec node{.nics = 4, .nvlink = gigabytes_per_second(150), .shape = NodeShape::cube_mesh};
  Transport transport = perfect_transport();
  transport.node.line = transport.node.ring_rate = node.nvlink;
  return {build_fat_tree({.node = node, .gpus = gpus, .tiers = 2}), transport};
}

/// Wire bytes on each NVLink that carries any, per byte of message.
std::vector<double> on_nvlinks(const Ground& ground, const std::vector<Usage>& usage) {
  std::vector<double> wire;
  for (const Usage& use : usage) {
    if (ground.tier(ground.fabric.link(use.link)) == "nvlink") wire.push_back(use.wire);
  }
  return wire;
}

/// 2(n-1)/n of the message out of each GPU, over its n-1 links to the others: 2/n on each, all n(n-1) in use.
TEST(MeshRings, AllReduceFillsEveryLinkOfAFullMesh) {
  for (std::uint32_t n = 2; n <= 8; ++n) {
    const Ground ground = full_mesh(8);
    const auto usage = ground.usage(Algorithm::ring, Collective::all_reduce, first_gpus(n));
    const std::vector<double> wire = on_nvlinks(ground, usage);
    EXPECT_EQ(wire.size(), n * (n - 1)) << n;
    for (const double w : wire) EXPECT_NEAR(w, 2.0 / n, 1e-12) << n;
    EXPECT_NEAR(ground.rate(usage) / (link_rate * n / 2), 1, 1e-9) << n;
  }
}

TEST(MeshRings, HalvesOfAnAllReduceCarryHalf) {
  const Ground ground = full_mesh(8);
  for (const Collective op : {Collective::all_gather, Collective::reduce_scatter}) {
    for (const double w : on_nvlinks(ground, ground.usage(Algorithm::ring, op, first_gpus(8)))) {
      EXPECT_NEAR(w, 1.0 / 8, 1e-12);
    }
  }
}

/// The message leaves the root over seven links; nothing comes back to it, and each other one receives it once.
TEST(MeshRings, BroadcastLeavesTheRootOverAllItsLinks) {
  const Ground ground = full_mesh(8);
  const auto usage = ground.usage(Algorithm::ring, Collective::broadcast, first_gpus(8));
  EXPECT_NEAR(ground.rate(usage) / (7 * link_rate), 1, 1e-9);
  EXPECT_EQ(ground.into(usage, GpuId{0}), 0);
  for (std::uint32_t g = 1; g < 8; ++g) EXPECT_NEAR(ground.into(usage, GpuId{g}), 1, 1e-12);
}

/// Six links of 25 GB/s a GPU, all in use both ways: a bus bandwidth of 150 GB/s before losses.
TEST(MeshRings, AllReduceFillsTheCubeMesh) {
  const Ground ground = cube_mesh(8);
  const auto usage = ground.usage(Algorithm::ring, Collective::all_reduce, first_gpus(8));
  EXPECT_EQ(on_nvlinks(ground, usage).size(), 48U);
  EXPECT_NEAR(ground.rate(usage) * busbw_factor(Collective::all_reduce, 8) / 150e9, 1, 1e-9);
}

/// What NICs carry does not depend on how the node is made, and inside nodes every link carries the same.
TEST(MeshRings, BetweenNodesNicsCarryWhatTheyDoOnASwitch) {
  const Ground mesh = full_mesh(32);
  const Ground switched(build_rail_optimised({.gpus = 32}), perfect_transport(), Routing::rail);
  for (const Algorithm how : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
    const auto on_mesh = mesh.usage(how, Collective::all_reduce, first_gpus(32));
    const auto on_switch = switched.usage(how, Collective::all_reduce, first_gpus(32));
    EXPECT_NEAR(mesh.on_tier(on_mesh, "nic"), switched.on_tier(on_switch, "nic"), 1e-9);
    const std::vector<double> wire = on_nvlinks(mesh, on_mesh);
    EXPECT_EQ(wire.size(), 4U * 56U);
    for (const double w : wire) EXPECT_NEAR(w, wire.front(), 1e-12) << to_text(how);
    for (std::uint32_t g = 0; g < 32; ++g) {
      EXPECT_NEAR(mesh.out_of(on_mesh, GpuId{g}, "nvlink"), switched.out_of(on_switch, GpuId{g}, "nvlink"), 1e-9);
      EXPECT_NEAR(mesh.into(on_mesh, GpuId{g}, "nvlink"), switched.into(on_switch, GpuId{g}, "nvlink"), 1e-9);
    }
  }
}

/// The tuner's closed form takes no more than the links of the group: three of seven for four GPUs.
TEST(MeshRings, TheClosedFormKnowsThePartOfTheLinks) {
  const Ground ground = full_mesh(16);
  EXPECT_EQ(ground.shape(first_gpus(8)).ring_line, gigabytes_per_second(7 * 64));
  EXPECT_EQ(ground.shape(first_gpus(4)).ring_line, gigabytes_per_second(3 * 64));
  EXPECT_EQ(ground.shape(strided_gpus(0, 8, 2)).ring_line, std::nullopt);  // one GPU a node
  for (const std::uint32_t n : {2U, 3U, 4U, 8U}) {
    const std::vector<GpuId> group = first_gpus(n);
    const double closed =
        timing::simple_rate(Collective::all_reduce, Algorithm::ring, ground.shape(group), ground.transport);
    EXPECT_NEAR(closed / ground.rate(Algorithm::ring, Collective::all_reduce, group), 1, 1e-9) << n;
  }
}

TEST(MeshRings, NoNvlsWithoutASwitch) {
  EXPECT_FALSE(full_mesh(8).supports(Algorithm::nvls, Collective::all_reduce, first_gpus(8)));
  EXPECT_FALSE(full_mesh(16).supports(Algorithm::nvls_tree, Collective::all_reduce, first_gpus(16)));
}

// ---- lanes -------------------------------------------------------------------------------------------------------

/// Both kinds of lanes divide every channel's part and every ring's part, into equal ones.
TEST(RingLanes, AddUpToChannelsAndRings) {
  const Ground ground = full_mesh(24);
  std::vector<GpuId> group = first_gpus(13);  // eight and five
  group.push_back(GpuId{16});
  group.push_back(GpuId{18});
  group.push_back(GpuId{23});
  const GroupLayout layout(ground.fabric, group);
  const LayoutRings rings(ground.fabric, layout);
  EXPECT_EQ(rings.channels(), 3U);
  for (const std::vector<RingLane>& lanes : {rings.lanes(), rings.crossed_lanes()}) {
    std::map<std::size_t, double> by_channel;
    std::map<std::pair<std::size_t, std::size_t>, double> by_ring;
    for (const RingLane& lane : lanes) {
      EXPECT_EQ(lane.share, lanes.front().share);
      by_channel[lane.channel] += lane.share;
      for (std::size_t n = 0; n < 3; ++n) by_ring[{n, lane.rings[n]}] += lane.share;
    }
    EXPECT_EQ(by_channel.size(), 3U);
    for (const auto& [channel, share] : by_channel) EXPECT_NEAR(share, 1.0 / 3, 1e-12);
    EXPECT_EQ(by_ring.size(), 14U + 4U + 2U);
    for (const auto& [ring, share] : by_ring) EXPECT_NEAR(share, rings.share(ring.first), 1e-12);
  }
  EXPECT_EQ(rings.lanes().size(), 84U);  // the least common multiple of 3 channels and 14, 4 and 2 rings
  EXPECT_EQ(rings.crossed_lanes().size(), 3U * 28U);
}

TEST(RingLanes, OnASwitchAreTheChannels) {
  const Fabric fabric = hand_made({});
  const GroupLayout layout(fabric, first_gpus(16));
  const LayoutRings rings(fabric, layout);
  EXPECT_EQ(rings.lanes().size(), 8U);
  EXPECT_EQ(rings.members(1, 0, 6),
            (std::vector<GpuId>{GpuId{14}, GpuId{15}, GpuId{8}, GpuId{9}, GpuId{10}, GpuId{11}, GpuId{12}, GpuId{13}}));
}

}  // namespace
}  // namespace foretrain
