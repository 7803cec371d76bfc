// Several data centres. Each keeps its fabric; a border switch hangs above its topmost switches (cores, or spines, or
// leaves) with cables that together carry what its long links do, and every two borders are joined by one link.
//
//   site 0: servers - leaves - spines - border ===== long link ===== border - spines - leaves - servers :site 1
//
// Source: see SiteLinks.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "topology/builders/node.h"

namespace foretrain {
namespace {

constexpr std::uint32_t sites_most = 64;

/// Copies the fabric of a site; returns its topmost switches.
std::vector<VertexId> add_site(FabricBuilder& into, const Fabric& site, std::uint32_t number) {
  for (const Tier& tier : site.tiers()) {  // first, so that they keep their order
    static_cast<void>(into.tier(tier.name));
  }
  std::vector<NodeId> nodes;
  for (std::size_t n = 0; n < site.node_count(); ++n) {
    nodes.push_back(into.node());
  }
  std::vector<VertexId> at;
  for (std::size_t v = 0; v < site.vertex_count(); ++v) {
    const Vertex& it = site.vertex(id_at<VertexId>(v));
    at.push_back(it.node ? into.add(it.kind, nodes[it.node->index()]) : into.add(it.kind));
    if (!it.node) {
      into.set_group(at.back(), number);
    }
  }
  for (std::size_t v = 0; v < at.size(); ++v) {
    const Fabric::LinkRange out = site.out_links(id_at<VertexId>(v));
    for (LinkId l = out.first; l < out.last; ++l.value) {
      const Link& it = site.link(l);
      if (it.from < it.to) {  // the other direction is of the same cable
        into.connect(at[it.from.index()], at[it.to.index()], it.bandwidth, it.latency,
                     into.tier(site.tiers()[it.tier.index()].name));
      }
    }
  }
  for (const VertexKind kind : {VertexKind::core, VertexKind::spine, VertexKind::leaf}) {
    std::vector<VertexId> top;
    for (std::size_t v = 0; v < at.size(); ++v) {
      if (site.vertex(id_at<VertexId>(v)).kind == kind) {
        top.push_back(at[v]);
      }
    }
    if (!top.empty()) {
      return top;
    }
  }
  throw std::invalid_argument(fmt::format("site {} has no leaf, spine or core to join others by", number));
}

struct BuildSite {
  std::uint32_t first_node;
  std::uint32_t gpus;
  Fabric operator()(const RailSpec& spec) const { return build_rail_optimised(part(spec)); }
  Fabric operator()(const FatTreeSpec& spec) const { return build_fat_tree(part(spec)); }
  Fabric operator()(const MetaClosSpec& spec) const { return build_meta_clos(part(spec)); }
  Fabric operator()(const LeafSpineSpec& spec) const { return build_leaf_spine(part(spec)); }

 private:
  template <class Spec>
  [[nodiscard]] Spec part(Spec spec) const {
    spec.gpus = gpus;
    spec.node = without_first(spec.node, first_node);
    return spec;
  }
};

}  // namespace

Fabric join_sites(std::span<const Fabric> sites, const SiteLinks& links) {
  if (sites.empty() || sites.size() > sites_most) {
    throw std::invalid_argument(fmt::format("{} sites; allowed: 1 to {}", sites.size(), sites_most));
  }
  FabricBuilder fabric;
  std::vector<std::vector<VertexId>> tops;
  for (std::size_t s = 0; s < sites.size(); ++s) {
    tops.push_back(add_site(fabric, sites[s], static_cast<std::uint32_t>(s)));
  }
  if (sites.size() == 1) {
    return std::move(fabric).build();
  }
  const TierId border_tier = fabric.tier("border");
  const TierId site_tier = fabric.tier("site");
  const Bandwidth all = links.bandwidth * static_cast<std::int64_t>(sites.size() - 1);
  std::vector<VertexId> borders;
  for (std::size_t s = 0; s < sites.size(); ++s) {
    borders.push_back(fabric.add(VertexKind::router));
    fabric.set_group(borders.back(), static_cast<std::uint32_t>(s));
    for (const VertexId top : tops[s]) {
      fabric.connect(top, borders[s], scaled(all, 1.0 / static_cast<double>(tops[s].size())), SwitchSpec{}.latency,
                     border_tier);
    }
    for (std::size_t other = 0; other < s; ++other) {
      fabric.connect(borders[other], borders[s], links.bandwidth, links.latency, site_tier);
    }
  }
  return std::move(fabric).build();
}

const NodeSpec& node_of(const SitesSpec& spec) {
  return std::visit([](const auto& site) -> const NodeSpec& { return site.node; }, spec.site);
}

Fabric build_sites(const SitesSpec& spec) {
  const NodeSpec& node = node_of(spec);
  static_cast<void>(fill_nodes(node, spec.gpus));
  if (spec.gpus_per_site == 0 || spec.gpus_per_site % node.gpus != 0 || spec.sites == 0 || spec.sites > sites_most) {
    throw std::invalid_argument(fmt::format("{} sites of {} GPUs in nodes of {}; allowed: 1 to {} sites of whole nodes",
                                            spec.sites, spec.gpus_per_site, node.gpus, sites_most));
  }
  if (spec.gpus > std::uint64_t{spec.sites} * spec.gpus_per_site) {
    throw std::invalid_argument(
        fmt::format("{} GPUs do not fit {} sites of {}", spec.gpus, spec.sites, spec.gpus_per_site));
  }
  std::vector<Fabric> sites;
  for (std::uint32_t placed = 0; placed < spec.gpus; placed += spec.gpus_per_site) {
    const BuildSite build{placed / node.gpus, std::min(spec.gpus_per_site, spec.gpus - placed)};
    sites.push_back(std::visit(build, spec.site));
  }
  return join_sites(sites, spec.links);
}

}  // namespace foretrain
