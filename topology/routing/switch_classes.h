// Switches, and links between them, that no route which divides evenly over all shortest ways can tell apart.
//
// The switches are refined (topology/refinement.h) from colours that tell every switch with GPUs apart from all others,
// by edges labelled with direction, bandwidth and tier. Take two switches of a class that came out and any destination.
// Both are as far from it: a way of one leads from class to class and has a twin from the other that ends in the same
// class, which is the destination alone. So they have equally many next links on shortest ways, into each class equally
// many; and by induction from the source outwards, which is alone in its class too, switches of a class hold equal
// shares and hand on equal shares over all links from one class to another. (Al-Fares' fat-tree: the upper switches of
// one pod are a class, as are all cores.) So a route can be found on the classes, and be said by one link of each kind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/routing/router.h"
#include "topology/routing/switch_graph.h"

namespace foretrain {

class SwitchClasses {
 public:
  explicit SwitchClasses(const SwitchGraph& graph);

  /// Whether any two switches are alike.
  [[nodiscard]] bool some_alike() const { return count_ < class_of_.size(); }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint32_t class_of(SwitchId s) const { return class_of_[s.index()]; }
  /// By link: the first of the links that are loaded the same; itself where there is no other.
  [[nodiscard]] const std::vector<LinkId>& links_alike() const { return links_alike_; }

  /// Links of one kind between the switches of two classes.
  struct Edge {
    LinkId first;             ///< the one that stands for all
    std::uint32_t to = 0;     ///< class
    std::uint32_t links = 0;  ///< out of each switch
    std::uint32_t into = 0;   ///< into each switch of the other class
  };
  /// Out of a class; only where some switches are alike.
  [[nodiscard]] std::span<const Edge> edges(std::uint32_t c) const {
    return std::span(edges_).subspan(begin_[c], begin_[c + 1] - begin_[c]);
  }

  /// How one flow divides.
  struct Division {
    std::vector<double> at_source;   ///< by source: share that starts there; 0 where others are nearer
    std::vector<LinkShare> between;  ///< one link of those alike, and its share
    std::vector<double> at_goal;     ///< by goal: share that arrives there
  };
  /// From the nearest of `sources` (as often as a switch is named, so many parts it starts with) to the nearest of
  /// `goals`. Empty when no way leads there.
  [[nodiscard]] Division divide(std::span<const SwitchId> sources, std::span<const SwitchId> goals) const;

 private:
  /// A breadth-first search, level by level.
  struct Side {
    std::vector<std::uint64_t> seen;      ///< by class: the last search that met it
    std::vector<std::uint16_t> distance;  ///< by class, of that search
    std::vector<std::vector<std::uint32_t>> levels;
    std::size_t depth = 0;  ///< the last level
  };

  void index_edges(const SwitchGraph& graph, const std::vector<std::uint32_t>& first_switch);
  [[nodiscard]] std::span<const std::uint32_t> back_edges(std::uint32_t c) const {
    return std::span(back_edges_).subspan(back_begin_[c], back_begin_[c + 1] - back_begin_[c]);
  }
  void begin(Side& side, std::span<const SwitchId> switches) const;
  [[nodiscard]] std::size_t width(bool forward) const;
  bool widen(bool forward) const;
  bool meet() const;
  void mark_ways() const;
  void step(std::uint32_t from, std::size_t level, std::vector<LinkShare>& between) const;
  [[nodiscard]] bool leads_on(std::uint32_t to, std::size_t level) const;
  void hold(std::uint32_t c, double share) const;

  std::vector<std::uint32_t> class_of_;  ///< by switch
  std::uint32_t count_ = 0;
  std::vector<LinkId> links_alike_;
  std::vector<std::size_t> begin_;  ///< by class, into edges_
  std::vector<Edge> edges_;
  std::vector<std::size_t> back_begin_;
  std::vector<std::uint32_t> back_edges_;  ///< classes with a link into the class
  mutable std::uint64_t search_ = 0;
  mutable Side from_, to_;
  mutable std::vector<std::uint64_t> marked_;  ///< by class: the last search on whose shortest ways it is
  mutable std::vector<double> held_;           ///< by class: share of each of its switches; 0 between calls
  mutable std::vector<std::uint32_t> level_, next_level_;
};

}  // namespace foretrain
