#include "topology/routing/torus_metric.h"

#include <functional>
#include <numeric>

#include "topology/routing/node_ways.h"

namespace foretrain {
namespace {

std::vector<VertexId> routers_of(const Fabric& fabric) {
  std::vector<VertexId> routers;
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    if (fabric.vertex(id_at<VertexId>(v)).kind == VertexKind::router) {
      routers.push_back(id_at<VertexId>(v));
    }
  }
  return routers;
}

/// Directed links between routers.
std::size_t links_among(const Fabric& fabric, const std::vector<VertexId>& routers) {
  std::size_t count = 0;
  for (const VertexId v : routers) {
    const Fabric::LinkRange out = fabric.out_links(v);
    for (LinkId l = out.first; l < out.last; ++l.value) {
      count += fabric.vertex(fabric.link(l).to).kind == VertexKind::router ? 1 : 0;
    }
  }
  return count;
}

/// Along one dimension: lines that have their cable round the back, and neighbours that have theirs.
struct Cables {
  std::size_t wrap = 0;
  std::size_t straight = 0;
};

Cables count_cables(const Fabric& fabric, const std::vector<VertexId>& routers, std::uint32_t stride,
                    std::uint32_t extent) {
  const auto joined = [&](std::size_t a, std::size_t b) {
    return find_link(fabric, routers[a], routers[b]) && find_link(fabric, routers[b], routers[a]);
  };
  Cables found;
  for (std::size_t i = 0; i < routers.size(); ++i) {
    const std::size_t at = i / stride % extent;
    if (at + 1 < extent) {
      found.straight += joined(i, i + stride) ? 1 : 0;
    } else if (extent > 2) {
      found.wrap += joined(i, i - std::size_t{stride} * (extent - 1)) ? 1 : 0;
    }
  }
  return found;
}

}  // namespace

bool is_plain_torus(const Fabric& fabric) {
  if (!fabric.torus()) {
    return false;
  }
  const TorusShape& shape = *fabric.torus();
  std::size_t routers = 0;
  for (std::size_t v = 0; v < fabric.vertex_count(); ++v) {
    const VertexKind kind = fabric.vertex(id_at<VertexId>(v)).kind;
    routers += kind == VertexKind::router ? 1 : 0;
    if (kind == VertexKind::leaf || kind == VertexKind::spine || kind == VertexKind::core) {
      return false;
    }
  }
  return routers == std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::optional<TorusMetric> TorusMetric::of(const Fabric& fabric) {
  if (!is_plain_torus(fabric)) {
    return std::nullopt;
  }
  const std::vector<VertexId> routers = routers_of(fabric);
  TorusMetric metric;
  std::size_t cables = 0;
  std::size_t farthest = 0;
  std::uint32_t stride = 1;
  for (const std::uint32_t extent : *fabric.torus()) {
    const std::size_t lines = routers.size() / extent;
    const Cables found = count_cables(fabric, routers, stride, extent);
    if (found.straight != lines * (extent - 1) || (found.wrap != 0 && found.wrap != lines)) {
      return std::nullopt;
    }
    metric.dimensions_.push_back({.extent = extent, .wraps = found.wrap > 0});
    cables += found.straight + found.wrap;
    farthest += extent - 1;
    stride *= extent;
  }
  if (links_among(fabric, routers) != 2 * cables || farthest >= 0xffff) {
    return std::nullopt;
  }
  metric.coordinates_.reserve(routers.size() * metric.dimensions_.size());
  for (std::uint32_t i = 0; i < routers.size(); ++i) {
    std::uint32_t rest = i;
    for (const Dimension& dimension : metric.dimensions_) {
      metric.coordinates_.push_back(rest % dimension.extent);
      rest /= dimension.extent;
    }
  }
  return metric;
}

}  // namespace foretrain
