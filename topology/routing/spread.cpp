// Spread: at the source and at every switch the bytes divide evenly over all links that lie on a shortest path, as
// adaptive routing or packet spraying do when the network is idle.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "topology/routing/footprint.h"
#include "topology/routing/policies.h"
#include "topology/routing/switch_classes.h"

namespace foretrain {
namespace {

/// How a flow divides between two attachments; the same for all GPUs that hang there.
struct Division {
  std::vector<double> into_port;    ///< by port of the source
  std::vector<LinkShare> between;   ///< switch to switch
  std::vector<double> out_of_port;  ///< by port of the destination

  [[nodiscard]] std::size_t size() const { return into_port.size() + between.size() + out_of_port.size() + 8; }
};

class Spread final : public Router {
 public:
  Spread(const Fabric& fabric, Ways ways, bool first_of_alike) : graph_(fabric, ways), held_(graph_.switch_count(), 0) {
    if (first_of_alike && ways == Ways::any) classes_.emplace(graph_);
    if (classes_ && !classes_->some_alike()) classes_.reset();
  }

  [[nodiscard]] std::span<const LinkId> alike() const override {
    return classes_ ? std::span<const LinkId>(classes_->links_alike()) : std::span<const LinkId>();
  }

  [[nodiscard]] const Footprints* footprints() const override {
    if (!footprints_) footprints_ = classes_ ? Footprints::of(graph_, *classes_) : std::nullopt;
    return *footprints_ ? &**footprints_ : nullptr;
  }

  void route(GpuId from, GpuId to, std::uint64_t /*flow*/, std::vector<LinkShare>& path) const override {
    if (from == to || route_in_node(graph_.fabric(), from, to, path)) {
      return;
    }
    const Division& division = division_of(from, to);
    const std::span<const Port> in = graph_.ports(from);
    const std::span<const Port> out = graph_.ports(to);
    const std::size_t begin = path.size();
    for (std::size_t i = 0; i < in.size(); ++i) {
      append(path, begin, graph_.way_out(in[i]), division.into_port[i]);
    }
    path.insert(path.end(), division.between.begin(), division.between.end());
    const std::size_t last = path.size();
    for (std::size_t i = 0; i < out.size(); ++i) {
      append(path, last, graph_.way_in(out[i]), division.out_of_port[i]);
    }
  }

 private:
  /// Appends the share, or adds it where a link is already there (NICs behind one PCIe switch) since `begin`.
  static void append(std::vector<LinkShare>& path, std::size_t begin, std::span<const LinkId> way, double share) {
    if (share == 0) {
      return;
    }
    for (const LinkId link : way) {
      const auto first = path.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto known = std::find_if(first, path.end(), [&](const LinkShare& it) { return it.link == link; });
      if (known == path.end()) {
        path.push_back({link, share});
      } else {
        known->share += share;
      }
    }
  }

  const Division& division_of(GpuId from, GpuId to) const {
    const std::uint64_t key = std::uint64_t{graph_.attachment(from).value} << 32 | graph_.attachment(to).value;
    const auto known = divisions_.find(key);
    if (known != divisions_.end()) {
      return known->second;
    }
    // Some 100 MB of shares; a job's routes come in runs over the same switches, so starting afresh is cheap enough.
    constexpr std::size_t most = std::size_t{6} << 20;
    Division division = classes_ ? divide_by_class(from, to) : divide(from, to);
    if (divisions_held_ + division.size() > most) {
      divisions_.clear();
      divisions_held_ = 0;
    }
    divisions_held_ += division.size();
    return divisions_.emplace(key, std::move(division)).first->second;
  }

  [[nodiscard]] Division divide(GpuId from, GpuId to) const {
    const SwitchGraph::Toward toward =
        graph_.toward(graph_.attachment(to), graph_.switches_of(graph_.attachment(from)));
    const std::uint16_t least = shortest(graph_, from, to, toward);
    const std::span<const Port> in = graph_.ports(from);
    const auto nearest =
        std::count_if(in.begin(), in.end(), [&](const Port& port) { return toward.distance(port.at) == least; });
    Division division;
    std::vector<SwitchId> level;  // the switches that many hops from the end that hold part of the flow
    for (const Port& port : in) {
      const double share = toward.distance(port.at) == least ? 1.0 / static_cast<double>(nearest) : 0.0;
      division.into_port.push_back(share);
      hold(port.at, share, level);
    }
    while (toward.distance(level.front()) > 0) {
      level = step(level, toward, division.between);
    }
    std::vector<double> held;
    for (const Port& port : graph_.ports(to)) held.push_back(held_[port.at.index()]);
    deliver(to, held, division);
    for (const SwitchId s : level) {
      held_[s.index()] = 0;
    }
    return division;
  }

  [[nodiscard]] Division divide_by_class(GpuId from, GpuId to) const {
    SwitchClasses::Division found =
        classes_->divide(graph_.switches_of(graph_.attachment(from)), graph_.switches_of(graph_.attachment(to)));
    if (found.at_source.empty()) throw_no_path(graph_.fabric(), from, to);
    Division division{.into_port = std::move(found.at_source), .between = std::move(found.between), .out_of_port = {}};
    deliver(to, found.at_goal, division);
    return division;
  }

  void hold(SwitchId s, double share, std::vector<SwitchId>& level) const {
    if (share > 0 && held_[s.index()] == 0) {
      level.push_back(s);
    }
    held_[s.index()] += share;
  }

  /// Hands what each switch of the level holds to the next; empties them.
  std::vector<SwitchId> step(const std::vector<SwitchId>& level, const SwitchGraph::Toward& toward,
                             std::vector<LinkShare>& between) const {
    std::vector<SwitchId> next_level;
    for (const SwitchId here : level) {
      const std::span<const SwitchGraph::Edge> nearer = toward.nearer(here);
      const double share = std::exchange(held_[here.index()], 0) / static_cast<double>(nearer.size());
      for (const SwitchGraph::Edge& edge : nearer) {
        between.push_back({edge.link, share});
        hold(edge.to, share, next_level);
      }
    }
    return next_level;
  }

  /// Each last switch divides what it holds over its ports to the destination. `held` by port: what its switch holds.
  void deliver(GpuId to, std::span<const double> held, Division& division) const {
    const std::span<const Port> out = graph_.ports(to);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto ports_here =
          std::count_if(out.begin(), out.end(), [&](const Port& other) { return other.at == out[i].at; });
      division.out_of_port.push_back(held[i] / static_cast<double>(ports_here));
    }
  }

  SwitchGraph graph_;
  struct PairHash {
    std::size_t operator()(std::uint64_t pair) const { return (pair ^ pair >> 31) * 0x9e3779b97f4a7c15ULL >> 16; }
  };
  /// By the attachments of both ends.
  mutable std::unordered_map<std::uint64_t, Division, PairHash> divisions_;  // looked up only, never iterated
  mutable std::size_t divisions_held_ = 0;
  mutable std::vector<double> held_;                             ///< by switch; all 0 between calls
  mutable std::optional<std::optional<Footprints>> footprints_;  ///< once asked for
  std::optional<SwitchClasses> classes_;  ///< when routes name one of links that are alike, and some are
};

}  // namespace

std::unique_ptr<Router> make_spread(const Fabric& fabric, Ways ways, bool first_of_alike) {
  return std::make_unique<Spread>(fabric, ways, first_of_alike);
}

}  // namespace foretrain
