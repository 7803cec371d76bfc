#include "topology/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "topology/routing/switch_graph.h"

namespace foretrain {
namespace {

bool forwards(VertexKind kind) {
  return kind == VertexKind::leaf || kind == VertexKind::spine || kind == VertexKind::core ||
         kind == VertexKind::router;
}

// ---- names --------------------------------------------------------------------------------------------------------

class Names {
 public:
  explicit Names(const Fabric& fabric) {
    for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
      const auto vertex = id_at<VertexId>(v);
      by_name_.emplace(fabric.name(vertex), vertex);
    }
  }
  [[nodiscard]] std::optional<VertexId> find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const auto& [name, vertex] : by_name_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, VertexId> by_name_;
};

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

class Resolver {
 public:
  explicit Resolver(const Fabric& fabric) : fabric_(fabric), names_(fabric) {
    reading_.remaining.assign(fabric.link_count(), 1.0);
  }

  FaultReading run(std::span<const FabricFault> faults) {
    for (std::size_t i = 0; i < faults.size(); ++i) {
      fault_ = i;
      remaining_ = faults[i].remaining;
      switch (faults[i].kind) {
        case FabricFault::Kind::link:
          cables(faults[i].name);
          break;
        case FabricFault::Kind::nic:
          nic(faults[i].name);
          break;
        case FabricFault::Kind::tier:
          tier(faults[i].name);
          break;
      }
    }
    return std::move(reading_);
  }

 private:
  void mistake(std::string name, std::vector<std::string> known) {
    reading_.mistakes.push_back({fault_, std::move(name), std::move(known)});
  }
  void degrade(LinkId link) { reading_.remaining[link.index()] *= remaining_; }

  void cables(const std::string& name) {
    const auto arrow = name.find('>');
    const std::string ends[] = {trimmed(name.substr(0, arrow)),
                                arrow == std::string::npos ? std::string() : trimmed(name.substr(arrow + 1))};
    const std::optional<VertexId> found[] = {names_.find(ends[0]), names_.find(ends[1])};
    for (std::size_t i = 0; i < 2; ++i) {
      if (!found[i]) mistake(ends[i].empty() ? name : ends[i], names_.all());
    }
    if (!found[0] || !found[1]) return;
    if (degrade_between(*found[0], *found[1]) + degrade_between(*found[1], *found[0]) > 0) return;
    std::vector<std::string> known;
    for (const VertexId end : {*found[0], *found[1]}) {
      const Fabric::LinkRange out = fabric_.out_links(end);
      for (LinkId l = out.first; l < out.last; ++l.value) known.push_back(fabric_.name(l));
    }
    mistake({}, std::move(known));
  }

  std::size_t degrade_between(VertexId from, VertexId to) {
    std::size_t links = 0;
    const Fabric::LinkRange out = fabric_.out_links(from);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      if (fabric_.link(l).to != to) continue;
      degrade(l);
      ++links;
    }
    return links;
  }

  void nic(const std::string& name) {
    const std::optional<VertexId> at = names_.find(name);
    if (!at || fabric_.vertex(*at).kind != VertexKind::nic) {
      mistake(name, names_of(fabric_, VertexKind::nic));
      return;
    }
    const Fabric::LinkRange out = fabric_.out_links(*at);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      if (forwards(fabric_.vertex(fabric_.link(l).to).kind)) degrade(l);
    }
    for (const LinkId l : fabric_.in_links(*at)) {
      if (forwards(fabric_.vertex(fabric_.link(l).from).kind)) degrade(l);
    }
  }

  void tier(const std::string& name) {
    std::vector<std::string> known;
    for (std::size_t t = 0; t < fabric_.tiers().size(); ++t) {
      known.push_back(fabric_.tiers()[t].name);
      if (known.back() != name) continue;
      for (std::size_t l = 0; l < fabric_.link_count(); ++l) {
        if (fabric_.link(id_at<LinkId>(l)).tier.index() == t) degrade(id_at<LinkId>(l));
      }
      return;
    }
    mistake(name, std::move(known));
  }

  const Fabric& fabric_;
  Names names_;
  FaultReading reading_;
  std::size_t fault_ = 0;
  double remaining_ = 1;
};

// ---- who still reaches whom -----------------------------------------------------------------------------------------

/// Sets of vertices that only grow together (union by the lower number, so the answer does not depend on the order).
class Islands {
 public:
  explicit Islands(std::size_t vertices) : parent_(vertices) { std::iota(parent_.begin(), parent_.end(), 0U); }
  std::uint32_t of(VertexId v) {
    std::uint32_t at = v.value;
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void join(VertexId a, VertexId b) {
    const auto [low, high] = std::minmax({of(a), of(b)});
    parent_[high] = low;
  }

 private:
  std::vector<std::uint32_t> parent_;
};

/// What joins GPUs: an island of network switches, one of switches of a node, or a cable between two GPUs.
using Meeting = std::uint64_t;
constexpr Meeting in_node = Meeting{1} << 62;
constexpr Meeting cable = Meeting{1} << 63;

/// Where each GPU is connected, as routers see it: GPUs and NICs are never in the middle of a path between others, but
/// for a neighbour whose NIC is borrowed. Two GPUs reach each other if they have a meeting in common.
class Reach {
 public:
  explicit Reach(const Fabric& fabric) : fabric_(fabric), network_(fabric), islands_(fabric.vertex_count()) {
    for (const Link& link : fabric.links()) {
      if (joins(link.from) && joins(link.to) && forwards(kind(link.from)) == forwards(kind(link.to))) {
        islands_.join(link.from, link.to);
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<Meeting>> by_gpu() {
    std::vector<std::vector<Meeting>> all(fabric_.gpu_count());
    for (std::size_t g = 0; g < all.size(); ++g) {
      const auto gpu = id_at<GpuId>(g);
      for (const Port& port : network_.ports(gpu)) all[g].push_back(islands_.of(network_.vertex(port.at)));
      add_in_node(fabric_.vertex_of(gpu), all[g]);
      std::sort(all[g].begin(), all[g].end());
      all[g].erase(std::unique(all[g].begin(), all[g].end()), all[g].end());
    }
    return all;
  }

 private:
  [[nodiscard]] VertexKind kind(VertexId v) const { return fabric_.vertex(v).kind; }
  [[nodiscard]] bool joins(VertexId v) const { return kind(v) != VertexKind::gpu && kind(v) != VertexKind::nic; }

  /// Meetings one link away from a GPU.
  void add_in_node(VertexId gpu, std::vector<Meeting>& into) {
    const Fabric::LinkRange out = fabric_.out_links(gpu);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const VertexId to = fabric_.link(l).to;
      if (kind(to) == VertexKind::gpu) {
        const auto [low, high] = std::minmax({gpu.value, to.value});
        into.push_back(cable | Meeting{low} << 31 | high);
      } else if (joins(to) && !forwards(kind(to))) {
        into.push_back(in_node | islands_.of(to));
      }
    }
  }

  const Fabric& fabric_;
  SwitchGraph network_;
  Islands islands_;
};

bool meet(const std::vector<Meeting>& a, const std::vector<Meeting>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

/// GPUs that reach the same before and after are one class; a class against a class decides for all their pairs.
void refuse_partition(const Fabric& fabric, const Fabric& degraded) {
  const auto before = Reach(fabric).by_gpu();
  const auto after = Reach(degraded).by_gpu();
  using Reached = std::pair<std::vector<Meeting>, std::vector<Meeting>>;
  std::map<Reached, std::vector<GpuId>> classes;
  for (std::size_t g = 0; g < before.size(); ++g) classes[{before[g], after[g]}].push_back(id_at<GpuId>(g));
  for (const auto& [mine, gpus] : classes) {
    if (mine.first == mine.second) continue;  // nothing changed for these
    std::size_t lost = 0;
    std::optional<GpuId> first;
    for (const auto& [theirs, others] : classes) {
      if (!meet(mine.first, theirs.first) || meet(mine.second, theirs.second)) continue;
      lost += others.size();
      if (!first || others.front() < *first) first = others.front();
    }
    if (!first) continue;
    const auto name = [&](GpuId gpu) { return fabric.name(fabric.vertex_of(gpu)); };
    throw std::invalid_argument(
        fmt::format("the faults cut the fabric apart: {} can no longer reach {} ({} of {} GPUs have lost {})",
                    name(gpus.front()), name(*first), gpus.size(), fabric.gpu_count(), lost));
  }
}

void copy_vertices(const Fabric& fabric, FabricBuilder& copy) {
  for (const Tier& tier : fabric.tiers()) copy.tier(tier.name);
  for (std::size_t n = 0; n < fabric.node_count(); ++n) copy.node();
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    const Vertex& vertex = fabric.vertex(id_at<VertexId>(v));
    const VertexId added = vertex.node ? copy.add(vertex.kind, *vertex.node) : copy.add(vertex.kind);
    if (vertex.group) copy.set_group(added, *vertex.group);
  }
}

}  // namespace

FaultReading resolve(const Fabric& fabric, std::span<const FabricFault> faults) { return Resolver(fabric).run(faults); }

std::optional<GpuId> find_gpu(const Fabric& fabric, const std::string& name) {
  for (std::size_t g = 0; g < fabric.gpu_count(); ++g) {
    if (fabric.name(fabric.vertex_of(id_at<GpuId>(g))) == name) return id_at<GpuId>(g);
  }
  return std::nullopt;
}

std::vector<std::string> names_of(const Fabric& fabric, VertexKind kind) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    if (fabric.vertex(id_at<VertexId>(v)).kind == kind) names.push_back(fabric.name(id_at<VertexId>(v)));
  }
  return names;
}

Fabric with_faults(const Fabric& fabric, std::span<const double> remaining) {
  if (remaining.size() != fabric.link_count()) {
    throw std::invalid_argument(
        fmt::format("faults of {} links for a fabric of {}", remaining.size(), fabric.link_count()));
  }
  FabricBuilder copy;
  copy_vertices(fabric, copy);
  bool whole = true;
  for (std::size_t l = 0; l < fabric.link_count(); ++l) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    whole = whole && remaining[l] > 0;
    if (remaining[l] <= 0) continue;
    const Bandwidth left = std::max(bytes_per_second(1), scaled(link.bandwidth, std::min(1.0, remaining[l])));
    copy.connect_one_way(link.from, link.to, left, link.latency, link.tier);
  }
  // A torus with a cable down is none: dimension order knows no way round it, so routes are searched as elsewhere.
  if (fabric.torus() && whole) copy.set_torus(*fabric.torus());
  Fabric degraded = std::move(copy).build();
  refuse_partition(fabric, degraded);
  return degraded;
}

}  // namespace foretrain
