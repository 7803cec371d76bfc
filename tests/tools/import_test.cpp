// Importers: hand-written samples against their formulas, mistakes against their exact text, hostile input, and every
// file of the reference collection.
#include "tools/import/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "scenarios/graphml.h"
#include "scenarios/scenario.h"
#include "tests/tools/run_foretrain.h"
#include "tests/tools/scratch.h"
#include "topology/analysis.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

const fs::path samples = fs::path(FORETRAIN_SOURCE_DIR) / "tests/tools/samples/import";
const fs::path reference = fs::path(FORETRAIN_SOURCE_DIR) / "../shared/reference/topologies";

const ImportKind& kind_of(std::string_view name) {
  for (const ImportKind& kind : import_kinds()) {
    if (kind.name == name) return kind;
  }
  throw std::logic_error("no such kind");
}

Imported imported(std::string_view kind, const std::string& text, const ImportOptions& options = {}) {
  return kind_of(kind).read(InputText("f", text), options);
}
std::string sample(const std::string& name) { return content_of((samples / name).string()); }

/// The message of the refusal; empty if it imports.
std::string refusal(std::string_view kind, const std::string& text, const ImportOptions& options = {}) {
  try {
    static_cast<void>(imported(kind, text, options));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// Bandwidths of the cables between two vertices, by name, each as often as there are cables.
std::vector<Bandwidth> between(const GraphSpec& graph, const std::string& a, const std::string& b) {
  std::vector<Bandwidth> found;
  for (const GraphSpec::Cable& cable : graph.cables) {
    const std::string& from = graph.vertices[cable.a].name;
    const std::string& to = graph.vertices[cable.b].name;
    if ((from == a && to == b) || (from == b && to == a)) found.insert(found.end(), cable.count, cable.bandwidth);
  }
  return found;
}
std::vector<Bandwidth> one(Bandwidth b) { return {b}; }

std::size_t count(const GraphSpec& graph, VertexKind kind) {
  return static_cast<std::size_t>(std::count_if(graph.vertices.begin(), graph.vertices.end(),
                                                [&](const GraphSpec::Vertex& it) { return it.kind == kind; }));
}
VertexKind kind_at(const GraphSpec& graph, const std::string& name) {
  for (const GraphSpec::Vertex& it : graph.vertices) {
    if (it.name == name) return it.kind;
  }
  throw std::logic_error("no vertex " + name);
}

// --- ibnetdiscover -------------------------------------------------------------------------------------------------

TEST(ImportIbnetdiscover, KeepsPortsRolesAndHosts) {
  const Imported it = imported("ibnetdiscover", sample("ibnetdiscover/records.txt"));
  const GraphSpec& graph = it.graph;
  const double lanes = 4;
  EXPECT_EQ(between(graph, "alpha/mlx5_0", "leaf-a:MQM8700/U1"), one(gigabits_per_second(lanes * 50)));  // HDR
  EXPECT_EQ(between(graph, "beta/HCA-1", "leaf-a:MQM8700/U1"), one(gigabits_per_second(lanes * 25)));    // EDR
  EXPECT_EQ(between(graph, "beta/HCA-2", "leaf-b:MQM8700/U1"), one(gigabits_per_second(lanes * 14.0625 * 64 / 66)));
  // One end says 2x, the other 4x: the lower counts.
  EXPECT_EQ(between(graph, "spine-b", "leaf-b:MQM8700/U1"), one(gigabits_per_second(2 * 50.0)));
  EXPECT_THAT(it.notes, Contains(HasSubstr("lower rate of 1 cables")));
  EXPECT_EQ(kind_at(graph, "leaf-a:MQM8700/U1"), VertexKind::leaf);
  EXPECT_EQ(kind_at(graph, "spine-a"), VertexKind::spine);
  EXPECT_EQ(count(graph, VertexKind::nic), 4U);
  EXPECT_EQ(count(graph, VertexKind::host), 2U);
  EXPECT_EQ(graph_gpus(graph), 4U);  // one a NIC
  const Fabric fabric = build_graph(graph);
  EXPECT_EQ(fabric.node_count(), 2U);
  EXPECT_EQ(fabric.nics_of(GpuId{0}).size(), 1U);
}

TEST(ImportIbnetdiscover, OptionsShapeTheServers) {
  ImportOptions options;
  options.gpus_per_node = 8;
  options.gpu = "a100-80gb";
  options.hosts = "al*";
  const Imported it = imported("ibnetdiscover", sample("ibnetdiscover/records.txt"), options);
  EXPECT_EQ(graph_gpus(it.graph), 8U);
  EXPECT_EQ(it.gpu, "a100-80gb");
  EXPECT_EQ(between(it.graph, "alpha/gpu0", "alpha/nvswitch"), one(gigabytes_per_second(300)));
  // GPUs 0 to 3 have the first NIC, 4 to 7 the second.
  EXPECT_EQ(between(it.graph, "alpha/gpu3", "alpha/mlx5_0").size(), 1U);
  EXPECT_EQ(between(it.graph, "alpha/gpu4", "alpha/mlx5_1").size(), 1U);
  EXPECT_THAT(it.notes, Contains("left out: 1 hosts that --hosts 'al*' does not name: beta"));
}

TEST(ImportIbnetdiscover, PortListAndSimulatedNetwork) {
  const Imported ports = imported("ibnetdiscover", sample("ibnetdiscover/ports.txt"));
  EXPECT_EQ(between(ports.graph, "alpha/mlx5_0", "leaf-a"), one(gigabits_per_second(4 * 100.0)));
  EXPECT_THAT(ports.notes, Contains("left out: 1 ports without a cable"));
  ImportOptions options;
  options.nic = gigabits_per_second(100);
  const Imported simulated = imported("ibnetdiscover", sample("ibnetdiscover/simulated.net"), options);
  EXPECT_EQ(between(simulated.graph, "Hca1/hca", "Switch1"), one(gigabits_per_second(100)));
  EXPECT_EQ(between(simulated.graph, "Hca2/hca", "Switch1"), one(gigabits_per_second(100 * 12 / 4.0)));
}

TEST(ImportIbnetdiscover, EveryLaneSpeed) {
  const std::map<std::string, double> lanes = {
      {"SDR", 2.5 * 8 / 10}, {"DDR", 5.0 * 8 / 10}, {"QDR", 10.0 * 8 / 10}, {"FDR10", 10}, {"FDR", 14.0625 * 64 / 66},
      {"EDR", 25},           {"HDR", 50},           {"NDR", 100},           {"XDR", 200}};
  for (const auto& [speed, rate] : lanes) {
    const std::string text = fmt::format(
        "Switch 2 \"S\"\n[1] \"H\"[1] # \"h\" 1x{0}\nCa 1 \"H\" # \"h\"\n[1] \"S\"[1] # \"S\" 1x{0}\n", speed);
    EXPECT_EQ(between(imported("ibnetdiscover", text).graph, "h/hca", "S"), one(gigabits_per_second(rate))) << speed;
  }
}

// --- servers -------------------------------------------------------------------------------------------------------

TEST(ImportNccl, SwitchedServerKeepsLinksAndSlots) {
  const Imported it = imported("nccl-topo", sample("nccl-topo/switched.xml"));
  const double link = 25;  // NVLink 4, GB/s one way
  EXPECT_EQ(it.gpu, "h100-80gb");
  EXPECT_EQ(between(it.graph, "node0/gpu0", "node0/nvswitch"), one(gigabytes_per_second((10 + 8) * link)));
  EXPECT_EQ(between(it.graph, "node0/gpu1", "node0/nvswitch"), one(gigabytes_per_second(18 * link)));
  EXPECT_EQ(between(it.graph, "node0/gpu0", "node0/pcie0"), one(gigabits_per_second(32.0 * 16)));
  EXPECT_EQ(between(it.graph, "node0/nic0", "node0/pcie0"), one(gigabits_per_second(16.0 * 16 / 2)));  // two ports
  EXPECT_EQ(build_graph(it.graph).gpu_count(), 2U);
}

TEST(ImportNccl, MeshOfXgmi) {
  const Imported it = imported("nccl-topo", sample("nccl-topo/mesh.xml"));
  EXPECT_EQ(between(it.graph, "node0/gpu0", "node0/gpu1"), one(gigabytes_per_second(2 * 64.0)));
  EXPECT_EQ(between(it.graph, "node0/host1", "node0/gpu1"), one(gigabits_per_second(16.0 * 8)));
  EXPECT_EQ(between(it.graph, "node0/host0", "node0/host1").size(), 1U);
}

TEST(ImportNccl, SeveralServersAreJoinedRailByRail) {
  ImportOptions options;
  options.nodes = 3;
  const Imported it = imported("nccl-topo", sample("nccl-topo/switched.xml"), options);
  EXPECT_EQ(graph_gpus(it.graph), 6U);
  EXPECT_EQ(between(it.graph, "node2/nic1", "leaf1"), one(gigabits_per_second(200)));
  EXPECT_EQ(between(it.graph, "leaf1", "spine0"), one(gigabits_per_second(3 * 200.0)));
  EXPECT_EQ(build_graph(it.graph).node_count(), 3U);
}

TEST(ImportNvidiaSmi, LevelsBecomeSwitchesAndHosts) {
  const Imported it = imported("nvidia-smi-topo", sample("nvidia-smi-topo/two-sockets.txt"));
  EXPECT_EQ(count(it.graph, VertexKind::host), 2U);
  EXPECT_EQ(count(it.graph, VertexKind::pcie_switch), 2U);  // PIX: one shared; PXB: one above both
  EXPECT_EQ(between(it.graph, "node0/gpu0", "node0/gpu1"), one(gigabytes_per_second(4 * 25.0)));
  EXPECT_EQ(between(it.graph, "node0/gpu0", "node0/pcie0").size(), 1U);
  EXPECT_EQ(between(it.graph, "node0/nic0", "node0/pcie0").size(), 1U);
  EXPECT_EQ(between(it.graph, "node0/nic1", "node0/pcie1").size(), 1U);
}

TEST(ImportNvidiaSmi, MoreLinksThanAGpuHasMeanAnNvswitch) {
  const Imported it = imported("nvidia-smi-topo", sample("nvidia-smi-topo/switched.txt"));
  EXPECT_EQ(between(it.graph, "node0/gpu2", "node0/nvswitch"), one(gigabytes_per_second(18 * 25.0)));
  EXPECT_EQ(count(it.graph, VertexKind::host), 2U);  // by CPU affinity
  EXPECT_EQ(it.gpu, "h100-80gb");
}

// --- Slurm ---------------------------------------------------------------------------------------------------------

TEST(ImportSlurm, TreeWithUplinksForWhatIsBeneath) {
  ImportOptions options;
  options.nics_per_node = 2;
  options.nic = gigabits_per_second(100);
  options.oversubscription = 4;
  const Imported it = imported("slurm-topology", sample("slurm-topology/tree.conf"), options);
  EXPECT_EQ(count(it.graph, VertexKind::host), 3U + 3U);
  EXPECT_EQ(kind_at(it.graph, "n08/host"), VertexKind::host);  // the range's width
  EXPECT_EQ(kind_at(it.graph, "a2b/host"), VertexKind::host);
  EXPECT_EQ(between(it.graph, "leaf0", "root"), one(gigabits_per_second(3 * 2 * 100.0 / 4)));
  const TopologyReport report = analyse(build_graph(it.graph));
  const auto tier = std::find_if(report.tiers.begin(), report.tiers.end(),
                                 [](const TierReport& t) { return t.name == "leaf-spine"; });
  ASSERT_NE(tier, report.tiers.end());
  EXPECT_DOUBLE_EQ(tier->oversubscription.value(), 4);
}

TEST(ImportSlurm, BlocksGetASwitchAbove) {
  const Imported it = imported("slurm-topology", sample("slurm-topology/block.conf"));
  EXPECT_EQ(kind_at(it.graph, "b1"), VertexKind::leaf);
  EXPECT_EQ(count(it.graph, VertexKind::spine), 1U);
  EXPECT_EQ(graph_gpus(it.graph), 4U * 8);
}

TEST(ImportSlurm, SeparateTreesNeedJoin) {
  const std::string text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n";
  EXPECT_EQ(
      refusal("slurm-topology", text),
      "f:2:1: the hosts are in 2 separate networks (under a, b); allowed: one, --hosts GLOB to choose, or --join to "
      "put a switch above them");
  ImportOptions options;
  options.join = true;
  EXPECT_EQ(build_graph(imported("slurm-topology", text, options).graph).node_count(), 2U);
}

// --- GraphML -------------------------------------------------------------------------------------------------------

TEST(ImportGraphml, NetworkOfHostsAndSwitches) {
  const Imported it = imported("graphml", sample("graphml/network.graphml"));
  EXPECT_EQ(between(it.graph, "h & 0/nic0", "tor"), one(gigabits_per_second(100)));  // the key's default
  EXPECT_EQ(between(it.graph, "1/nic0", "tor"), one(gigabytes_per_second(50)));
  EXPECT_EQ(kind_at(it.graph, "tor"), VertexKind::leaf);
}

TEST(ImportGraphml, WholeFabricOfBothDirections) {
  const Imported it = imported("graphml", sample("graphml/fabric.graphml"));
  EXPECT_EQ(between(it.graph, "x", "y"), one(gigabytes_per_second(25)));
}

TEST(Graphml, ComesBackAsItWas) {
  for (const auto& [kind, file] :
       {std::pair{"ibnetdiscover", "ibnetdiscover/records.txt"}, std::pair{"nccl-topo", "nccl-topo/switched.xml"},
        std::pair{"slurm-topology", "slurm-topology/tree.conf"}}) {
    const std::string text = to_graphml(imported(kind, sample(file)).graph);
    EXPECT_EQ(to_graphml(graph_from_graphml(InputText("g", text))), text) << file;
  }
}

// --- what is refused -----------------------------------------------------------------------------------------------

struct Mistake {
  const char* kind;
  std::string text;
  const char* message;
};

TEST(ImportMistakes, AreNamedWithTheirPlace) {
  const std::string gpu = "<pci busid=\"1\" class=\"0x0302\" link_speed=\"16 GT/s\" link_width=\"16\">";
  const std::vector<Mistake> all = {
      {"ibnetdiscover", "Switch 2 \"S\"\n[1] \"H\"[1] # \"h\" 4xHDR\n",
       "f:2:5: 'H' has no record in this file; allowed: a whole file, with a record of every node"},
      {"ibnetdiscover", "Switch 2 \"S\"\n[1] \"H\"[1]\nCa 1 \"H\"\n",
       "f:2:5: port 1 of 'S' leads to port 1 of 'H', whose record does not say so; allowed: a whole file, in which "
       "both "
       "ends tell of a cable"},
      {"ibnetdiscover", "Switch 2 \"S\n", "f:1:10: the quotes of the node's id do not end; allowed: a closing \""},
      {"ibnetdiscover", "Switch 99999999999 \"S\"\n",
       "f:1:8: found '99999999999'; allowed: the number of ports, a whole number up to 1024"},
      {"ibnetdiscover", "Switch 2 \"S\"\n[1] \"H\"[1] # \"h\" 4xZDR\n",
       "f:2:18: found '4xZDR'; allowed: a width of 1x, 2x, 4x, 8x or 12x and one of SDR, DDR, QDR, FDR10, FDR, EDR, "
       "HDR, NDR, "
       "XDR"},
      {"ibnetdiscover", "Switch 2 \"S\"\nSwitch 2 \"S\"\n", "f:2:10: a second record of 'S'; allowed: one"},
      {"ibnetdiscover", "# nothing\n",
       "f:1:1: no record of a switch or HCA; allowed: the output of ibnetdiscover, or an ibsim network"},
      {"ibnetdiscover", "caf\xc3\x28\n", "f:1:4: the byte 0xc3 is no UTF-8; allowed: text in UTF-8 or ASCII"},
      {"slurm-topology", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n",
       "f:2:1: the switches above 'b' lead back to it; allowed: a tree"},
      {"slurm-topology", "SwitchName=a Switches=b\n",
       "f:1:1: switch 'b' of 'a' has no line of its own; allowed: a SwitchName of the file"},
      {"slurm-topology", "SwitchName=a Nodes=n[1-999999999]\n",
       "f:1:22: more than 65536 names in the file; allowed: up to that"},
      {"slurm-topology", "SwitchName=a Nodes=n[1-\n", "f:1:24: a '[' without ']'; allowed: brackets in pairs"},
      {"slurm-topology", "Node=a\n",
       "f:1:1: unknown key 'Node'; allowed: SwitchName, Switches, Nodes, LinkSpeed, BlockName, BlockSizes"},
      {"nvidia-smi-topo", "GPU0 GPU1\nGPU0 X OK\n",
       "f:2:8: found 'OK', a peer status (nvidia-smi topo -p2p), which tells no topology; allowed: the table of "
       "nvidia-smi "
       "topo -m"},
      {"nvidia-smi-topo", "GPU0 GPU1\nGPU0 X PIX\n",
       "f:3:1: the table ends before the row of GPU1; allowed: a row for each of its 2 columns"},
      {"nvidia-smi-topo", "GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n",
       "f:3:1: what joins GPU1 and GPU0 differs from what joins them the other way round; allowed: a symmetric table"},
      {"nvidia-smi-topo", "GPU0 GPU1 NIC0\nGPU0 X SYS PIX\nGPU1 SYS X PIX\nNIC0 PIX PIX X\n",
       "f:3:1: GPU1 and GPU0 are nearer by way of other devices than their cell says; allowed: a table without "
       "contradiction"},
      {"nccl-topo", "<graphs/>",
       "f:1:1: a graph file of NCCL (channels, NCCL_GRAPH_FILE), not a topology; allowed: <system>, as "
       "NCCL_TOPO_DUMP_FILE "
       "writes it"},
      {"nccl-topo",
       "<system><cpu>" + gpu +
           "<gpu sm=\"90\"><nvlink target=\"9\" count=\"1\" tclass=\"0x0302\"/></gpu></pci></cpu></system>",
       "f:1:94: target '9' is no GPU of the file and its class '0x0302' no NVSwitch; allowed: a GPU's busid, or tclass "
       "0x068000"},
      {"nccl-topo", "<!DOCTYPE a [<!ENTITY x \"&y;&y;\">]><system/>",
       "f:1:1: the document type declares entities or elements; allowed: none"},
      {"graphml", "<graphml><graph><node id=\"a\"/><edge source=\"a\" target=\"b\"/></graph></graphml>",
       "f:1:31: target 'b' is no node of the graph; allowed: the id of one"},
      {"graphml", "<graphml><graph><node id=\"a\"/><edge source=\"a\" target=\"a\"/></graph></graphml>",
       "f:1:31: an edge from 'a' to itself; allowed: two nodes"},
  };
  for (const Mistake& it : all) EXPECT_EQ(refusal(it.kind, it.text), it.message) << it.text;
}

TEST(ImportMistakes, CutShortAnywhere) {
  for (const ImportKind& kind : import_kinds()) {
    for (const auto& entry : fs::directory_iterator(samples / kind.name)) {
      const std::string whole = content_of(entry.path().string());
      EXPECT_EQ(refusal(kind.name, whole), "") << entry.path();
      for (std::size_t length = 0; length < whole.size(); ++length) {
        const std::string message = refusal(kind.name, whole.substr(0, length));  // another exception fails the test
        if (!message.empty()) {
          ASSERT_THAT(message, HasSubstr("f:")) << entry.path() << " at " << length;
        }
      }
    }
  }
}

/// A byte of a sample replaced by any other: imports, or is refused with one line.
RC_GTEST_PROP(ImportMistakes, GarbledSamples, ()) {
  const auto kinds = import_kinds();
  const ImportKind& kind = kinds[*rc::gen::inRange<std::size_t>(0, kinds.size())];
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(samples / kind.name)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string text = content_of(files[*rc::gen::inRange<std::size_t>(0, files.size())].string());
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = static_cast<char>(*rc::gen::inRange(0, 256));
  }
  ImportOptions options;
  options.join = true;
  const std::string message = refusal(kind.name, text, options);
  RC_ASSERT(message.find('\n') == std::string::npos);
}

TEST(ImportMistakes, AMillionLines) {
  constexpr int lines = 1'000'000;
  std::string switches, comments, nodes;
  for (int i = 0; i < lines; ++i) {
    switches += fmt::format("Switch 1 \"{}\"\n", i);
    nodes += fmt::format("SwitchName=s{} Nodes=n{}\n", i, i);
    comments += "# x\n";
  }
  EXPECT_THAT(refusal("ibnetdiscover", switches), HasSubstr("more than 262144 NICs and switches; allowed: up to that"));
  EXPECT_THAT(refusal("slurm-topology", nodes), HasSubstr("more than 65536 names in the file; allowed: up to that"));
  EXPECT_THAT(refusal("nvidia-smi-topo", comments), HasSubstr("no line of devices"));
}

TEST(ImportMistakes, MuchMarkup) {
  std::string deep;
  for (int i = 0; i < 300'000; ++i) deep += "<pci>";
  EXPECT_THAT(refusal("nccl-topo", "<system>" + deep), HasSubstr("elements or attributes; allowed: at most 200000"));
}

// --- the command ---------------------------------------------------------------------------------------------------

TEST(ImportCommand, WritesAClusterThatTheOthersTake) {
  const Scratch scratch;
  const std::string cluster = scratch / "mine.yaml";
  const Ran ran =
      foretrain_with({"import", "ibnetdiscover", (samples / "ibnetdiscover/records.txt").string(), "-o", cluster});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("assumed: GPUs are h100-80gb (--gpu)\n"));
  EXPECT_THAT(content_of(cluster), HasSubstr("# - assumed: GPUs are h100-80gb (--gpu)\n"));
  EXPECT_EQ(scratch.listing(), "mine.yaml");
  const Cluster loaded = load_cluster(cluster, default_catalogue());
  EXPECT_EQ(build_fabric(loaded, loaded.max_gpus).gpu_count(), 4U);
  const Ran shown = foretrain_with({"topology", cluster});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("leaf-spine"));
}

TEST(ImportCommand, LargeGraphsGetAFileOfTheirOwn) {
  const Scratch scratch;
  put(scratch / "topology.conf", "SwitchName=s0 Nodes=n[1-40]\n");
  const std::string cluster = scratch / "mine.yaml";
  const Ran ran = foretrain_with({"import", "slurm-topology", scratch / "topology.conf", "-o", cluster});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(scratch.listing(), "mine.graphml mine.yaml topology.conf");
  EXPECT_THAT(content_of(cluster), HasSubstr("file: \"mine.graphml\""));
  const Cluster loaded = load_cluster(cluster, default_catalogue());
  EXPECT_EQ(build_fabric(loaded, loaded.max_gpus).gpu_count(), 40U * 8);
  put(scratch / "mine.graphml", "<graphml><graph></graphml>");
  try {
    static_cast<void>(load_cluster(cluster, default_catalogue()));
    FAIL() << "a broken graph file loads";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mine.graphml:1:"));
  }
}

TEST(ImportCommand, Misuse) {
  const std::string file = (samples / "slurm-topology/tree.conf").string();
  const auto mistake = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "import");
    const Ran ran = foretrain_with(args);
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.out, "");
    return ran.err;
  };
  EXPECT_EQ(
      mistake({"slurm", file, "-o", "-"}),
      "foretrain import: unknown kind 'slurm'; allowed: ibnetdiscover, nccl-topo, nvidia-smi-topo, slurm-topology, "
      "graphml, hf-config\n");
  EXPECT_EQ(mistake({"slurm-topology", file}),
            "foretrain import: -o is missing; needed: the file to write, or - for standard output\n");
  EXPECT_THAT(mistake({"slurm-topology", file, "-o", "-", "--gpu", "h100"}),
              HasSubstr("--gpu 'h100' is not in the catalogue"));
  EXPECT_THAT(mistake({"slurm-topology", file, "-o", "-", "--nic", "0Gb/s"}),
              HasSubstr("--nic 0B/s; allowed: above 0"));
  EXPECT_THAT(mistake({"slurm-topology", "/nonexistent", "-o", "-"}),
              HasSubstr("/nonexistent: cannot be read: no such file"));
}

// --- models --------------------------------------------------------------------------------------------------------

const std::string small_config =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
    " \"intermediate_size\": 128, \"vocab_size\": 1000}\n";

TEST(ImportModel, WritesAModelWithItsAssumptions) {
  const Scratch scratch;
  put(scratch / "config.json", small_config);
  const Ran ran = foretrain_with({"import", "hf-config", scratch / "config.json", "-o", scratch / "tiny.yaml"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  // Two layers: QKV and projection 64 x 4 x 4 x 128, MLP 3 x 64 x 128, norms 2 x 64 + 2 x 128; twice 1000 x 64; 64.
  const int parameters = 2 * (4 * 64 * 512 + 3 * 64 * 128 + 2 * 64 + 2 * 128) + 2 * 64'000 + 64;
  const std::string assumed = "assumed: head_dim 128, which the family has where none is said\n";
  EXPECT_EQ(ran.err,
            fmt::format("{0}{1} parameters, {1} of them active: {2}\n", assumed, parameters, scratch / "tiny.yaml"));
  const std::string text = content_of(scratch / "tiny.yaml");
  EXPECT_THAT(text, HasSubstr(fmt::format("# From config.json (hf-config): {} parameters.\n# {}name: tiny\nlayers: 2\n",
                                          parameters, assumed)));
  put(scratch / "s.yaml",
      "model: ./tiny.yaml\ncluster: {use: dgx-h100-ndr, gpus: 8}\ntraining: {sequence_length: 128, global_batch: 8}\n");
  const Scenario s = load_scenario(scratch / "s.yaml", {}, default_catalogue());
  EXPECT_EQ(s.model.parameters(), parameters);
  EXPECT_EQ(s.model.head_dim, 128);
}

TEST(ImportModel, GoesToStandardOutputByDefault) {
  const Scratch scratch;
  put(scratch / "config.json", small_config);
  const Ran ran = foretrain_with({"import", "hf-config", scratch / "config.json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("name: config\nlayers: 2\nhidden: 64\n"));
}

TEST(ImportModel, Misuse) {
  const Scratch scratch;
  put(scratch / "config.json", "{\"model_type\": \"llama\",\n \"hidden_size\": 0}");
  const Ran ran = foretrain_with({"import", "hf-config", scratch / "config.json", "-o", scratch / "m.yaml"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err,
              HasSubstr("config.json:2:17: hidden_size: 0 is out of range; allowed: a whole number from 1 to"));
  EXPECT_EQ(scratch.listing(), "config.json");
  EXPECT_EQ(foretrain_with({"import", "hf-config", scratch / "config.json", "--gpu", "h100-80gb"}).err,
            "foretrain import: --gpu is for clusters; allowed with hf-config: -o FILE\n");
}

// --- the reference collection --------------------------------------------------------------------------------------

/// What of a kind's files is refused, and why; all others import.
const std::map<std::string, std::string>& refused_files() {
  static const std::map<std::string, std::string> all = {
      {"ibnetdiscover-ports/exporter-ports-edr-hdr.out", "2 separate networks"},  // a cutting of a larger list
      {"ibnetdiscover-ports/ldms-p-format.txt", "found 'PortSelect:'"},           // counters of ports
      {"nccl-xml/aws-g5.48xl.xml", "no device is known to be a GPU"},             // bus ids only
      {"nccl-graph-xml/azure-ncv4-graph.xml", "a graph file of NCCL"},
      {"nvidia-smi-topo-p2p/p2p-status-x4.txt", "a peer status"},
      {"slurm-topology-conf/tree-slurm-case6.conf", "3 separate networks"},
      {"slurm-topology-conf/tree-superpod.conf", "node 'node-n051' is under 's2' and 's4'"},
  };
  return all;
}

TEST(ImportReference, EveryFileImportsOrIsRefusedWithAReason) {
  if (!fs::exists(reference)) GTEST_SKIP() << "no reference collection beside the source tree";
  const std::map<std::string, std::string> kinds = {{"ibnetdiscover", "ibnetdiscover"},
                                                    {"ibnetdiscover-ports", "ibnetdiscover"},
                                                    {"ibsim-net", "ibnetdiscover"},
                                                    {"nccl-xml", "nccl-topo"},
                                                    {"nccl-graph-xml", "nccl-topo"},
                                                    {"nvidia-smi-topo", "nvidia-smi-topo"},
                                                    {"nvidia-smi-topo-p2p", "nvidia-smi-topo"},
                                                    {"slurm-topology-conf", "slurm-topology"}};
  std::size_t read = 0;
  for (const auto& [folder, kind] : kinds) {
    for (const auto& entry : fs::directory_iterator(reference / folder)) {
      const std::string name = folder + "/" + entry.path().filename().string();
      const std::string text = content_of(entry.path().string());
      ++read;
      if (const auto expected = refused_files().find(name); expected != refused_files().end()) {
        EXPECT_THAT(refusal(kind, text), HasSubstr(expected->second)) << name;
        continue;
      }
      const Imported it = imported(kind, text);
      const Fabric fabric = build_graph(it.graph);
      EXPECT_EQ(fabric.gpu_count(), graph_gpus(it.graph)) << name;
    }
  }
  EXPECT_GE(read, 34U);
}

TEST(ImportReference, ForeignKindsAreRefusedByEveryReader) {
  if (!fs::exists(reference)) GTEST_SKIP() << "no reference collection beside the source tree";
  for (const char* folder : {"astra-sim-json", "astra-sim-yml", "cluster-model-yaml", "hpcc-ns3-topology", "htsim-topo",
                             "lstopo-xml", "netq-json", "simai-topo"}) {
    for (const auto& entry : fs::directory_iterator(reference / folder)) {
      const std::string text = content_of(entry.path().string());
      for (const ImportKind& kind : import_kinds()) {
        EXPECT_THAT(refusal(kind.name, text), HasSubstr("allowed: ")) << kind.name << " reads " << entry.path();
      }
    }
  }
}

TEST(ImportReference, KnownFiguresOfRealMachines) {
  if (!fs::exists(reference)) GTEST_SKIP() << "no reference collection beside the source tree";
  const auto read = [](const char* kind, const char* file) {
    return imported(kind, content_of((reference / file).string()));
  };
  const Imported tree = read("ibnetdiscover", "ibnetdiscover/fattree-k4-n3-generated.topo");
  EXPECT_EQ(graph_gpus(tree.graph), 2U * 4 * 4 * 4);  // its head: 128 HCAs, 80 switches
  EXPECT_EQ(
      count(tree.graph, VertexKind::leaf) + count(tree.graph, VertexKind::spine) + count(tree.graph, VertexKind::core),
      80U);
  EXPECT_EQ(count(tree.graph, VertexKind::core), 16U);
  const Imported oci = read("nccl-topo", "nccl-xml/oci-h100.xml");
  for (int g = 0; g < 8; ++g) {  // 18 NVLinks a GPU
    EXPECT_EQ(between(oci.graph, fmt::format("node0/gpu{}", g), "node0/nvswitch"), one(gigabytes_per_second(450)));
  }
  const Imported a3 = read("nvidia-smi-topo", "nvidia-smi-topo/h200-a3ultra.txt");
  EXPECT_EQ(count(a3.graph, VertexKind::pcie_switch), 4U);  // two GPUs and two NICs on each
}

}  // namespace
}  // namespace foretrain
