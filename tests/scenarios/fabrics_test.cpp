// The sections node and fabric: every kind and shape from its keys, back to text, and what is wrong with them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>

#include "scenarios/graphml.h"
#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using namespace foretrain::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// `good` on a cluster of its own.
std::string on(std::int64_t gpus, const std::string& fabric, const std::string& node = {}) {
  return fmt::format(
      "model: llama3-8b\ncluster:\n  gpu: h100-80gb\n  gpus: {}\n  fabric: {}\n{}"
      "  transport: {{node: hopper, network: infiniband}}\n"
      "training: {{sequence_length: 8192, global_batch: {}}}\n",
      gpus, fabric, node.empty() ? "" : "  node: " + node + "\n", gpus);
}

/// The same values from the canonical text: the same text again, and a fabric with as many links.
Scenario loads_back(const std::string& text, const std::vector<std::string>& sets = {}) {
  const Scenario s = parse(text, sets);
  const Scenario again = parse_scenario(to_yaml(s), "again.yaml", {}, "/no/catalogue/is/needed");
  EXPECT_EQ(to_yaml(again), to_yaml(s));
  const Fabric fabric = build_fabric(s.cluster, s.gpus), copy = build_fabric(again.cluster, again.gpus);
  EXPECT_EQ(fabric.gpu_count(), static_cast<std::size_t>(s.gpus));
  EXPECT_EQ(copy.vertex_count(), fabric.vertex_count());
  EXPECT_EQ(copy.link_count(), fabric.link_count());
  return s;
}

// --- Networks -----------------------------------------------------------------------------------------------------

TEST(FabricKeys, RailOnly) {
  const Scenario s = loads_back(on(64, "{kind: rail_only, radix: 128}"));
  EXPECT_EQ(std::get<RailOnlySpec>(s.cluster.fabric).radix, 128U);
  EXPECT_EQ(s.cluster.max_gpus, 128 * 8);
  EXPECT_EQ(s.network.routing, Routing::rail);  // no other joins all pairs
}

TEST(FabricKeys, LeafSpine) {
  const Scenario s = loads_back(
      on(64, "{kind: leaf_spine, leaves: 4, leaf_ports: 16, spines: 3, cables_per_spine: 2, uplink: 800Gb/s}"));
  const auto& spec = std::get<LeafSpineSpec>(s.cluster.fabric);
  EXPECT_EQ(spec.leaves * spec.leaf_ports, 64U);
  EXPECT_EQ(spec.uplink, gigabits_per_second(800));
  EXPECT_EQ(s.cluster.max_gpus, 64);
}

TEST(FabricKeys, Dragonfly) {
  const Scenario s = loads_back(on(64, "{kind: dragonfly, routers: 4, hosts: 4, global_links: 2}"));
  const auto& spec = std::get<DragonflySpec>(s.cluster.fabric);
  EXPECT_EQ(spec.groups, 4U * 2U + 1U);
  EXPECT_EQ(s.cluster.max_gpus, 9 * 4 * 4);
  EXPECT_THAT(mistakes(on(64, "{kind: dragonfly, routers: 4, hosts: 4, global_links: 2, groups: 10}")),
              HasSubstr("10 is out of range; allowed: a whole number from 1 to 9"));
  EXPECT_THAT(mistakes(on(64, "{kind: dragonfly, routers: 4, hosts: 3}")),
              HasSubstr("a group has 12 ports for nodes of 8 NICs"));
}

TEST(FabricKeys, DragonflyPlus) {
  const Scenario s = loads_back(
      on(64, "{kind: dragonfly_plus, leaves: 4, spines: 2, hosts: 4, global_links: 3, groups: 5, global: 100Gb/s}"));
  EXPECT_EQ(std::get<DragonflyPlusSpec>(s.cluster.fabric).global, gigabits_per_second(100));
  EXPECT_EQ(s.cluster.max_gpus, 5 * 4 * 4);
}

TEST(FabricKeys, PodTree) {
  const Scenario s = loads_back(on(
      20,
      "{kind: pod_tree, levels: [{fan_out: 4, bandwidth: 100GB/s}, {fan_out: 8, bandwidth: 1600Gb/s, latency: 1us}]}"));
  const auto& levels = std::get<PodTreeSpec>(s.cluster.fabric).levels;
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[1].bandwidth, gigabytes_per_second(200));
  EXPECT_EQ(s.cluster.max_gpus, 32);
  EXPECT_THAT(mistakes(on(8, "{kind: pod_tree, levels: []}")), HasSubstr("0 levels; allowed: 1 to 4"));
  EXPECT_THAT(mistakes(on(8, "{kind: pod_tree, levels: [{fan_out: 4}]}")), HasSubstr("missing key 'bandwidth'"));
  EXPECT_THAT(mistakes(on(8, "{kind: pod_tree, levels: 3}")), HasSubstr("allowed: a list of {fan_out"));
}

TEST(FabricKeys, Sites) {
  const Scenario s = loads_back(on(96,
                                   "{kind: sites, sites: 2, gpus_per_site: 64, link: 100GB/s, link_latency: 2ms, "
                                   "site: {kind: rail_optimised, nodes_per_group: 4}}"));
  const auto& spec = std::get<SitesSpec>(s.cluster.fabric);
  EXPECT_EQ(spec.links.latency, milliseconds(2));
  EXPECT_EQ(std::get<RailSpec>(spec.site).nodes_per_group, 4U);
  EXPECT_EQ(node_of(spec).gpus, 8U);
  EXPECT_EQ(s.cluster.max_gpus, 128);
  EXPECT_THAT(mistakes(on(96, "{kind: sites, site: {kind: torus, shape: [4]}}")),
              HasSubstr("found 'torus'; allowed: rail_optimised, fat_tree, meta_clos, leaf_spine"));
  EXPECT_THAT(mistakes(on(96, "{kind: sites, gpus_per_site: 60, site: {kind: rail_optimised}}")),
              HasSubstr("sites of 60 GPUs; allowed: whole nodes of 8"));
  EXPECT_THAT(mistakes(on(96, "{kind: sites, gpus_per_site: 96, site: {kind: meta_clos, gpus_per_rack: 12}}")),
              HasSubstr("gpus_per_rack 12 with nodes of 8 GPUs; allowed: a multiple of 8"));
  EXPECT_THAT(mistakes(on(96, "{kind: sites}")), HasSubstr("missing key 'site'"));
}

// --- Torus --------------------------------------------------------------------------------------------------------

std::vector<std::string> slice(const std::string& shape, std::int64_t gpus) {
  return {fmt::format("cluster={{use: tpu-v4-pod, gpus: {}, fabric: {{shape: {}}}}}", gpus, shape), "parallelism.tp=1",
          fmt::format("parallelism.dp={}", gpus), fmt::format("training.global_batch={}", gpus)};
}

TEST(TorusKeys, ShapeAsUsersWriteIt) {
  const auto shape = [](const std::string& text, std::int64_t gpus) {
    return std::get<TorusSpec>(loads_back(good, slice(text, gpus)).cluster.fabric).shape;
  };
  EXPECT_THAT(shape("4x4x8", 128), ElementsAre(4, 4, 8));
  EXPECT_THAT(shape("[4, 4, 8]", 128), ElementsAre(4, 4, 8));
  EXPECT_THAT(shape("16", 16), ElementsAre(16));
  EXPECT_THAT(shape("2x2x2x2", 16), ElementsAre(2, 2, 2, 2));
  for (const char* wrong : {"4x", "x4", "4xx4", "4x4x", "04x4", "4x-4", "4X4", "0x4", "4x1025", "four", "4 x 4"}) {
    EXPECT_THAT(mistakes(good, slice(wrong, 16)), HasSubstr("such as 4x4x8 or [4, 4, 8]")) << wrong;
  }
  EXPECT_THAT(mistakes(good, slice("1x1x1x1x1x1x1", 1)), HasSubstr("7 dimensions; allowed: 1 to 6"));
  EXPECT_THAT(mistakes(good, slice("[]", 1)), HasSubstr("0 dimensions; allowed: 1 to 6"));
  EXPECT_THAT(mistakes(good, slice("4x4x8", 64)), HasSubstr("64 GPUs on a torus of 128; allowed: all of them"));
}

TEST(TorusKeys, WraparoundByWholeCubes) {
  const auto spec = [](const std::string& shape, std::int64_t gpus) {
    return std::get<TorusSpec>(loads_back(good, slice(shape, gpus)).cluster.fabric);
  };
  EXPECT_TRUE(wraps(spec("4x4x8", 128)));
  EXPECT_FALSE(wraps(spec("2x2x4", 16)));
  EXPECT_THAT(mistakes(good, {"cluster={use: tpu-v4-pod, gpus: 4096, fabric: {wraparound: some}}"}),
              HasSubstr("found 'some'; allowed: true, false, auto"));
}

// --- Graphs -------------------------------------------------------------------------------------------------------

const char* const two_gpus =
    "{kind: graph, vertices: [{name: g0, kind: gpu, node: 0}, {name: g1, kind: gpu, node: 1}, "
    "{name: top of rack, kind: leaf, group: 2}], "
    "links: [{from: g0, to: top of rack, bandwidth: 50GB/s, tier: edge, count: 2}, "
    "{from: top of rack, to: g1, bandwidth: 50GB/s, latency: 2us}]}";

TEST(GraphKeys, VerticesAndLinks) {
  const Scenario s = loads_back(on(2, two_gpus));
  const auto& spec = std::get<GraphSpec>(s.cluster.fabric);
  ASSERT_EQ(spec.vertices.size(), 3U);
  EXPECT_EQ(spec.vertices[2].name, "top of rack");
  EXPECT_EQ(spec.vertices[2].group, 2U);
  EXPECT_EQ(spec.vertices[1].node, 1U);
  EXPECT_EQ(spec.cables[0].count, 2U);
  EXPECT_EQ(spec.cables[1].latency, microseconds(2));
  EXPECT_EQ(s.cluster.max_gpus, 2);
}

TEST(GraphKeys, MistakesAreNamed) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = two_gpus;
    text.replace(text.find(from), from.size(), to);
    return mistakes(on(2, text));
  };
  EXPECT_THAT(with("to: g1", "to: g2"), HasSubstr("no vertex is named 'g2'; allowed: a name from the list 'vertices'"));
  EXPECT_THAT(with("kind: leaf", "kind: switch"),
              HasSubstr("found 'switch', did you mean 'nvswitch'?; allowed: gpu, nic, host, pcie, nvswitch"));
  EXPECT_THAT(with("name: top of rack", "name: g0"), HasSubstr("no vertex is named 'top of rack'"));
  EXPECT_THAT(with("{name: g1,", "{name: g0, kind: nic, node: 0}, {name: g1,"),
              HasSubstr("two vertices are named 'g0'"));
  EXPECT_THAT(with(", node: 1", ""), HasSubstr("GPU 'g1' is in no node"));
  EXPECT_THAT(with("from: g0", "from: g1"), HasSubstr("no path joins GPU 'g0' to GPU 'g1'"));
  EXPECT_THAT(with("bandwidth: 50GB/s, tier", "tier"), HasSubstr("missing key 'bandwidth'"));
  EXPECT_THAT(with("tier: edge", "teir: edge"), HasSubstr("unknown key 'teir', did you mean 'tier'?"));
  EXPECT_THAT(with("count: 2", "count: 0"), HasSubstr("0 is out of range"));
  EXPECT_THAT(mistakes(on(2, "{kind: graph}")), HasSubstr("missing key 'vertices'"));
}

/// The transport's rates of rings are those of its own NVLink: a server with less of it has rings in proportion.
TEST(GraphKeys, ServersHaveTheirOwnNvlinks) {
  const auto line = [](const std::string& links) {
    const std::string vertices =
        "{name: a, kind: gpu, node: 0}, {name: b, kind: gpu, node: 0}, {name: s, kind: nvswitch, node: 0}, "
        "{name: p, kind: pcie, node: 0}, {name: n, kind: nic, node: 0}";
    const std::string graph = fmt::format("{{kind: graph, vertices: [{}], links: [{}]}}", vertices, links);
    const Scenario s = loads_back(on(2, graph));
    const Transport h100 = parse(good).cluster.transport;
    const NodeTransport& node = s.cluster.transport.node;
    EXPECT_NEAR(node.ring_rate / node.line, h100.node.ring_rate / h100.node.line, 1e-9);
    return node.line;
  };
  const std::string pcie =
      "{from: a, to: p, bandwidth: 64GB/s}, {from: b, to: p, bandwidth: 32GB/s}, {from: n, to: p, "
      "bandwidth: 64GB/s}, {from: s, to: p, bandwidth: 1GB/s}";
  const auto with = [&](const std::string& nvlinks) { return line(nvlinks + pcie); };
  EXPECT_EQ(with("{from: a, to: s, bandwidth: 25GB/s, count: 8}, {from: s, to: b, bandwidth: 25GB/s, count: 18}, "),
            gigabytes_per_second(200));
  EXPECT_EQ(with("{from: a, to: b, bandwidth: 50GB/s, count: 2}, {from: a, to: b, bandwidth: 20GB/s}, "),
            gigabytes_per_second(120));
  EXPECT_EQ(with(""), gigabytes_per_second(32));
}

/// A large graph of a file stays there, so that the canonical text loads.
TEST(GraphKeys, OfALargeFileAreCanonicallyTheFile) {
  constexpr std::uint32_t nodes = 4096;
  GraphSpec graph;
  graph.vertices.push_back({.name = "leaf", .kind = VertexKind::leaf, .node = {}, .group = {}});
  for (std::uint32_t n = 0; n < nodes; ++n) {
    graph.vertices.push_back({.name = fmt::format("gpu{}", n), .kind = VertexKind::gpu, .node = n, .group = {}});
    graph.vertices.push_back({.name = fmt::format("nic{}", n), .kind = VertexKind::nic, .node = n, .group = {}});
    graph.cables.push_back({2 * n + 1, 2 * n + 2, gigabytes_per_second(64), nanoseconds(500), "pcie"});
    graph.cables.push_back({2 * n + 2, 0, gigabytes_per_second(50), nanoseconds(600), "nic"});
  }
  const auto folder = std::filesystem::temp_directory_path() / "foretrain-large-graph-test";
  std::filesystem::create_directories(folder);
  const auto file = folder / "it's large.graphml";
  std::ofstream(file) << to_graphml(graph);
  const Scenario s = loads_back(on(nodes, "{kind: graph, file: \"" + file.string() + "\"}"));
  EXPECT_LT(to_yaml(s).size(), 10'000U);
  EXPECT_THAT(to_yaml(s), HasSubstr("file: \"" + file.string() + "\""));
  std::filesystem::remove_all(folder);
}

// --- Nodes --------------------------------------------------------------------------------------------------------

const char* const rails = "{kind: rail_optimised}";

TEST(NodeKeys, EveryShapeLoadsBack) {
  for (const char* node :
       {"{shape: nvswitch}", "{shape: full_mesh}", "{shape: cube_mesh, nics: 4}", "{gpus: 16, nvlink_racks: 2}"}) {
    loads_back(on(64, rails, node));
  }
  const Scenario s =
      loads_back(on(16, rails, "{shape: pcie, pcie: 32GB/s, sockets: 2, gpus_per_switch: 4, cpu_link: 40GB/s}"));
  const NodeSpec& node = std::get<RailSpec>(s.cluster.fabric).node;
  EXPECT_EQ(node.shape, NodeShape::pcie);
  EXPECT_EQ(node.gpus_per_switch, 4U);
  EXPECT_EQ(s.cluster.transport.node.line, gigabytes_per_second(32));  // what its GPUs meet over
  // An H100 server without its NVLink: its key stays and counts for nothing.
  EXPECT_EQ(mistakes(good, {"cluster.node.shape=pcie"}), "");
}

TEST(NodeKeys, KeysOfOtherShapesAreRefused) {
  EXPECT_THAT(mistakes(good, {"cluster.node.sockets=2"}),
              StartsWith("--set cluster.node.sockets=2: means nothing to the shape nvswitch"));
  EXPECT_THAT(mistakes(good, {"cluster.node.shape=full_mesh", "cluster.node.nvlink_racks=2"}),
              HasSubstr("means nothing to the shape full_mesh"));
  EXPECT_THAT(mistakes(good, {"cluster.node.shape=cube_mesh", "cluster.node.gpus=4", "cluster.node.nics=4"}),
              HasSubstr("a cube_mesh of 4 GPUs; allowed: 8"));
  EXPECT_THAT(mistakes(good, {"cluster.node.nvlink_racks=3"}), HasSubstr("3 racks of 8 GPUs; allowed: a divisor"));
  EXPECT_THAT(mistakes(good, {"cluster.node.shape=mesh"}),
              HasSubstr("found 'mesh'; allowed: nvswitch, full_mesh, cube_mesh, pcie"));
}

// --- Any ----------------------------------------------------------------------------------------------------------

RC_GTEST_PROP(FabricKeys, AnyDragonflyLoadsBack, ()) {
  const auto a = *rc::gen::inRange(1, 6), h = *rc::gen::inRange(1, 4);
  const auto groups = *rc::gen::inRange(1, a * h + 2);
  const std::string fabric =
      fmt::format("{{kind: dragonfly, routers: {}, hosts: 8, global_links: {}, groups: {}, global_latency: {}ns}}", a,
                  h, groups, *rc::gen::inRange(1, 5000));
  const Scenario s = parse(on(8 * *rc::gen::inRange(1, a * groups + 1), fabric));
  RC_ASSERT(to_yaml(parse(to_yaml(s))) == to_yaml(s));
  RC_ASSERT(build_fabric(s.cluster, s.gpus).gpu_count() == static_cast<std::size_t>(s.gpus));
}

}  // namespace
}  // namespace foretrain
