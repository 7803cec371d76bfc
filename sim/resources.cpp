#include "sim/resources.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>

namespace foretrain {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

/// splitmix64's finaliser (Steele 2014): a good 64-bit mix.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// 128 bits of what loads a link: by whom and how much. Equal for two links if and (but for a collision of 128 bits)
/// only if every shape loads both alike.
struct Signature {
  std::uint64_t a = 0, b = 0;
  bool operator==(const Signature&) const = default;
};

template <class Table>
std::vector<Signature> signatures(std::size_t links, const Table& usage) {
  std::vector<Signature> result(links);
  for (std::size_t s = 0; s < usage.shapes(); ++s) {
    const std::uint64_t shape = mix(s + 1);
    usage.for_each(s, [&](LinkId link, double load) {
      Signature& sig = result[link.index()];
      const std::uint64_t what = mix(shape ^ std::bit_cast<std::uint64_t>(load));
      sig.a = mix(sig.a ^ what);
      sig.b = mix(sig.b + what * 0xd6e8feb86659fd93ULL);
    });
  }
  return result;
}

/// Numbers for the signatures of links, in the order in which they first come.
class SignatureIndex {
 public:
  explicit SignatureIndex(const std::vector<Signature>& signatures) : signatures_(signatures) {
    const auto used = static_cast<std::size_t>(
        std::count_if(signatures.begin(), signatures.end(), [](const Signature& s) { return s != Signature{}; }));
    slots_.assign(std::bit_ceil(2 * used + 1), none);
  }
  /// The number of a link's; `first` holds by number the link that came first, and gets the next if it is new.
  std::uint32_t of(LinkId link, std::vector<LinkId>& first) {
    const Signature& signature = signatures_[link.index()];
    for (std::size_t at = signature.a & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      std::uint32_t& number = slots_[at];
      if (number == none) {
        number = static_cast<std::uint32_t>(first.size());
        first.push_back(link);
        return number;
      }
      if (signatures_[first[number].index()] == signature) return number;
    }
  }

 private:
  const std::vector<Signature>& signatures_;
  std::vector<std::uint32_t> slots_;
};

/// Links merged by signature; `of_link` is `none` for links that nothing crosses.
struct Merged {
  std::vector<double> capacity;
  std::vector<std::uint32_t> of_link;
  std::vector<LinkId> representative;  ///< the one whose usage entries stand for all
};

double bandwidth_of(const Fabric& fabric, LinkId link) {
  return static_cast<double>(fabric.link(link).bandwidth.bytes_per_s());
}

Merged merge(const Fabric& fabric, const std::vector<Signature>& signatures) {
  Merged m;
  m.of_link.assign(fabric.link_count(), none);
  SignatureIndex index(signatures);
  for (std::size_t l = 0; l < signatures.size(); ++l) {
    if (signatures[l] == Signature{}) continue;
    const auto link = id_at<LinkId>(l);
    const std::uint32_t r = index.of(link, m.representative);
    m.of_link[l] = r;
    if (r == m.capacity.size()) {
      m.capacity.push_back(bandwidth_of(fabric, link));
    } else {
      m.capacity[r] = std::min(m.capacity[r], bandwidth_of(fabric, link));
    }
  }
  return m;
}

/// Fills `begin` and `loads` of a table of resources.
template <class Table>
void merge_loads(const Merged& m, const Table& usage, ResourceTable& table) {
  const auto stands_for_all = [&](LinkId link) { return m.representative[m.of_link[link.index()]] == link; };
  std::size_t kept = 0;
  for (std::size_t s = 0; s < usage.shapes(); ++s)
    usage.for_each(s, [&](LinkId link, double) { kept += stands_for_all(link) ? 1 : 0; });
  table.loads.reserve(kept);
  table.begin.reserve(usage.shapes() + 1);
  for (std::size_t s = 0; s < usage.shapes(); ++s) {
    usage.for_each(s, [&](LinkId link, double load) {
      if (stands_for_all(link)) table.loads.push_back({ResourceId{m.of_link[link.index()]}, load});
    });
    table.begin.push_back(table.loads.size());
  }
}

/// Finds resources that narrower ones upstream keep from ever filling. With x the rates of the shapes T that load
/// resource l, each with a parent p(t) among the kept resources:
///   sum_t load(l,t) x_t <= sum over parents p of max_{t of p} load(l,t)/load(p,t) * capacity(p)
/// and where the right side is within capacity(l), l binds nobody. A shape with a rate cap may be its own parent.
/// A resource that served as a parent is never dropped afterwards, so no two can vouch for each other.
class Pruner {
 public:
  Pruner(std::span<const double> capacity, const ResourceTable& table, std::span<const double> rate_cap)
      : capacity_(capacity),
        table_(table),
        rate_cap_(rate_cap),
        dropped_(capacity.size()),
        parent_(capacity.size()),
        ratio_(capacity.size()),
        ratio_of_(capacity.size(), none) {}

  std::vector<bool> run() {
    index_users();
    sort_by_tightness();
    for (const std::uint32_t r : trunks_first()) try_drop(r);
    return dropped_;
  }

 private:
  struct User {
    std::uint32_t shape = 0;
    double load = 0;
  };

  std::size_t users(std::uint32_t r) const { return begin_[r + 1] - begin_[r]; }

  /// By falling numbers of users, the first of equals first.
  [[nodiscard]] std::vector<std::uint32_t> trunks_first() const {
    std::size_t most = 0;
    for (std::uint32_t r = 0; r < capacity_.size(); ++r) most = std::max(most, users(r));
    std::vector<std::uint32_t> begin(most + 2);
    for (std::uint32_t r = 0; r < capacity_.size(); ++r) ++begin[most - users(r) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::uint32_t> order(capacity_.size());
    for (std::uint32_t r = 0; r < capacity_.size(); ++r) order[begin[most - users(r)]++] = r;
    return order;
  }

  void index_users() {
    begin_.assign(capacity_.size() + 1, 0);
    for (const Load& l : table_.loads) ++begin_[l.resource.index() + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    users_.resize(begin_.back());
    auto next = begin_;
    for (std::size_t s = 0; s < table_.shapes(); ++s)
      for (const Load& l : table_.of(s)) users_[next[l.resource.index()]++] = {static_cast<std::uint32_t>(s), l.load};
  }

  /// By shape: its loads, what limits it most when it is alone first.
  void sort_by_tightness() {
    tightest_.resize(table_.loads.size());
    first_kept_.assign(table_.begin.begin(), table_.begin.end() - 1);
    const auto tighter = [](const auto& a, const auto& b) {
      return a.tightness != b.tightness ? a.tightness > b.tightness : a.resource < b.resource;
    };
    for (std::size_t s = 0; s < table_.shapes(); ++s) {
      keys_.clear();
      for (std::size_t i = table_.begin[s]; i < table_.begin[s + 1]; ++i)
        keys_.push_back(
            {table_.loads[i].load / capacity_[table_.loads[i].resource.index()], table_.loads[i].resource, i});
      if (!std::is_sorted(keys_.begin(), keys_.end(), tighter)) std::sort(keys_.begin(), keys_.end(), tighter);
      for (std::size_t i = 0; i < keys_.size(); ++i)
        tightest_[table_.begin[s] + i] = static_cast<std::uint32_t>(keys_[i].entry - table_.begin[s]);
    }
  }

  /// Of the other kept resources that a shape loads: what limits it most when it is alone; null without any.
  const Load* tightest_but(std::uint32_t shape, std::uint32_t r) {
    const std::size_t begin = table_.begin[shape];
    const std::size_t end = table_.begin[shape + 1];
    std::size_t& first = first_kept_[shape];
    while (first < end && dropped_[table_.loads[begin + tightest_[first]].resource.index()]) ++first;
    for (std::size_t i = first; i < end; ++i) {
      const Load& l = table_.loads[begin + tightest_[i]];
      if (l.resource.value != r && !dropped_[l.resource.index()]) return &l;
    }
    return nullptr;
  }

  void try_drop(std::uint32_t r) {
    if (parent_[r]) return;
    constexpr double slack = 1 + 1e-9;  // equal sums of equal cables differ in the last bits
    double bound = 0;
    parents_.clear();
    for (std::size_t i = begin_[r]; i < begin_[r + 1] && bound <= capacity_[r] * slack; ++i) {
      const Load* tightest = tightest_but(users_[i].shape, r);
      if (tightest == nullptr) {
        bound += users_[i].load * rate_cap_[users_[i].shape];
        continue;
      }
      const std::uint32_t parent = tightest->resource.value;
      const double here_per_there = users_[i].load / tightest->load;
      if (ratio_of_[parent] != r) {
        ratio_of_[parent] = r;
        ratio_[parent] = 0;
        parents_.push_back(parent);
      }
      if (here_per_there <= ratio_[parent]) continue;
      bound += (here_per_there - ratio_[parent]) * capacity_[parent];
      ratio_[parent] = here_per_there;
    }
    if (!(bound <= capacity_[r] * slack)) return;
    dropped_[r] = true;
    for (const std::uint32_t parent : parents_) parent_[parent] = true;
  }

  std::span<const double> capacity_;
  const ResourceTable& table_;
  std::span<const double> rate_cap_;
  std::vector<bool> dropped_;
  std::vector<bool> parent_;
  std::vector<double> ratio_;            ///< by parent of the resource at hand: largest load here per load there
  std::vector<std::uint32_t> ratio_of_;  ///< by parent: whose the ratio is
  std::vector<std::uint32_t> parents_;   ///< of the resource at hand
  std::vector<std::size_t> begin_;       ///< by resource, into users_
  std::vector<User> users_;
  std::vector<std::uint32_t> tightest_;  ///< by shape, as in its table: entries of its row, the tightest first
  std::vector<std::size_t> first_kept_;  ///< by shape: into tightest_; those before are dropped
  struct Key {
    double tightness = 0;
    ResourceId resource;
    std::size_t entry = 0;
  };
  std::vector<Key> keys_;  ///< of the shape at hand
};

/// Takes the dropped resources out of the loads, in place.
void keep_loads(ResourceTable& table, const std::vector<std::uint32_t>& renumbered) {
  std::size_t kept = 0;
  std::size_t at = 0;
  for (std::size_t s = 0; s < table.shapes(); ++s) {
    const std::size_t first = kept;
    for (; at < table.begin[s + 1]; ++at) {
      const std::uint32_t r = renumbered[table.loads[at].resource.index()];
      if (r != none) table.loads[kept++] = {ResourceId{r}, table.loads[at].load};
    }
    table.begin[s] = first;
    const std::span row = std::span(table.loads).subspan(first, kept - first);
    const auto ascending = [](const Load& a, const Load& b) { return a.resource < b.resource; };
    if (!std::is_sorted(row.begin(), row.end(), ascending)) std::sort(row.begin(), row.end(), ascending);
  }
  table.begin.back() = kept;
  table.loads.resize(kept);
}

/// By resource: the links that are as narrow as it.
void list_narrowest(const Fabric& fabric, const Merged& m, const std::vector<std::uint32_t>& renumbered,
                    ResourceTable& table) {
  const auto for_each = [&](const auto& each) {
    for (std::size_t l = 0; l < m.of_link.size(); ++l) {
      const std::uint32_t merged = m.of_link[l];
      const auto link = id_at<LinkId>(l);
      if (merged != none && renumbered[merged] != none && bandwidth_of(fabric, link) == m.capacity[merged])
        each(link, renumbered[merged]);
    }
  };
  table.links_begin.assign(table.capacity.size() + 1, 0);
  for_each([&](LinkId, std::uint32_t r) { ++table.links_begin[r + std::size_t{1}]; });
  std::partial_sum(table.links_begin.begin(), table.links_begin.end(), table.links_begin.begin());
  table.links.resize(table.links_begin.back());
  std::vector<std::uint32_t> next(table.links_begin.begin(), table.links_begin.end() - 1);
  for_each([&](LinkId link, std::uint32_t r) { table.links[next[r]++] = link; });
}

template <class Table>
ResourceTable reduce(const Fabric& fabric, const Table& usage, std::span<const double> rate_cap) {
  const Merged merged = merge(fabric, signatures(fabric.link_count(), usage));
  ResourceTable table;
  merge_loads(merged, usage, table);
  const auto dropped = Pruner(merged.capacity, table, rate_cap).run();

  std::vector<std::uint32_t> renumbered(merged.capacity.size(), none);
  for (std::size_t r = 0; r < merged.capacity.size(); ++r) {
    if (dropped[r]) continue;
    renumbered[r] = static_cast<std::uint32_t>(table.capacity.size());
    table.capacity.push_back(merged.capacity[r]);
  }
  list_narrowest(fabric, merged, renumbered, table);
  keep_loads(table, renumbered);
  return table;
}

}  // namespace

ResourceTable reduce_links(const Fabric& fabric, const LinkTable& usage, std::span<const double> rate_cap) {
  return reduce(fabric, usage, rate_cap);
}

ResourceTable reduce_links(const Fabric& fabric, const UsageTable& usage, std::span<const double> rate_cap) {
  return reduce(fabric, usage, rate_cap);
}

}  // namespace foretrain
