#include "tools/import/server_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "scenarios/graphml.h"
#include "scenarios/problems.h"

namespace foretrain {
namespace {

constexpr std::size_t devices_most = 4096;  ///< of one server

}  // namespace

ServerDraft::Device ServerDraft::add(const std::string& name, VertexKind kind, std::size_t offset) {
  if (server_.vertices.size() == devices_most) {
    input_.fail(offset, fmt::format("more than {} devices; allowed: up to that in a server", devices_most));
  }
  input_.check_words(offset, "name", name);
  server_.vertices.push_back({.name = name, .kind = kind, .node = 0, .group = {}});
  const auto made = static_cast<Device>(server_.vertices.size() - 1);
  if (kind == VertexKind::gpu) gpus_.push_back(made);
  return made;
}

ServerDraft::Device ServerDraft::add_nic(const std::string& name, Bandwidth rate, std::size_t offset) {
  nics_.push_back({add(name, VertexKind::nic, offset), rate});
  return nics_.back().device;
}

void ServerDraft::connect(Device a, Device b, Bandwidth each_way, ServerLink link) {
  const HopLatencies hop;
  switch (link) {
    case ServerLink::nvlink:
      nvlink_ = true;
      server_.cables.push_back({a, b, each_way, hop.nvlink, "nvlink", 1});
      break;
    case ServerLink::pcie:
      server_.cables.push_back({a, b, each_way, hop.pcie, "pcie", 1});
      break;
    case ServerLink::cpu:
      server_.cables.push_back({a, b, each_way, hop.pcie, "cpu", 1});
      break;
  }
}

void ServerDraft::add_nvswitch(Bandwidth each_way) {
  const Device nvswitch = add("nvswitch", VertexKind::nvswitch, 0);
  for (const Device gpu : gpus_) connect(gpu, nvswitch, each_way, ServerLink::nvlink);
}

void ServerDraft::add_network(GraphSpec& graph, std::uint32_t nodes) const {
  const HopLatencies hop;
  const auto devices = static_cast<std::uint32_t>(server_.vertices.size());
  const auto spine = static_cast<std::uint32_t>(graph.vertices.size());
  graph.vertices.push_back({.name = "spine0", .kind = VertexKind::spine, .node = {}, .group = {}});
  for (std::uint32_t rail = 0; rail < nics_.size(); ++rail) {
    const auto leaf = static_cast<std::uint32_t>(graph.vertices.size());
    graph.vertices.push_back({.name = fmt::format("leaf{}", rail), .kind = VertexKind::leaf, .node = {}, .group = {}});
    const Nic& nic = nics_[rail];
    for (std::uint32_t n = 0; n < nodes; ++n) {
      graph.cables.push_back({n * devices + nic.device, leaf, nic.rate, hop.nic, "nic", 1});
    }
    graph.cables.push_back({leaf, spine, nic.rate * nodes, hop.cable, "leaf-spine", 1});
  }
}

Imported ServerDraft::finish(const ImportOptions& options, const GpuFacts& facts, std::vector<std::string> notes) {
  if (gpus_.empty()) input_.fail(0, "no device is known to be a GPU; allowed: a server with GPUs");
  Imported imported;
  GraphSpec& graph = imported.graph;
  const std::size_t vertices = options.nodes * (server_.vertices.size() + 1) + nics_.size() + 1;
  const std::size_t cables = options.nodes * (server_.cables.size() + nics_.size()) + nics_.size();
  if (vertices > graph_vertices_max || cables > graph_cables_max) {
    input_.fail(0, fmt::format("{} such servers make {} vertices and {} cables; allowed: up to {} and {}",
                               options.nodes, vertices, cables, graph_vertices_max, graph_cables_max));
  }
  const auto devices = static_cast<std::uint32_t>(server_.vertices.size());
  for (std::uint32_t n = 0; n < options.nodes; ++n) {
    for (GraphSpec::Vertex vertex : server_.vertices) {
      vertex.name = fmt::format("node{}/{}", n, vertex.name);
      vertex.node = n;
      graph.vertices.push_back(std::move(vertex));
    }
    for (GraphSpec::Cable cable : server_.cables) {
      cable.a += n * devices;
      cable.b += n * devices;
      graph.cables.push_back(std::move(cable));
    }
  }
  if (options.nodes > 1) {
    if (nics_.empty()) input_.fail(0, "the server has no NIC; allowed: --nodes 1, or a file with NICs");
    add_network(graph, options.nodes);
    notes.push_back(fmt::format(
        "assumed: {} such servers, NIC r of each on leaf switch r, one spine at full bandwidth above", options.nodes));
  } else {
    notes.emplace_back("assumed: one server, for the file describes one (--nodes makes more)");
  }
  note_latencies(notes);
  try {
    static_cast<void>(build_graph(graph));
  } catch (const std::invalid_argument& impossible) {
    input_.fail(0, impossible.what());
  }
  imported.gpu = facts.name;
  imported.nvlink = facts.nvlink;
  imported.node_transport = facts.node_transport;
  imported.notes = std::move(notes);
  return imported;
}

}  // namespace foretrain
