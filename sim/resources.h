// From links to resources: the exact reduction that `expand` describes, by itself.
//
// Tables are rows behind one another: row i is entries [begin[i], begin[i + 1]), so a million shapes cost no
// allocation each.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/network.h"

namespace foretrain {

/// Bytes that cross a link, a message byte.
struct LinkLoad {
  LinkId link;
  double load = 0;
};

/// A table of what the shapes load; each link at most once a shape.
struct LinkTable {
  std::vector<std::size_t> begin = {0};  ///< one more than there are shapes
  std::vector<LinkLoad> loads;

  [[nodiscard]] std::size_t shapes() const { return begin.size() - 1; }
  [[nodiscard]] std::span<const LinkLoad> of(std::size_t shape) const {
    return std::span(loads).subspan(begin[shape], begin[shape + 1] - begin[shape]);
  }
  void end_shape() { begin.push_back(loads.size()); }
};

struct ResourceTable {
  std::vector<double> capacity;            ///< by resource, bytes a second
  std::vector<std::vector<LinkId>> links;  ///< by resource: those that are as narrow as its capacity
  std::vector<std::size_t> begin = {0};    ///< by shape, into loads
  std::vector<Load> loads;                 ///< what is left of the shapes, ascending by resource in each

  [[nodiscard]] std::size_t shapes() const { return begin.size() - 1; }
  [[nodiscard]] std::span<const Load> of(std::size_t shape) const {
    return std::span(loads).subspan(begin[shape], begin[shape + 1] - begin[shape]);
  }
};

/// `rate_cap` by shape in message bytes a second (or `uncapped`).
/// Whatever rates keep every resource within its capacity keep every link within its bandwidth, and the reverse.
[[nodiscard]] ResourceTable reduce_links(const Fabric& fabric, const LinkTable& usage,
                                         std::span<const double> rate_cap);

/// The same with a vector a shape.
[[nodiscard]] ResourceTable reduce_links(const Fabric& fabric, const std::vector<std::vector<Usage>>& usage,
                                         std::span<const double> rate_cap);

}  // namespace foretrain
