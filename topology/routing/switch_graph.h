// SwitchGraph: the part of a fabric that forwards between nodes (leaves, spines, cores, routers) and how GPUs hang on
// it.
//
// Most GPUs hang on the network in the same way as others: those with the same switches, by as many ports each, share
// an Attachment. Distances and shares are found per pair of attachments instead of per pair of GPUs, which is what
// makes tens of thousands of routes cheap. GPUs, hosts, NVSwitches and NICs are never in the middle of a path here; the
// PCIe and the NICs at both ends belong to the ports, and so does the NVLink to a neighbour whose NIC a GPU borrows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/fabric.h"
#include "topology/routing/torus_metric.h"

namespace foretrain {

using SwitchId = Id<struct SwitchTag>;
using AttachmentId = Id<struct AttachmentTag>;

/// One way of a GPU onto the network, to a first switch: over a NIC and the PCIe to it, or (torus) directly.
struct Port {
  SwitchId at;
  std::uint32_t first_link = 0;  ///< of its links there and back, which the graph holds
  std::uint32_t hops = 0;        ///< links there, and as many back
};

/// Which ways between switches count.
enum class Ways : std::uint8_t {
  any,
  /// Links between switches of different groups are used only to enter a group of the destination: the minimal ways
  /// of a dragonfly (local, global, local). The same as `any` unless every switch is in a group.
  one_global_hop,
};

class SwitchGraph {
 public:
  explicit SwitchGraph(const Fabric& fabric, Ways ways = Ways::any);

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
  /// Its ports are those of its node's other GPUs, over NVLink: it has no NIC with a cable (NCCL's PXN).
  [[nodiscard]] bool borrows(GpuId gpu) const { return borrows_[gpu.index()]; }
  /// GPU > ... > switch.
  [[nodiscard]] std::span<const LinkId> way_out(const Port& port) const {
    return std::span(port_links_).subspan(port.first_link, port.hops);
  }
  /// Switch > ... > GPU.
  [[nodiscard]] std::span<const LinkId> way_in(const Port& port) const {
    return std::span(port_links_).subspan(port.first_link + port.hops, port.hops);
  }

  [[nodiscard]] std::size_t attachment_count() const { return attachments_.size(); }
  [[nodiscard]] AttachmentId attachment(GpuId gpu) const { return attachment_of_[gpu.index()]; }
  /// Switches of the ports, ascending, as often as there are ports.
  [[nodiscard]] std::span<const SwitchId> switches_of(AttachmentId a) const { return attachments_[a.index()].at; }

  /// Links from a GPU to its first switch.
  [[nodiscard]] std::size_t hops_to_switch(AttachmentId a) const { return attachments_[a.index()].hops; }

  /// Groups of switches, numbered anew in ascending order; 0 unless every switch is in one.
  [[nodiscard]] std::size_t group_count() const { return group_count_; }
  [[nodiscard]] std::uint32_t group(SwitchId s) const { return group_of_[s.index()]; }
  /// All switches of a group as a destination; only with Ways::one_global_hop.
  [[nodiscard]] AttachmentId group_as_destination(std::uint32_t group) const {
    return id_at<AttachmentId>(attachments_.size() - group_count_ + group);
  }

  static constexpr std::uint16_t unreachable = 0xffff;

 private:
  struct Hops {
    std::uint32_t first = 0;
    std::uint32_t count : 31 = 0;  ///< 0 = not looked up yet
    bool in_pool : 1 = false;
  };
  /// A breadth-first search against the links, which goes on where it stopped.
  struct Search {
    std::vector<std::uint16_t> distance;  ///< by switch; empty = not begun
    std::vector<SwitchId> queue;
    std::size_t head = 0;
    std::vector<std::uint32_t> groups;  ///< of the destination, with Ways::one_global_hop
    std::vector<Hops> nearer;           ///< by switch: the edges that lead nearer; empty until asked for
    std::vector<Edge> pool;             ///< those lists of them that are no run of `edges_`
  };

 public:
  /// The ways to one destination. Good until the next `toward`.
  class Toward {
   public:
    /// Switch links to the nearest switch of the destination; `unreachable` may also mean: farther than the sources.
    [[nodiscard]] std::uint16_t distance(SwitchId s) const {
      return search_ == nullptr ? graph_->torus_->distance(s.value, goal_.value) : search_->distance[s.index()];
    }
    /// Edges to the next switches on the shortest ways from a switch on such a way. Good until the next call.
    [[nodiscard]] std::span<const Edge> nearer(SwitchId here) const;

   private:
    friend class SwitchGraph;
    const SwitchGraph* graph_ = nullptr;
    Search* search_ = nullptr;  ///< none on a whole torus, where coordinates tell the distance
    SwitchId goal_;
  };
  /// `sources`: the switches from which ways are asked for.
  [[nodiscard]] Toward toward(AttachmentId destination, std::span<const SwitchId> sources) const;

 private:
  struct Attachment {
    std::vector<SwitchId> at;
    std::uint32_t hops = 0;
  };
  void begin(Search& search, AttachmentId destination) const;
  /// Handles the next switch of the queue.
  void expand(Search& search) const;
  [[nodiscard]] static std::uint16_t nearest(const Search& search, std::span<const SwitchId> sources);
  [[nodiscard]] bool is_allowed(SwitchId from, SwitchId to, const Search& search) const;
  void look_up_nearer(Search& search, SwitchId here) const;

  void index_switches();
  void index_groups();
  void index_edges();
  void index_ports();
  void intern_attachments();
  void add_groups_as_attachments();
  /// A port and its links, not yet in `port_links_`.
  struct Way {
    SwitchId at;
    std::vector<LinkId> out;
    std::vector<LinkId> back;
  };
  [[nodiscard]] std::vector<Way> ports_by_nic(GpuId gpu) const;
  [[nodiscard]] std::vector<Way> ports_directly(GpuId gpu) const;
  [[nodiscard]] std::vector<Way> ports_borrowed(GpuId gpu) const;
  /// The way from `from` to `to`, backwards. Cables are laid both ways, so it is there; of parallel cables all go back
  /// over the first.
  [[nodiscard]] std::vector<LinkId> way_back(std::span<const LinkId> way) const;

  const Fabric& fabric_;
  Ways ways_;
  std::vector<VertexId> switches_;
  std::vector<std::optional<SwitchId>> switch_at_;  ///< by vertex
  std::vector<std::uint32_t> group_of_;             ///< by switch
  std::size_t group_count_ = 0;
  std::vector<std::size_t> first_edge_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> first_back_edge_;  ///< edges by their head, for the search from the destination
  std::vector<SwitchId> back_edges_;
  std::vector<std::size_t> first_port_;
  std::vector<Port> ports_;
  std::vector<LinkId> port_links_;
  std::vector<bool> borrows_;  ///< by GPU
  std::vector<AttachmentId> attachment_of_;
  std::vector<Attachment> attachments_;
  std::optional<TorusMetric> torus_;
  mutable std::vector<Search> searches_;  ///< by destination
  mutable std::size_t bytes_held_ = 0;    ///< by searches
  mutable std::vector<Edge> scratch_;     ///< what `nearer` found on a torus
};

}  // namespace foretrain
