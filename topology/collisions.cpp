#include "topology/collisions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace foretrain {
namespace {

/// Parts of pairs by link.
std::vector<double> load_of(const Fabric& fabric, std::span<const GpuPair> pairs, const Router& router) {
  std::vector<double> load(fabric.link_count(), 0);
  std::vector<LinkShare> path;
  for (const GpuPair& pair : pairs) {
    path.clear();
    router.route(pair.from, pair.to, 0, path);
    for (const LinkShare& step : path) {
      load[step.link.index()] += step.share;
    }
  }
  return load;
}

struct Busiest {
  std::optional<LinkId> link;
  double s_per_byte = 0;
};

Busiest busiest_of(const Fabric& fabric, const std::vector<double>& load) {
  Busiest found;
  for (std::size_t l = 0; l < load.size(); ++l) {
    const auto link = id_at<LinkId>(l);
    const double time = load[l] / static_cast<double>(fabric.link(link).bandwidth.bytes_per_s());
    if (time > found.s_per_byte) {
      found = {.link = link, .s_per_byte = time};
    }
  }
  return found;
}

bool is_network_switch(VertexKind kind) {
  return kind == VertexKind::leaf || kind == VertexKind::spine || kind == VertexKind::core ||
         kind == VertexKind::router;
}

/// None for a link that does not join two switches of the network.
std::optional<Direction> direction_of(const Fabric& fabric, const Link& link) {
  const VertexKind from = fabric.vertex(link.from).kind;
  const VertexKind to = fabric.vertex(link.to).kind;
  if (!is_network_switch(from) || !is_network_switch(to)) {
    return std::nullopt;
  }
  // The kinds are listed from the leaves to the core.
  return from < to ? Direction::up : from > to ? Direction::down : Direction::across;
}

void count_link(TierCollisions& tier, double flows) {
  tier.flows_min = tier.links == 0 ? flows : std::min(tier.flows_min, flows);
  tier.flows_max = std::max(tier.flows_max, flows);
  tier.flows_mean += flows;  // the sum, for now
  ++tier.links;
  tier.idle += flows == 0 ? 1 : 0;
  ++tier.histogram[static_cast<std::uint32_t>(std::lround(flows))];
}

std::vector<TierCollisions> tiers_of(const Fabric& fabric, const std::vector<double>& load,
                                     const std::vector<double>& even_load, std::uint32_t flows_per_pair) {
  std::map<std::pair<TierId, Direction>, TierCollisions> tiers;
  for (std::size_t l = 0; l < load.size(); ++l) {
    const Link& link = fabric.link(id_at<LinkId>(l));
    const std::optional<Direction> direction = direction_of(fabric, link);
    if (direction && (even_load[l] > 0 || load[l] > 0)) {
      count_link(tiers[{link.tier, *direction}], load[l] * flows_per_pair);
    }
  }
  std::vector<TierCollisions> listed;
  for (auto& [key, tier] : tiers) {
    tier.tier = fabric.tiers()[key.first.index()].name;
    tier.direction = key.second;
    tier.flows_mean /= static_cast<double>(tier.links);
    listed.push_back(std::move(tier));
  }
  return listed;
}

}  // namespace

std::string_view to_text(TrafficPattern pattern) {
  switch (pattern) {
    case TrafficPattern::ring:
      return "ring";
    case TrafficPattern::permutation:
      break;
  }
  return "permutation";
}

std::string_view to_text(Direction direction) {
  switch (direction) {
    case Direction::up:
      return "up";
    case Direction::down:
      return "down";
    case Direction::across:
      break;
  }
  return "across";
}

std::vector<GpuPair> ring_pairs(const Fabric& fabric) {
  std::vector<GpuPair> pairs;
  const std::size_t nodes = fabric.node_count();
  for (std::size_t n = 0; n < nodes; ++n) {
    const std::span<const GpuId> here = fabric.gpus_of(id_at<NodeId>(n));
    for (std::size_t i = 0; i < here.size(); ++i) {
      std::size_t next = (n + 1) % nodes;
      while (next != n && fabric.gpus_of(id_at<NodeId>(next)).size() <= i) {
        next = (next + 1) % nodes;
      }
      if (next != n) {
        pairs.push_back({.from = here[i], .to = fabric.gpus_of(id_at<NodeId>(next))[i]});
      }
    }
  }
  return pairs;
}

std::vector<GpuPair> permutation_pairs(const Fabric& fabric, std::uint64_t seed) {
  std::vector<GpuId> order(fabric.gpu_count());
  for (std::size_t g = 0; g < order.size(); ++g) {
    order[g] = id_at<GpuId>(g);
  }
  // Fisher and Yates; std::shuffle may differ from library to library.
  std::mt19937_64 random(seed);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random() % left]);
  }
  std::vector<GpuPair> pairs;
  for (std::size_t i = 0; order.size() > 1 && i < order.size(); ++i) {
    pairs.push_back({.from = order[i], .to = order[(i + 1) % order.size()]});
  }
  std::sort(pairs.begin(), pairs.end(), [](const GpuPair& a, const GpuPair& b) { return a.from < b.from; });
  return pairs;
}

CollisionReport find_collisions(const Fabric& fabric, std::span<const GpuPair> pairs, Routing routing,
                                const RouterOptions& options) {
  const std::vector<double> load = load_of(fabric, pairs, *make_router(routing, fabric, options));
  const std::vector<double> even_load = load_of(fabric, pairs, *make_router(Routing::spread, fabric, options));
  const Busiest busiest = busiest_of(fabric, load);
  const Busiest even = busiest_of(fabric, even_load);
  return {.pairs = pairs.size(),
          .flows_per_pair = options.flows_per_pair,
          .tiers = tiers_of(fabric, load, even_load, options.flows_per_pair),
          .busiest_s_per_byte = busiest.s_per_byte,
          .even_s_per_byte = even.s_per_byte,
          .lost_bandwidth = busiest.link ? 1 - even.s_per_byte / busiest.s_per_byte : 0,
          .busiest = busiest.link};
}

}  // namespace foretrain
