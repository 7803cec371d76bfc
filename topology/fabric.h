// Fabric: the cluster as a graph. Vertices are GPUs, NICs and switches; every directed edge is a link with a
// bandwidth, a latency and a tier. Immutable once built; 25,000 GPUs (10^5 vertices, 10^6 links) build in well under
// a second. Boost.Graph stays inside fabric.cpp; what shows here are ids and spans.
//
//   FabricBuilder b;
//   TierId nvlink = b.tier("nvlink");
//   NodeId node = b.node();
//   VertexId sw = b.add(VertexKind::nvswitch, node), gpu = b.add(VertexKind::gpu, node);
//   b.connect(gpu, sw, gigabytes_per_second(450), nanoseconds(500), nvlink);    // both directions
//   Fabric fabric = std::move(b).build();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/ids.h"
#include "topology/units.h"

namespace foretrain {

enum class VertexKind : std::uint8_t { gpu, nic, host, pcie_switch, nvswitch, leaf, spine, core, router };
[[nodiscard]] std::string_view to_text(VertexKind kind);

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  std::uint32_t ordinal = 0;           ///< position among the vertices of its kind: leaf 17
  std::uint32_t in_node = 0;           ///< position among the vertices of its kind in its node: GPU 3 of the node
  std::optional<NodeId> node;          ///< none for switches of the network
  std::optional<std::uint32_t> group;  ///< dragonfly group or site of a switch, where the fabric has such
};

struct Link {
  VertexId from;
  VertexId to;
  Bandwidth bandwidth;  ///< one direction, line rate
  Duration latency;     ///< of one hop: propagation and switching
  TierId tier;
};

struct Tier {
  std::string name;       ///< "nvlink", "pcie", "nic", "leaf-spine", "spine-core", "torus"
  std::size_t links = 0;  ///< directed links
  Bandwidth bandwidth;    ///< sum over its directed links
};

/// Extent of a torus by dimension, x first; routers are numbered x fastest.
using TorusShape = std::vector<std::uint32_t>;

class Fabric {
 public:
  Fabric(Fabric&&) noexcept;
  Fabric& operator=(Fabric&&) noexcept;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  ~Fabric();

  [[nodiscard]] std::size_t vertex_count() const;
  [[nodiscard]] std::size_t link_count() const;
  [[nodiscard]] std::size_t gpu_count() const;
  [[nodiscard]] std::size_t node_count() const;

  [[nodiscard]] const Vertex& vertex(VertexId v) const;
  [[nodiscard]] const Link& link(LinkId l) const;
  /// Links are sorted by their source, so the links out of a vertex are consecutive.
  [[nodiscard]] std::span<const Link> links() const;
  struct LinkRange {
    LinkId first;
    LinkId last;
  };  ///< [first, last)
  [[nodiscard]] LinkRange out_links(VertexId v) const;
  [[nodiscard]] std::span<const LinkId> in_links(VertexId v) const;

  [[nodiscard]] VertexId vertex_of(GpuId gpu) const;
  [[nodiscard]] std::optional<GpuId> gpu_at(VertexId v) const;
  [[nodiscard]] NodeId node_of(GpuId gpu) const;
  /// The NICs nearest to a GPU inside its node, all at the fewest hops over PCIe switches and hosts; ascending, empty
  /// where GPUs hang directly on the network (torus). Those with a cable out of the node, if it reaches any.
  [[nodiscard]] std::span<const VertexId> nics_of(GpuId gpu) const;
  [[nodiscard]] std::span<const GpuId> gpus_of(NodeId node) const;

  [[nodiscard]] std::span<const Tier> tiers() const;
  [[nodiscard]] const std::optional<TorusShape>& torus() const;
  /// "node12/gpu3", "leaf17": stable, unique, short.
  [[nodiscard]] std::string name(VertexId v) const;
  /// "node12/gpu3 > node12/nvswitch0"
  [[nodiscard]] std::string name(LinkId l) const;

 private:
  friend class FabricBuilder;
  struct Graph;
  explicit Fabric(std::unique_ptr<Graph> graph);
  std::unique_ptr<Graph> graph_;
};

/// Collects vertices and cables, then `build`s the immutable graph. Misuse (an unknown vertex, a bandwidth of 0,
/// a GPU outside any node) throws std::invalid_argument.
class FabricBuilder {
 public:
  FabricBuilder();
  ~FabricBuilder();
  FabricBuilder(FabricBuilder&&) noexcept;
  FabricBuilder& operator=(FabricBuilder&&) noexcept;

  /// The tier of that name, made on first use; tiers keep their order of first use.
  TierId tier(std::string_view name);
  NodeId node();
  VertexId add(VertexKind kind);
  VertexId add(VertexKind kind, NodeId node);
  /// Puts a switch into a dragonfly group or a site.
  void set_group(VertexId vertex, std::uint32_t group);
  /// A cable: one link each way.
  void connect(VertexId a, VertexId b, Bandwidth each_way, Duration latency, TierId tier);
  /// One link only: for graphs that are given link by link, each direction by itself.
  void connect_one_way(VertexId from, VertexId to, Bandwidth bandwidth, Duration latency, TierId tier);
  void set_torus(TorusShape shape);
  [[nodiscard]] Fabric build() &&;

 private:
  struct Draft;
  std::unique_ptr<Draft> draft_;
};

}  // namespace foretrain
