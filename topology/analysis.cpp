#include "topology/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "topology/diameter.h"
#include "topology/routing/switch_graph.h"

namespace foretrain {
namespace {

/// Height of a kind in a Clos; 0 where there is no above and below.
int height(VertexKind kind) {
  switch (kind) {
    case VertexKind::nic:
      return 1;
    case VertexKind::leaf:
      return 2;
    case VertexKind::spine:
      return 3;
    case VertexKind::core:
      return 4;
    default:
      return 0;
  }
}

bool is_switch(VertexKind kind) {
  return kind != VertexKind::gpu && kind != VertexKind::nic && kind != VertexKind::host;
}

std::vector<SwitchRadix> count_switches(const Fabric& fabric) {
  std::map<VertexKind, SwitchRadix> by_kind;
  for (std::size_t i = 0; i < fabric.vertex_count(); ++i) {
    const auto v = id_at<VertexId>(i);
    const VertexKind kind = fabric.vertex(v).kind;
    if (!is_switch(kind)) {
      continue;
    }
    const Fabric::LinkRange out = fabric.out_links(v);
    const std::size_t ports = out.last.index() - out.first.index();
    const auto [entry, is_new] = by_kind.try_emplace(kind, SwitchRadix{kind, 0, ports, ports});
    SwitchRadix& radix = entry->second;
    ++radix.count;
    radix.ports_min = std::min(radix.ports_min, ports);
    radix.ports_max = std::max(radix.ports_max, ports);
  }
  std::vector<SwitchRadix> all;
  all.reserve(by_kind.size());
  for (const auto& [kind, radix] : by_kind) {
    all.push_back(radix);
  }
  return all;
}

std::vector<TierReport> tier_rates(const Fabric& fabric) {
  std::vector<TierReport> reports;
  reports.reserve(fabric.tiers().size());
  for (const Tier& tier : fabric.tiers()) {
    reports.push_back({.name = tier.name,
                       .links = tier.links,
                       .link_min = {},
                       .link_max = {},
                       .latency = {},
                       .oversubscription = {}});
  }
  for (const Link& link : fabric.links()) {
    TierReport& report = reports[link.tier.index()];
    const bool first = report.link_max == Bandwidth{};
    report.link_min = first ? link.bandwidth : std::min(report.link_min, link.bandwidth);
    report.link_max = std::max(report.link_max, link.bandwidth);
    report.latency = std::max(report.latency, link.latency);
  }
  return reports;
}

/// Of each switch what comes in from below over what leaves upwards; a tier's figure is its worst switch's, so that
/// switches which hold few servers do not hide what the full ones suffer.
void add_oversubscription(const Fabric& fabric, std::vector<TierReport>& reports) {
  for (std::size_t i = 0; i < fabric.vertex_count(); ++i) {
    const auto v = id_at<VertexId>(i);
    const int mine = height(fabric.vertex(v).kind);
    if (mine < height(VertexKind::leaf)) {
      continue;
    }
    Bandwidth from_below;
    for (const LinkId l : fabric.in_links(v)) {
      const int tail = height(fabric.vertex(fabric.link(l).from).kind);
      from_below = tail > 0 && tail < mine ? from_below + fabric.link(l).bandwidth : from_below;
    }
    Bandwidth upwards;
    std::optional<TierId> tier;
    const Fabric::LinkRange out = fabric.out_links(v);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      if (height(fabric.vertex(fabric.link(l).to).kind) > mine) {
        upwards = upwards + fabric.link(l).bandwidth;
        tier = fabric.link(l).tier;
      }
    }
    if (tier) {
      std::optional<double>& worst = reports[tier->index()].oversubscription;
      worst = std::max(worst.value_or(0), from_below / upwards);
    }
  }
}

struct Halves {
  std::vector<GpuId> first;
  std::vector<GpuId> second;
};

/// Whole nodes where there are several (of an odd number the second half has one more), GPUs of the one otherwise.
Halves halves(const Fabric& fabric) {
  Halves out;
  std::size_t cut = fabric.gpu_count() / 2;
  if (fabric.node_count() > 1) {
    cut = 0;
    for (std::size_t n = 0; n < fabric.node_count() / 2; ++n) {
      cut += fabric.gpus_of(id_at<NodeId>(n)).size();
    }
    for (std::size_t g = 0; g < fabric.gpu_count(); ++g) {
      const bool in_first = fabric.node_of(id_at<GpuId>(g)).index() < fabric.node_count() / 2;
      (in_first ? out.first : out.second).push_back(id_at<GpuId>(g));
    }
    return out;
  }
  for (std::size_t g = 0; g < fabric.gpu_count(); ++g) {
    (g < cut ? out.first : out.second).push_back(id_at<GpuId>(g));
  }
  return out;
}

/// What a set of GPUs can put on the network: the first links into switches, of each NIC once. Within the one node of
/// a fabric: all links of the GPUs but those to NICs.
Bandwidth injection(const Fabric& fabric, const SwitchGraph& graph, std::span<const GpuId> gpus) {
  std::vector<LinkId> links;
  for (const GpuId gpu : gpus) {
    if (fabric.node_count() > 1) {
      for (const Port& port : graph.ports(gpu)) {
        links.push_back(graph.way_out(port).back());
      }
      continue;
    }
    const Fabric::LinkRange out = fabric.out_links(fabric.vertex_of(gpu));
    for (LinkId l = out.first; l < out.last; ++l.value) {
      if (fabric.vertex(fabric.link(l).to).kind != VertexKind::nic) {
        links.push_back(l);
      }
    }
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  Bandwidth sum;
  for (const LinkId l : links) {
    sum = sum + fabric.link(l).bandwidth;
  }
  return sum;
}

}  // namespace

TopologyReport analyse(const Fabric& fabric) {
  TopologyReport report;
  report.gpus = fabric.gpu_count();
  report.nodes = fabric.node_count();
  report.vertices = fabric.vertex_count();
  report.links = fabric.link_count();
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    report.nics += fabric.vertex(id_at<VertexId>(v)).kind == VertexKind::nic ? 1 : 0;
  }
  report.switches = count_switches(fabric);
  report.tiers = tier_rates(fabric);
  add_oversubscription(fabric, report.tiers);
  const SwitchGraph graph(fabric);
  const Halves half = halves(fabric);
  report.bisection = max_flow(fabric, half.first, half.second);
  const Bandwidth most = std::min(injection(fabric, graph, half.first), injection(fabric, graph, half.second));
  report.bisection_of_injection = most > Bandwidth{} ? report.bisection / most : 0;
  report.diameter_hops = diameter(graph);
  return report;
}

}  // namespace foretrain
