#include "tools/import/network_draft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "scenarios/graphml.h"
#include "scenarios/problems.h"

namespace foretrain {
namespace {

VertexKind role(std::uint32_t distance) {
  if (distance <= 1) return VertexKind::leaf;
  return distance == 2 ? VertexKind::spine : VertexKind::core;
}

/// "leaf-spine"; between switches of one role "leaf-leaf".
std::string tier_between(VertexKind a, VertexKind b) {
  return fmt::format("{}-{}", to_text(std::min(a, b)), to_text(std::max(a, b)));
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  const std::size_t count = std::min(names.size(), most);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                     names.size() > most ? ", ..." : "");
}

}  // namespace

NetworkDraft::Point NetworkDraft::add(PointData point) {
  if (points_.size() == graph_vertices_max) {
    input_.fail(point.offset, fmt::format("more than {} NICs and switches; allowed: up to that", graph_vertices_max));
  }
  points_.push_back(std::move(point));
  return static_cast<Point>(points_.size() - 1);
}

NetworkDraft::Point NetworkDraft::add_switch(std::string_view name, std::size_t offset) {
  input_.check_words(offset, "name of a switch", name);
  return add({.name = std::string(name), .offset = offset});
}

NetworkDraft::Point NetworkDraft::add_nic(Host host, std::string_view name, std::size_t offset) {
  input_.check_words(offset, "name of a host", hosts_[host].name);
  const Point made = add({.name = std::string(name), .host = host, .offset = offset});
  hosts_[host].nics.push_back(made);
  return made;
}

NetworkDraft::Host NetworkDraft::host(std::string_view name) {
  const auto [entry, is_new] = host_of_.try_emplace(std::string(name), static_cast<Host>(hosts_.size()));
  if (is_new) hosts_.push_back({.name = std::string(name), .nics = {}});
  return entry->second;
}

void NetworkDraft::connect(Point a, Point b, Bandwidth each, std::uint32_t count, std::size_t offset) {
  if (a == b) input_.fail(offset, fmt::format("'{}' is cabled to itself; allowed: two ends", shown(points_[a].name)));
  if (!is_switch(a) && !is_switch(b)) {
    input_.fail(offset, fmt::format("a cable joins the NICs of '{}' and '{}'; allowed: NICs to switches",
                                    shown(hosts_[points_[a].host].name), shown(hosts_[points_[b].host].name)));
  }
  cable_count_ += count;
  if (cable_count_ > graph_cables_max) {
    input_.fail(offset, fmt::format("more than {} cables; allowed: up to that", graph_cables_max));
  }
  cables_.push_back({a, b, each, count});
}

std::vector<std::vector<NetworkDraft::Point>> NetworkDraft::neighbours() const {
  std::vector<std::vector<Point>> found(points_.size());
  for (const Cable& cable : cables_) {
    if (!points_[cable.a].kept || !points_[cable.b].kept) continue;
    found[cable.a].push_back(cable.b);
    found[cable.b].push_back(cable.a);
  }
  return found;
}

/// Keeps the switches, and the cabled NICs of the hosts that --hosts names.
void NetworkDraft::choose_hosts(const ImportOptions& options, std::vector<std::string>& notes) {
  std::vector<bool> cabled(points_.size(), false);
  for (const Cable& cable : cables_) cabled[cable.a] = cabled[cable.b] = true;
  for (PointData& point : points_) point.kept = point.host == no_host;
  std::vector<std::string> idle, unwanted;
  std::vector<HostData> chosen;
  for (HostData& host : hosts_) {
    std::erase_if(host.nics, [&](Point nic) { return !cabled[nic]; });
    if (fnmatch(options.hosts.c_str(), host.name.c_str(), 0) != 0) {
      unwanted.push_back(host.name);
    } else if (host.nics.empty()) {
      idle.push_back(host.name);
    } else {
      for (const Point nic : host.nics) {
        points_[nic].kept = true;
        points_[nic].host = static_cast<Host>(chosen.size());
      }
      chosen.push_back(std::move(host));
    }
  }
  hosts_ = std::move(chosen);
  if (!unwanted.empty()) {
    notes.push_back(fmt::format("left out: {} hosts that --hosts '{}' does not name: {}", unwanted.size(),
                                shown(options.hosts), listed(unwanted)));
  }
  if (!idle.empty()) notes.push_back(fmt::format("left out: {} hosts without cables: {}", idle.size(), listed(idle)));
  if (hosts_.empty()) input_.fail(0, "no host is cabled to a switch; allowed: a network with hosts");
}

void NetworkDraft::measure_distances() {
  const auto near = neighbours();
  std::vector<Point> queue;
  std::vector<bool> met(points_.size(), false);
  for (Point p = 0; p < points_.size(); ++p) {
    points_[p].distance = 0;
    if (points_[p].kept && !is_switch(p)) queue.push_back(p);
  }
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const Point next : near[queue[head]]) {
      if (met[next] || !is_switch(next)) continue;
      met[next] = true;
      points_[next].distance = points_[queue[head]].distance + 1;
      queue.push_back(next);
    }
  }
}

std::vector<NetworkDraft::Point> NetworkDraft::tops() const {
  const auto near = neighbours();
  std::vector<bool> met(points_.size(), false);
  std::vector<Point> found;
  for (const HostData& start : hosts_) {
    if (met[start.nics.front()]) continue;
    std::vector<Point> queue{start.nics.front()};
    met[queue.front()] = true;
    Point top = near[queue.front()].front();
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const Point here = queue[head];
      if (is_switch(here) && points_[here].distance > points_[top].distance) top = here;
      const auto visit = [&](Point next) {
        if (!met[next]) queue.push_back(next);
        met[next] = true;
      };
      std::for_each(near[here].begin(), near[here].end(), visit);
      // NICs of one host are joined by the host.
      if (!is_switch(here))
        std::for_each(hosts_[points_[here].host].nics.begin(), hosts_[points_[here].host].nics.end(), visit);
    }
    found.push_back(top);
  }
  return found;
}

void NetworkDraft::join_networks(const ImportOptions& options, std::vector<std::string>& notes) {
  const std::vector<Point> separate = tops();
  if (separate.size() < 2) return;
  std::vector<std::string> names;
  names.reserve(separate.size());
  for (const Point top : separate) names.push_back(shown(points_[top].name));
  if (!options.join) {
    input_.fail(
        points_[separate[1]].offset,
        fmt::format("the hosts are in {} separate networks (under {}); allowed: one, --hosts GLOB to choose, or "
                    "--join to put a switch above them",
                    separate.size(), listed(names)));
  }
  Bandwidth widest;
  for (const Cable& cable : cables_) widest = std::max(widest, cable.each);
  const Point above = add_switch("joined", 0);
  points_[above].kept = true;
  // As many uplinks as its network has NICs: the switch above is never the narrow place.
  for (const Point top : separate) {
    const auto uplinks = static_cast<std::uint32_t>(std::clamp<std::size_t>(hosts_.size() / separate.size(), 1, 64));
    connect(top, above, widest, uplinks, 0);
  }
  notes.push_back(fmt::format("assumed: a switch above the {} separate networks (--join), {} cables of {} to each",
                              separate.size(), cables_.back().count, to_text(widest)));
  measure_distances();
}

void NetworkDraft::drop_lonely_switches(std::vector<std::string>& notes) {
  std::vector<std::string> lonely;
  for (PointData& point : points_) {
    if (point.host == no_host && point.kept && point.distance == 0) {
      point.kept = false;
      lonely.push_back(point.name);
    }
  }
  if (!lonely.empty()) {
    notes.push_back(fmt::format("left out: {} switches that no host reaches: {}", lonely.size(), listed(lonely)));
  }
}

/// The commonest number of NICs of a host; of equally common ones the larger.
std::uint32_t NetworkDraft::usual_nics() const {
  std::map<std::size_t, std::size_t> hosts_with;
  for (const HostData& host : hosts_) ++hosts_with[host.nics.size()];
  const auto usual = std::max_element(hosts_with.begin(), hosts_with.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  return static_cast<std::uint32_t>(usual->first);
}

/// Writes the draft as the graph of a fabric.
class NetworkDraft::Emitter {
 public:
  Emitter(const NetworkDraft& draft, const GpuFacts& facts, std::uint32_t gpus)
      : draft_(draft), facts_(facts), gpus_(gpus), at_(draft.points_.size()) {}

  GraphSpec graph() {
    for (std::uint32_t h = 0; h < draft_.hosts_.size(); ++h) add_server(h);
    for (Point p = 0; p < draft_.points_.size(); ++p) {
      if (draft_.points_[p].kept && draft_.is_switch(p)) at_[p] = add(draft_.points_[p].name, kind_of(p), {});
    }
    for (const Cable& cable : draft_.cables_) add_cable(cable);
    return std::move(graph_);
  }

 private:
  [[nodiscard]] VertexKind kind_of(Point p) const {
    return draft_.is_switch(p) ? role(draft_.points_[p].distance) : VertexKind::nic;
  }

  std::uint32_t add(std::string name, VertexKind kind, std::optional<std::uint32_t> node) {
    const std::string wanted = name;
    for (int n = 2; !names_.insert(name).second; ++n) name = fmt::format("{} #{}", wanted, n);
    graph_.vertices.push_back({.name = std::move(name), .kind = kind, .node = node, .group = {}});
    return static_cast<std::uint32_t>(graph_.vertices.size() - 1);
  }

  /// GPUs on one NVSwitch; NICs on PCIe, shared out evenly in their order; a host, as NodeSpec's servers.
  void add_server(std::uint32_t h) {
    const HostData& host = draft_.hosts_[h];
    const auto nics = static_cast<std::uint32_t>(host.nics.size());
    const std::uint32_t nvswitch = add(host.name + "/nvswitch", VertexKind::nvswitch, h);
    const std::uint32_t cpu = add(host.name + "/host", VertexKind::host, h);
    const HopLatencies hop;
    for (const Point nic : host.nics) {
      at_[nic] = add(fmt::format("{}/{}", host.name, draft_.points_[nic].name), VertexKind::nic, h);
      graph_.cables.push_back({cpu, at_[nic], facts_.pcie, hop.pcie, "pcie", 1});
    }
    std::vector<std::uint32_t> gpus;
    for (std::uint32_t g = 0; g < gpus_; ++g) {
      gpus.push_back(add(fmt::format("{}/gpu{}", host.name, g), VertexKind::gpu, h));
      graph_.cables.push_back({gpus[g], nvswitch, facts_.nvlink, hop.nvlink, "nvlink", 1});
    }
    for (std::uint32_t i = 0; i < std::max(nics, gpus_); ++i) {
      const std::uint32_t gpu = gpus_ >= nics ? i : i * gpus_ / nics;
      const std::uint32_t nic = gpus_ >= nics ? i * nics / gpus_ : i;
      graph_.cables.push_back({gpus[gpu], at_[host.nics[nic]], facts_.pcie, hop.pcie, "pcie", 1});
    }
  }

  void add_cable(const Cable& cable) {
    if (!draft_.points_[cable.a].kept || !draft_.points_[cable.b].kept) return;
    const HopLatencies hop;
    const VertexKind a = kind_of(cable.a);
    const VertexKind b = kind_of(cable.b);
    const bool edge = a == VertexKind::nic || b == VertexKind::nic;
    graph_.cables.push_back({at_[cable.a], at_[cable.b], cable.each, edge ? hop.nic : hop.cable,
                             edge ? "nic" : tier_between(a, b), cable.count});
  }

  const NetworkDraft& draft_;
  const GpuFacts& facts_;
  std::uint32_t gpus_;
  std::vector<std::uint32_t> at_;  ///< vertex, by point
  std::set<std::string> names_;
  GraphSpec graph_;
};

Imported NetworkDraft::finish(const ImportOptions& options, std::vector<std::string> notes) {
  choose_hosts(options, notes);
  measure_distances();
  join_networks(options, notes);
  drop_lonely_switches(notes);
  const GpuFacts facts = gpu_facts(options, "", notes);
  const std::uint32_t usual = usual_nics();
  const std::uint32_t gpus = options.gpus_per_node.value_or(usual);
  if (!options.gpus_per_node) {
    notes.push_back(fmt::format("assumed: {} GPUs a host, as many as the NICs of most hosts (--gpus-per-node)", gpus));
  }
  const auto odd =
      std::count_if(hosts_.begin(), hosts_.end(), [&](const HostData& it) { return it.nics.size() != usual; });
  if (odd > 0) {
    notes.push_back(
        fmt::format("assumed: the {} hosts with other than {} NICs have {} GPUs too (--hosts GLOB leaves hosts "
                    "out)",
                    odd, usual, gpus));
  }
  notes.push_back(fmt::format("assumed: GPUs of a host are on one NVSwitch at {} (--nvlink), {} to their NICs (--pcie)",
                              to_text(facts.nvlink), to_text(facts.pcie)));
  note_latencies(notes);
  const std::size_t vertices = points_.size() + hosts_.size() * (std::size_t{gpus} + 2);
  if (vertices > graph_vertices_max) {
    input_.fail(0, fmt::format("{} hosts of {} GPUs make {} vertices; allowed: up to {}", hosts_.size(), gpus, vertices,
                               graph_vertices_max));
  }
  Imported imported;
  imported.graph = Emitter(*this, facts, gpus).graph();
  imported.gpu = facts.name;
  imported.nvlink = facts.nvlink;
  imported.node_transport = facts.node_transport;
  imported.notes = std::move(notes);
  return imported;
}

}  // namespace foretrain
