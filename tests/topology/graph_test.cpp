// Any graph: what is written is built, and what makes no sense is refused with the names of the file.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/topology/shapes.h"
#include "topology/builders/builders.h"

namespace foretrain {
namespace {

/// Two servers of two GPUs on one leaf, listed out of order: the leaf first, then server 1, then server 0.
GraphSpec two_servers() {
  GraphSpec spec;
  spec.vertices = {{.name = "tor", .kind = VertexKind::leaf, .node = {}, .group = 3}};
  for (const std::uint32_t node : {1U, 0U}) {
    const auto first = static_cast<std::uint32_t>(spec.vertices.size());
    const std::string prefix = node == 0 ? "a" : "b";
    spec.vertices.push_back({.name = prefix + "-x", .kind = VertexKind::gpu, .node = node, .group = {}});
    spec.vertices.push_back({.name = prefix + "-nic", .kind = VertexKind::nic, .node = node, .group = {}});
    spec.vertices.push_back({.name = prefix + "-y", .kind = VertexKind::gpu, .node = node, .group = {}});
    const Bandwidth pcie = gigabytes_per_second(32), nic = gigabytes_per_second(25);
    spec.cables.push_back({first, first + 1, pcie, nanoseconds(500), "pcie"});
    spec.cables.push_back({first + 2, first + 1, pcie, nanoseconds(500), "pcie"});
    spec.cables.push_back({first + 1, 0, nic, nanoseconds(600), "nic", 2});
  }
  return spec;
}

std::string refusal(const GraphSpec& spec) {
  try {
    static_cast<void>(build_graph(spec));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(Graph, IsBuiltAsWritten) {
  const Fabric fabric = build_graph(two_servers());
  EXPECT_EQ(graph_gpus(two_servers()), 4U);
  EXPECT_EQ(fabric.gpu_count(), 4U);
  EXPECT_EQ(fabric.node_count(), 2U);
  EXPECT_EQ(fabric.link_count(), 2U * 2U * (2U + 2U));
  EXPECT_EQ(fabric.node_of(GpuId{0}), NodeId{0});  // node by node, whatever the order of the list
  EXPECT_EQ(fabric.node_of(GpuId{2}), NodeId{1});
  const VertexId leaf = vertices_of(fabric, VertexKind::leaf).front();
  EXPECT_EQ(fabric.vertex(leaf).group, 3U);
  EXPECT_EQ(ports(fabric, leaf), 4U);
  const Link& up = fabric.link(fabric.in_links(leaf).front());
  EXPECT_EQ(up.bandwidth, gigabytes_per_second(25));
  EXPECT_EQ(up.latency, nanoseconds(600));
  EXPECT_EQ(fabric.tiers()[up.tier.index()].name, "nic");
}

TEST(Graph, FewerGpusLeaveOutTheServersBehind) {
  GraphSpec spec = two_servers();
  spec.gpus = 1;
  const Fabric one = build_graph(spec);
  EXPECT_EQ(one.gpu_count(), 1U);
  EXPECT_EQ(one.node_count(), 1U);
  EXPECT_EQ(count_kinds(one)[VertexKind::nic], 1U);
  EXPECT_EQ(count_kinds(one)[VertexKind::leaf], 1U);
  spec.gpus = 5;
  EXPECT_EQ(refusal(spec), "5 GPUs asked for; the graph has 4");
}

TEST(Graph, WhatMakesNoSenseIsRefused) {
  const auto changed = [](auto change) {
    GraphSpec spec = two_servers();
    change(spec);
    return refusal(spec);
  };
  EXPECT_EQ(refusal({}), "the graph has no GPU");
  EXPECT_EQ(changed([](GraphSpec& s) { s.vertices[1].node.reset(); }), "GPU 'b-x' is in no node");
  EXPECT_EQ(changed([](GraphSpec& s) { s.vertices[1].name = "tor"; }), "two vertices are named 'tor'");
  EXPECT_EQ(changed([](GraphSpec& s) { s.vertices[1].name = ""; }), "a vertex has no name");
  EXPECT_EQ(changed([](GraphSpec& s) { s.vertices[0].node = 5; }),
            "node 2 has no GPU; nodes are numbered from 0 and each has GPUs");
  EXPECT_EQ(changed([](GraphSpec& s) { s.vertices[0].node = 1U << 22; }),
            "'tor' is in node 4194304; the last allowed is 4194303");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables[0].b = 7; }), "a cable joins vertices 1 and 7, but there are 7");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables[0].b = 1; }), "the cable 'b-x' to 'b-x' joins a vertex to itself");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables[0].bandwidth = {}; }),
            "the cable 'b-x' to 'b-nic' has a bandwidth of 0B/s; allowed: above 0");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables[0].latency = picoseconds(-1); }),
            "the cable 'b-x' to 'b-nic' has a latency of -1ps; allowed: 0 or more");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables[0].tier = ""; }), "the cable 'b-x' to 'b-nic' has no tier");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables[0].count = 0; }), "0 cables 'b-x' to 'b-nic'; allowed: 1 to 65536");
  EXPECT_EQ(changed([](GraphSpec& s) { s.cables.pop_back(); }), "no path joins GPU 'a-x' to GPU 'b-x'");
}

/// A random tree of switches with servers on it: all is there, whatever the order of vertices and cables.
RC_GTEST_PROP(Graph, OrderOfTheListDoesNotMatter, ()) {
  GraphSpec spec;
  const auto switches = *rc::gen::inRange(1U, 6U), nodes = *rc::gen::inRange(1U, 6U);
  for (std::uint32_t s = 0; s < switches; ++s) {
    spec.vertices.push_back({.name = "s" + std::to_string(s), .kind = VertexKind::spine, .node = {}, .group = {}});
    if (s > 0) {
      spec.cables.push_back(
          {*rc::gen::inRange(0U, s), s, gigabytes_per_second(10), nanoseconds(1), "up", *rc::gen::inRange(1U, 4U)});
    }
  }
  for (std::uint32_t n = 0; n < nodes; ++n) {
    spec.vertices.push_back({.name = "g" + std::to_string(n), .kind = VertexKind::gpu, .node = n, .group = {}});
    spec.cables.push_back(
        {switches + n, *rc::gen::inRange(0U, switches), gigabytes_per_second(10), nanoseconds(1), "edge"});
  }
  const Fabric straight = build_graph(spec);
  RC_ASSERT(joined(straight));
  RC_ASSERT(straight.gpu_count() == nodes);
  GraphSpec turned = spec;
  const auto last = static_cast<std::uint32_t>(spec.vertices.size() - 1);
  std::reverse(turned.vertices.begin(), turned.vertices.end());
  for (GraphSpec::Cable& it : turned.cables)
    it = {last - it.b, last - it.a, it.bandwidth, it.latency, it.tier, it.count};
  const Fabric fabric = build_graph(turned);
  RC_ASSERT(fabric.link_count() == straight.link_count());
  RC_ASSERT(fabric.vertex_count() == straight.vertex_count());
  for (std::uint32_t n = 0; n < nodes; ++n) RC_ASSERT(fabric.node_of(GpuId{n}) == NodeId{n});
}

}  // namespace
}  // namespace foretrain
