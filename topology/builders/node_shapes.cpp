// The insides of a server, one function a shape.
//
// nvswitch    GPUs around one NVSwitch; NICs around one host; each GPU to its NICs (HGX H100 and relatives). With
//             several NVLink racks: an NVSwitch a rack, and one above them that carries all they send (NVIDIA GB200:
//             up to 576 GPUs in one NVLink domain over two levels of switches).
// full_mesh   the same without NVSwitch, a cable between every two GPUs: MI300X has 7 links of 64 GB/s (AMD CDNA 3
//             white paper, 2023).
// cube_mesh   two quads, each with all its pairs joined, and GPU i of one to GPU i of the other; of the six NVLinks of
//             a GPU two neighbours get two: NVIDIA DGX-1 with Tesla V100 System Architecture (WP-08437, 2017).
// pcie        GPUs and NICs on PCIe switches under the host bridges of the sockets, which the CPU link joins.

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "topology/builders/node.h"

namespace foretrain {
namespace {

/// The GPUs that a NIC serves are neighbours: GPU g uses NIC g * nics / gpus, or all of that block.
struct Block {
  std::uint32_t first;
  std::uint32_t last;  ///< one past
};

Block nics_for(const NodeSpec& spec, std::uint32_t gpu) {
  if (spec.nics >= spec.gpus) {
    const std::uint32_t each = spec.nics / spec.gpus;
    return {gpu * each, (gpu + 1) * each};
  }
  const std::uint32_t nic = gpu / (spec.gpus / spec.nics);
  return {nic, nic + 1};
}

/// The first of the GPUs that use a NIC.
std::uint32_t first_gpu_of(const NodeSpec& spec, std::uint32_t nic) {
  return spec.nics >= spec.gpus ? nic / (spec.nics / spec.gpus) : nic * (spec.gpus / spec.nics);
}

/// A server being built: its first `gpus` GPUs.
struct Server {
  FabricBuilder& fabric;
  const NodeSpec& spec;
  std::uint32_t gpus;
  NodeId node;
  TierId nvlink;
  TierId pcie;
};

/// NICs around one host, each GPU to its NICs; `join` says how a GPU is joined to those before it.
template <class Join>
std::vector<VertexId> add_flat(const Server& s, Join join) {
  const VertexId host = s.fabric.add(VertexKind::host, s.node);
  std::vector<VertexId> nics(nics_for(s.spec, s.gpus - 1).last);
  for (VertexId& nic : nics) {
    nic = s.fabric.add(VertexKind::nic, s.node);
    s.fabric.connect(host, nic, s.spec.pcie, s.spec.pcie_latency, s.pcie);
  }
  std::vector<VertexId> before;
  for (std::uint32_t g = 0; g < s.gpus; ++g) {
    const VertexId gpu = s.fabric.add(VertexKind::gpu, s.node);
    join(gpu, before);
    before.push_back(gpu);
    const Block block = nics_for(s.spec, g);
    for (std::uint32_t n = block.first; n < block.last; ++n) {
      s.fabric.connect(gpu, nics[n], s.spec.pcie, s.spec.pcie_latency, s.pcie);
    }
  }
  return nics;
}

std::vector<VertexId> add_nvswitch(const Server& s) {
  const std::uint32_t per_rack = s.spec.gpus / s.spec.nvlink_racks;
  std::vector<VertexId> switches;
  for (std::uint32_t first = 0; first < s.gpus; first += per_rack) {
    switches.push_back(s.fabric.add(VertexKind::nvswitch, s.node));
  }
  if (switches.size() > 1) {
    const VertexId above = s.fabric.add(VertexKind::nvswitch, s.node);
    for (const VertexId below : switches) {
      s.fabric.connect(below, above, s.spec.nvlink * per_rack, s.spec.nvlink_latency, s.nvlink);
    }
  }
  return add_flat(s, [&](VertexId gpu, const std::vector<VertexId>& before) {
    s.fabric.connect(gpu, switches[before.size() / per_rack], s.spec.nvlink, s.spec.nvlink_latency, s.nvlink);
  });
}

std::vector<VertexId> add_full_mesh(const Server& s) {
  const Bandwidth each = s.spec.gpus > 1 ? scaled(s.spec.nvlink, 1.0 / (s.spec.gpus - 1)) : s.spec.nvlink;
  return add_flat(s, [&](VertexId gpu, const std::vector<VertexId>& before) {
    for (const VertexId other : before) {
      s.fabric.connect(other, gpu, each, s.spec.nvlink_latency, s.nvlink);
    }
  });
}

/// NVLinks between GPU `row` and GPU `column` of a DGX-1 with V100s; six a GPU.
constexpr std::array<std::array<std::uint8_t, 8>, 8> cube_mesh_links = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                                         {1, 0, 2, 1, 0, 2, 0, 0},
                                                                         {1, 2, 0, 2, 0, 0, 1, 0},
                                                                         {2, 1, 2, 0, 0, 0, 0, 1},
                                                                         {2, 0, 0, 0, 0, 1, 1, 2},
                                                                         {0, 2, 0, 0, 1, 0, 2, 1},
                                                                         {0, 0, 1, 0, 1, 2, 0, 2},
                                                                         {0, 0, 0, 1, 2, 1, 2, 0}}};
constexpr int cube_mesh_links_a_gpu = 6;

/// Host bridges, PCIe switches, NICs and GPUs; `gpus` gets the GPUs, the NICs are returned.
class PcieTree {
 public:
  explicit PcieTree(const Server& server) : s_(server), per_socket_((s_.spec.gpus - 1) / s_.spec.sockets + 1) {}

  std::vector<VertexId> add(std::vector<VertexId>& gpus) {
    add_hosts();
    std::vector<VertexId> nics(nics_for(s_.spec, s_.gpus - 1).last);
    std::vector<VertexId> slots;
    for (std::uint32_t g = 0; g < s_.gpus; ++g) {
      slots.push_back(slot(g));
    }
    for (std::size_t n = 0; n < nics.size(); ++n) {
      nics[n] = s_.fabric.add(VertexKind::nic, s_.node);
      plug(nics[n], slots[first_gpu_of(s_.spec, static_cast<std::uint32_t>(n))]);
    }
    for (const VertexId at : slots) {
      gpus.push_back(s_.fabric.add(VertexKind::gpu, s_.node));
      plug(gpus.back(), at);
    }
    return nics;
  }

 private:
  void add_hosts() {
    for (std::uint32_t i = 0; i < s_.spec.sockets; ++i) {
      hosts_.push_back(s_.fabric.add(VertexKind::host, s_.node));
      for (std::uint32_t j = 0; j < i; ++j) {
        s_.fabric.connect(hosts_[j], hosts_[i], s_.spec.cpu_link, s_.spec.cpu_latency, s_.fabric.tier("cpu"));
      }
    }
  }

  /// Where GPU `g` is plugged in; adds its switch with the first GPU of it.
  VertexId slot(std::uint32_t g) {
    const VertexId host = hosts_[g / per_socket_];
    if (s_.spec.gpus_per_switch == 0) {
      return host;
    }
    if (g % per_socket_ % s_.spec.gpus_per_switch == 0) {
      switch_ = s_.fabric.add(VertexKind::pcie_switch, s_.node);
      plug(switch_, host);
    }
    return switch_;
  }

  void plug(VertexId device, VertexId at) {
    s_.fabric.connect(device, at, s_.spec.pcie, s_.spec.pcie_latency, s_.pcie);
  }

  const Server& s_;
  std::uint32_t per_socket_;
  std::vector<VertexId> hosts_;
  VertexId switch_;  ///< being filled
};

std::vector<VertexId> add_cube_mesh(const Server& s) {
  std::vector<VertexId> gpus;
  std::vector<VertexId> nics = PcieTree(s).add(gpus);
  const Bandwidth each = scaled(s.spec.nvlink, 1.0 / cube_mesh_links_a_gpu);
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      for (int link = 0; link < cube_mesh_links.at(a).at(b); ++link) {
        s.fabric.connect(gpus[a], gpus[b], each, s.spec.nvlink_latency, s.nvlink);
      }
    }
  }
  return nics;
}

/// Returns the NICs.
std::vector<VertexId> add_inside(const Server& server) {
  switch (server.spec.shape) {
    case NodeShape::nvswitch:
      return add_nvswitch(server);
    case NodeShape::full_mesh:
      return add_full_mesh(server);
    case NodeShape::cube_mesh:
      return add_cube_mesh(server);
    case NodeShape::pcie:
      break;
  }
  std::vector<VertexId> all;
  return PcieTree(server).add(all);
}

}  // namespace

std::string_view to_text(NodeShape shape) {
  switch (shape) {
    case NodeShape::nvswitch:
      return "nvswitch";
    case NodeShape::full_mesh:
      return "full_mesh";
    case NodeShape::cube_mesh:
      return "cube_mesh";
    case NodeShape::pcie:
      break;
  }
  return "pcie";
}

void check_shape(const NodeSpec& spec) {
  if (spec.nvlink_racks == 0 || spec.gpus % spec.nvlink_racks != 0 ||
      (spec.nvlink_racks > 1 && spec.shape != NodeShape::nvswitch)) {
    throw std::invalid_argument(
        fmt::format("{} NVLink racks of {} GPUs in the shape {}; allowed: a divisor of the "
                    "GPUs, and 1 in other shapes than nvswitch",
                    spec.nvlink_racks, spec.gpus, to_text(spec.shape)));
  }
  if (spec.shape == NodeShape::cube_mesh && spec.gpus != cube_mesh_links.size()) {
    throw std::invalid_argument(fmt::format("a cube mesh of {} GPUs; allowed: 8", spec.gpus));
  }
  if (spec.sockets == 0 || spec.sockets > 64) {
    throw std::invalid_argument(fmt::format("a node has {} sockets; allowed: 1 to 64", spec.sockets));
  }
}

std::vector<NicPort> add_node(FabricBuilder& fabric, const NodeSpec& spec, std::uint32_t gpus) {
  // The tiers first, so that all fabrics list them in one order.
  const TierId nvlink = fabric.tier("nvlink");
  const TierId pcie = fabric.tier("pcie");
  const NodeId node = fabric.node();
  const NodeSpec& make = make_of(spec, node.value);
  std::vector<NicPort> ports;
  for (const VertexId nic :
       add_inside({.fabric = fabric, .spec = make, .gpus = gpus, .node = node, .nvlink = nvlink, .pcie = pcie})) {
    ports.push_back({nic, make.nic, make.nic_latency});
  }
  return ports;
}

}  // namespace foretrain
