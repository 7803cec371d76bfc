#include "sim/collectives/torus_box.h"

#include <algorithm>
#include <limits>

namespace foretrain {

namespace {

struct Place {
  VertexId router;
  std::uint32_t ordinal = 0;
};

std::optional<Place> place_of(const Fabric& fabric, GpuId gpu) {
  const auto [first, last] = fabric.out_links(fabric.vertex_of(gpu));
  for (std::uint32_t l = first.value; l < last.value; ++l) {
    const VertexId to = fabric.link(LinkId{l}).to;
    if (fabric.vertex(to).kind == VertexKind::router) return Place{to, fabric.vertex(to).ordinal};
  }
  return std::nullopt;
}

/// Calls `see(link, ordinal of the neighbour)` for every cable to another router.
template <class See>
void for_cables(const Fabric& fabric, VertexId router, See see) {
  const auto [first, last] = fabric.out_links(router);
  for (std::uint32_t l = first.value; l < last.value; ++l) {
    const Link& link = fabric.link(LinkId{l});
    if (fabric.vertex(link.to).kind == VertexKind::router) see(link, fabric.vertex(link.to).ordinal);
  }
}

/// Coordinates of the members in one dimension.
struct Axis {
  std::uint32_t extent = 1;
  std::uint32_t stride = 1;
  std::vector<std::uint32_t> taken;  ///< ascending
  [[nodiscard]] std::uint32_t coordinate(std::uint32_t ordinal) const {
    return ordinal / stride % std::max(extent, 1U);
  }
  [[nodiscard]] std::size_t position(std::uint32_t ordinal) const {
    return static_cast<std::size_t>(std::lower_bound(taken.begin(), taken.end(), coordinate(ordinal)) - taken.begin());
  }
};

std::vector<Axis> axes_of(const TorusShape& shape, const std::vector<Place>& places) {
  std::vector<Axis> axes;
  std::uint32_t stride = 1;
  for (const std::uint32_t extent : shape) {
    Axis axis{extent, stride, {}};
    std::vector<bool> taken(extent);
    for (const Place& place : places) taken[axis.coordinate(place.ordinal)] = true;
    for (std::uint32_t at = 0; at < extent; ++at) {
      if (taken[at]) axis.taken.push_back(at);
    }
    axes.push_back(std::move(axis));
    stride *= extent;
  }
  return axes;
}

/// Whether the group has the whole line and its last router has a cable to the first.
bool closes(const Fabric& fabric, const Axis& axis, const std::vector<Place>& places) {
  if (axis.extent < 3 || axis.taken.size() != axis.extent) return false;
  const auto last = std::find_if(places.begin(), places.end(),
                                 [&](const Place& p) { return axis.coordinate(p.ordinal) + 1 == axis.extent; });
  bool found = false;
  const std::uint32_t first = last->ordinal - axis.stride * (axis.extent - 1);
  for_cables(fabric, last->router, [&](const Link&, std::uint32_t to) { found = found || to == first; });
  return found;
}

Bandwidth slowest_cable(const Fabric& fabric, const std::vector<Place>& places) {
  std::optional<Bandwidth> least;
  for (const Place& place : places) {
    for_cables(fabric, place.router, [&](const Link& link, std::uint32_t) {
      least = std::min(least.value_or(link.bandwidth), link.bandwidth);
    });
  }
  return least.value_or(Bandwidth{});
}

/// The members by position; nothing when a position has none or two.
std::optional<std::vector<GpuId>> fill(std::span<const GpuId> members, const std::vector<Place>& places,
                                       const std::vector<Axis>& axes) {
  std::size_t positions = 1;
  for (const Axis& axis : axes) positions *= axis.taken.size();
  if (positions != members.size()) return std::nullopt;
  std::vector<GpuId> gpus(positions);
  std::vector<bool> filled(positions);
  for (std::size_t m = 0; m < members.size(); ++m) {
    std::size_t at = 0;
    std::size_t stride = 1;
    for (const Axis& axis : axes) {
      at += axis.position(places[m].ordinal) * stride;
      stride *= axis.taken.size();
    }
    if (filled[at]) return std::nullopt;
    filled[at] = true;
    gpus[at] = members[m];
  }
  return gpus;
}

}  // namespace

std::optional<TorusBox> torus_box(const Fabric& fabric, std::span<const GpuId> members) {
  if (!fabric.torus() || members.size() <= 1) return std::nullopt;
  std::vector<Place> places;
  places.reserve(members.size());
  for (const GpuId gpu : members) {
    const std::optional<Place> place = place_of(fabric, gpu);
    if (!place) return std::nullopt;
    places.push_back(*place);
  }
  const std::vector<Axis> axes = axes_of(*fabric.torus(), places);
  auto gpus = fill(members, places, axes);
  if (!gpus) return std::nullopt;
  TorusBox box{{}, std::move(*gpus), slowest_cable(fabric, places)};
  for (const Axis& axis : axes) {
    if (axis.taken.size() <= 1) continue;
    box.lines.push_back({static_cast<std::uint32_t>(axis.taken.size()), closes(fabric, axis, places)});
  }
  return box;
}

std::vector<double> torus_wire(std::span<const TorusLine> lines) {
  std::vector<double> wire(lines.size());
  for (std::size_t start = 0; start < lines.size(); ++start) {
    // A part that scatters along `start` first, then along the following dimensions; each leaves less for the next.
    double left = 1.0 / (2.0 * static_cast<double>(lines.size()));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t d = (start + i) % lines.size();
      const double extent = lines[d].extent;
      wire[d] += left * (extent - 1) / extent;
      left /= extent;
    }
  }
  return wire;
}

}  // namespace foretrain
