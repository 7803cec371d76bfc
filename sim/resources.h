// From links to resources: the exact reduction that `expand` describes, by itself.
//
// Tables are rows behind one another: row i is entries [begin[i], begin[i + 1]), so a million shapes cost no
// allocation each.
#pragma once

#include <cstddef>
#include <cstdint>
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
  template <class Each>
  void for_each(std::size_t shape, const Each& each) const {  ///< each(link, load)
    for (const LinkLoad& l : of(shape)) each(l.link, l.load);
  }
  void end_shape() { begin.push_back(loads.size()); }
};

/// What shapes put on links; each link at most once a shape. Shapes that differ only in the links, not in what they put
/// on them, hold the amounts once.
class UsageTable {
 public:
  struct Amount {
    double wire = 0;  ///< bytes a message byte
    double load = 0;  ///< the same over the goodput (collectives/collective.h)
  };

  [[nodiscard]] std::size_t shapes() const { return rows_.size(); }
  [[nodiscard]] std::span<const LinkId> links(std::size_t shape) const {
    return std::span(links_).subspan(rows_[shape].links, rows_[shape].count);
  }
  /// In the order of the links.
  [[nodiscard]] std::span<const Amount> amounts(std::size_t shape) const {
    return std::span(amounts_).subspan(rows_[shape].amounts, rows_[shape].count);
  }
  template <class Each>
  void for_each(std::size_t shape, const Each& each) const {  ///< each(link, load)
    const auto on = links(shape);
    const auto amount = amounts(shape);
    for (std::size_t i = 0; i < on.size(); ++i) each(on[i], amount[i].load);
  }

  void add(std::span<const Usage> usage) {
    rows_.push_back({links_.size(), amounts_.size(), usage.size()});
    for (const Usage& u : usage) {
      links_.push_back(u.link);
      amounts_.push_back({u.wire, u.load});
    }
  }
  /// A shape that puts on `link_at(0)`, `link_at(1)`, ... what another does on its first, second, ... link.
  template <class LinkAt>
  void add_image(std::size_t of, const LinkAt& link_at) {
    rows_.push_back({links_.size(), rows_[of].amounts, rows_[of].count});
    for (std::size_t i = 0; i < rows_[of].count; ++i) links_.push_back(link_at(i));
  }

 private:
  struct Row {
    std::size_t links = 0;    ///< into links_
    std::size_t amounts = 0;  ///< into amounts_
    std::size_t count = 0;
  };
  std::vector<Row> rows_;  ///< by shape
  std::vector<LinkId> links_;
  std::vector<Amount> amounts_;
};

struct ResourceTable {
  std::vector<double> capacity;                  ///< by resource, bytes a second
  std::vector<std::uint32_t> links_begin = {0};  ///< by resource, into links
  std::vector<LinkId> links;                     ///< those that are as narrow as the resource's capacity
  std::vector<std::size_t> begin = {0};          ///< by shape, into loads
  std::vector<Load> loads;                       ///< what is left of the shapes, ascending by resource in each

  [[nodiscard]] std::span<const LinkId> links_of(std::size_t resource) const {
    return std::span(links).subspan(links_begin[resource], links_begin[resource + 1] - links_begin[resource]);
  }
  [[nodiscard]] std::size_t shapes() const { return begin.size() - 1; }
  [[nodiscard]] std::span<const Load> of(std::size_t shape) const {
    return std::span(loads).subspan(begin[shape], begin[shape + 1] - begin[shape]);
  }
};

/// `rate_cap` by shape in message bytes a second (or `uncapped`): of all transfers of the shape that move together.
/// Whatever rates keep every resource within its capacity keep every link within its bandwidth, and the reverse.
[[nodiscard]] ResourceTable reduce_links(const Fabric& fabric, const LinkTable& usage,
                                         std::span<const double> rate_cap);

[[nodiscard]] ResourceTable reduce_links(const Fabric& fabric, const UsageTable& usage,
                                         std::span<const double> rate_cap);

}  // namespace foretrain
