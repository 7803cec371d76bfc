// SwitchGraph: the part of a fabric that forwards between nodes (leaves, spines, cores, routers) and how GPUs hang on
// it.
//
// Most GPUs hang on the network in the same way as others: those with the same switches, by as many ports each, share
// an Attachment. Distances and shares are found per pair of attachments instead of per pair of GPUs, which is what
// makes tens of thousands of routes cheap. GPUs, hosts, NVSwitches and NICs are never in the middle of a path here; the
// NICs at both ends belong to the ports.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/fabric.h"

namespace foretrain {

using SwitchId = Id<struct SwitchTag>;
using AttachmentId = Id<struct AttachmentTag>;

/// One way of a GPU onto the network: its link into the first switch, by a NIC or (torus) directly.
struct Port {
  SwitchId at;
  std::optional<LinkId> to_nic;    ///< GPU > NIC
  LinkId to_switch;                ///< NIC > switch, or GPU > switch
  std::optional<LinkId> from_nic;  ///< NIC > GPU
  LinkId from_switch;              ///< switch > NIC, or switch > GPU
};

class SwitchGraph {
 public:
  explicit SwitchGraph(const Fabric& fabric);

  struct Edge {
    LinkId link;
    SwitchId to;
  };

  [[nodiscard]] const Fabric& fabric() const { return fabric_; }
  [[nodiscard]] std::size_t switch_count() const { return switches_.size(); }
  [[nodiscard]] VertexId vertex(SwitchId s) const { return switches_[s.index()]; }
  [[nodiscard]] std::span<const Edge> edges(SwitchId s) const {
    return std::span(edges_).subspan(first_edge_[s.index()], first_edge_[s.index() + 1] - first_edge_[s.index()]);
  }
  /// Ports of a GPU, by switch. Empty for a GPU without network.
  [[nodiscard]] std::span<const Port> ports(GpuId gpu) const {
    return std::span(ports_).subspan(first_port_[gpu.index()], first_port_[gpu.index() + 1] - first_port_[gpu.index()]);
  }

  [[nodiscard]] std::size_t attachment_count() const { return attachments_.size(); }
  [[nodiscard]] AttachmentId attachment(GpuId gpu) const { return attachment_of_[gpu.index()]; }
  /// Switches of the ports, ascending, as often as there are ports.
  [[nodiscard]] std::span<const SwitchId> switches_of(AttachmentId a) const { return attachments_[a.index()].at; }
  /// Links from a GPU to its first switch.
  [[nodiscard]] std::size_t hops_to_switch(AttachmentId a) const { return attachments_[a.index()].hops; }

  static constexpr std::uint16_t unreachable = 0xffff;
  /// By switch: switch links to the nearest switch of `destination`. Searched on demand and kept: all switches up to
  /// as far as the nearest of `source` have theirs, those farther off may still read `unreachable`. Good until the next
  /// call.
  [[nodiscard]] std::span<const std::uint16_t> distances(AttachmentId destination, AttachmentId source) const;

 private:
  struct Attachment {
    std::vector<SwitchId> at;
    std::size_t hops = 0;
  };
  /// A breadth-first search against the links, which goes on where it stopped.
  struct Search {
    std::vector<std::uint16_t> distance;  ///< by switch; empty = not begun
    std::vector<SwitchId> queue;
    std::size_t head = 0;
  };
  void begin(Search& search, AttachmentId destination) const;
  /// Handles the next switch of the queue.
  void expand(Search& search) const;
  [[nodiscard]] std::uint16_t nearest(const Search& search, AttachmentId source) const;

  void index_switches();
  void index_edges();
  void index_ports();
  void intern_attachments();
  [[nodiscard]] std::vector<Port> ports_by_nic(GpuId gpu) const;
  [[nodiscard]] std::vector<Port> ports_directly(GpuId gpu) const;

  const Fabric& fabric_;
  std::vector<VertexId> switches_;
  std::vector<std::optional<SwitchId>> switch_at_;  ///< by vertex
  std::vector<std::size_t> first_edge_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> first_back_edge_;  ///< edges by their head, for the search from the destination
  std::vector<SwitchId> back_edges_;
  std::vector<std::size_t> first_port_;
  std::vector<Port> ports_;
  std::vector<AttachmentId> attachment_of_;
  std::vector<Attachment> attachments_;
  mutable std::vector<Search> searches_;  ///< by destination
  mutable std::size_t searches_held_ = 0;
};

/// The link between two vertices, the first of several; none when they are not neighbours.
[[nodiscard]] std::optional<LinkId> find_link(const Fabric& fabric, VertexId from, VertexId to);

}  // namespace foretrain
