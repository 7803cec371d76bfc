// Footprints: which groups of GPUs lie alike on a fabric, so that what is found out about one can be taken over to the
// others instead of being found out again.
//
// A group's footprint is all that its bytes can cross when they divide evenly over the shortest ways: its nodes, with
// the links in, out of and into them, and the classes of switches (switch_classes.h) above these. It is there for
// fabrics on which the classes form a forest: then there is one way over classes between two switches, up to the first
// class above both and down again. Fat-trees of all sizes, leaf-spine and rail-optimised fabrics are such.
//
// Equal keys: one footprint can be laid on the other. The key spells out, member by member, which of the group's nodes
// (numbered as they come) it sits in and at what position; with a new node its kind, which is every vertex and link in
// it by position, every link that leaves or enters it with its rate, and which of its switches, in ascending order,
// that joins; with each of these switches, if new, its class and those above it up to one that is known or the last,
// each by number, with the kind of its links. So nodes and classes of equal footprints are matched one to one such that
// all this is the same, and links with them: `spot` says where a link stands in one, `link_at` which it is in another.
// Routes that divide evenly, and those by the rail rule, are made from nothing else: the ways from GPU to switch lie
// inside nodes and are chosen by position; shares follow from the order of the switches at both ends and the numbers of
// links between classes. Hence the route from the i-th member to the j-th of one group is, link by link and to the last
// bit of every share, that of the other group.
//
//   if (const Footprints* footprints = router.footprints()) {
//     Footprint first, other;
//     footprints->find(group, first), footprints->find(other_group, other);
//     if (first.key == other.key) ...  // footprints->link_at(footprints->spot(link, first), other)
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/refinement.h"
#include "topology/routing/switch_classes.h"
#include "topology/routing/switch_graph.h"

namespace foretrain {

struct Footprint {
  Digest key;
  std::vector<NodeId> nodes;            ///< in order of first appearance
  std::vector<std::uint32_t> switches;  ///< classes of switches, too
};

/// Where a link stands in a footprint: the `link`-th of its `thing`-th node or, behind the nodes, class.
struct FootprintSpot {
  std::uint32_t thing = 0;
  std::uint32_t link = 0;
};

class Footprints {
 public:
  /// None where switch classes form no forest, nodes are joined otherwise than over switches, or the vertices of a node
  /// do not follow one another.
  [[nodiscard]] static std::optional<Footprints> of(const SwitchGraph& graph, const SwitchClasses& classes);

  void find(std::span<const GpuId> group, Footprint& footprint) const;
  /// `footprint`: the one that was found last. Throws std::logic_error for a link that is not part of it, or that a
  /// route names by another (Router::alike).
  [[nodiscard]] FootprintSpot spot(LinkId link, const Footprint& footprint) const;
  [[nodiscard]] LinkId link_at(FootprintSpot spot, const Footprint& footprint) const {
    if (spot.thing >= footprint.nodes.size()) {
      const Class& c = classes_[footprint.switches[spot.thing - footprint.nodes.size()]];
      return spot.link == 0 ? c.up : c.down;
    }
    const Node& node = nodes_[footprint.nodes[spot.thing].index()];
    return spot.link < node.links_out ? LinkId{node.first_link + spot.link}
                                      : links_in_[node.first_link_in + spot.link - node.links_out];
  }

 private:
  explicit Footprints(const Fabric& fabric) : fabric_(&fabric) {}

  struct Node {
    std::uint32_t first_vertex = 0;
    std::uint32_t first_link = 0;     ///< out of its vertices, in a row
    std::uint32_t links_out = 0;      ///< those inside included
    std::uint32_t first_link_in = 0;  ///< from switches, into links_in_
    std::uint32_t first_switch = 0;   ///< into node_switches_
    std::uint32_t switches = 0;
    std::uint32_t kind = 0;
  };
  struct Class {
    LinkId up, down;  ///< the ones that stand for all to, and from, the class above
    std::uint32_t above = none;
    std::uint32_t kind = 0;  ///< of these links
  };
  struct Place {
    NodeId node;
    std::uint32_t position = 0;
  };
  /// The number that a thing has in the footprint found last.
  struct Number {
    std::uint32_t search = 0;
    std::uint32_t number = 0;
  };
  static constexpr std::uint32_t none = UINT32_MAX;

  bool index_classes(const SwitchGraph& graph, const SwitchClasses& classes);
  bool index_nodes();
  bool index_links(Node& node, std::uint32_t end);
  [[nodiscard]] Digest digest_of(const Node& node, std::uint32_t end) const;
  void climb(std::uint32_t c, Footprint& footprint) const;
  [[nodiscard]] std::uint32_t number_of(const Number& known) const;

  const Fabric* fabric_;
  std::vector<Place> places_;  ///< by GPU
  std::vector<Node> nodes_;
  std::vector<LinkId> links_in_;              ///< of all nodes
  std::vector<std::uint32_t> node_switches_;  ///< of all nodes: classes of one switch each
  std::vector<std::uint32_t> class_at_;       ///< by vertex; `none` where it is no switch
  std::vector<Class> classes_;
  std::vector<bool> is_single_;  ///< by class: it is one switch
  mutable std::uint32_t search_ = 0;
  mutable std::vector<Number> node_number_, class_number_;
};

}  // namespace foretrain
