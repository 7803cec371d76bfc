#include "sim/resources.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_map>

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
struct SignatureHash {
  std::size_t operator()(const Signature& s) const { return s.a; }
};

std::vector<Signature> signatures(std::size_t links, const std::vector<std::vector<Usage>>& usage) {
  std::vector<Signature> result(links);
  for (std::size_t s = 0; s < usage.size(); ++s)
    for (const Usage& u : usage[s]) {
      Signature& sig = result[u.link.index()];
      const std::uint64_t what = mix(mix(s + 1) ^ std::bit_cast<std::uint64_t>(u.load));
      sig.a = mix(sig.a ^ what);
      sig.b = mix(sig.b + what * 0xd6e8feb86659fd93ULL);
    }
  return result;
}

/// Links merged by signature; `of_link` is `none` for links that nothing crosses.
struct Merged {
  std::vector<double> capacity;
  std::vector<std::vector<LinkId>> links;
  std::vector<std::uint32_t> of_link;
  std::vector<LinkId> representative;  ///< the one whose usage entries stand for all
};

Merged merge(const Fabric& fabric, const std::vector<std::vector<Usage>>& usage) {
  const auto sigs = signatures(fabric.link_count(), usage);
  Merged m;
  m.of_link.assign(fabric.link_count(), none);
  std::unordered_map<Signature, std::uint32_t, SignatureHash> index;
  index.reserve(fabric.link_count());
  for (std::size_t l = 0; l < sigs.size(); ++l) {
    if (sigs[l] == Signature{}) continue;
    const auto [at, fresh] = index.try_emplace(sigs[l], static_cast<std::uint32_t>(m.capacity.size()));
    const std::uint32_t r = at->second;
    const auto link = id_at<LinkId>(l);
    const auto bandwidth = static_cast<double>(fabric.link(link).bandwidth.bytes_per_s());
    m.of_link[l] = r;
    if (fresh) {
      m.capacity.push_back(bandwidth);
      m.links.push_back({link});
      m.representative.push_back(link);
    } else if (bandwidth < m.capacity[r]) {
      m.capacity[r] = bandwidth;
      m.links[r] = {link};
    } else if (bandwidth == m.capacity[r]) {
      m.links[r].push_back(link);
    }
  }
  return m;
}

std::vector<std::vector<Load>> merged_loads(const Merged& m, const std::vector<std::vector<Usage>>& usage) {
  std::vector<std::vector<Load>> loads(usage.size());
  for (std::size_t s = 0; s < usage.size(); ++s)
    for (const Usage& u : usage[s]) {
      const std::uint32_t r = m.of_link[u.link.index()];
      if (m.representative[r] == u.link) loads[s].push_back({ResourceId{r}, u.load});
    }
  return loads;
}

/// Finds resources that narrower ones upstream keep from ever filling. With x the rates of the shapes T that load
/// resource l, each with a parent p(t) among the kept resources:
///   sum_t load(l,t) x_t <= sum over parents p of max_{t of p} load(l,t)/load(p,t) * capacity(p)
/// and where the right side is within capacity(l), l binds nobody. A shape with a rate cap may be its own parent.
/// A resource that served as a parent is never dropped afterwards, so no two can vouch for each other.
class Pruner {
 public:
  Pruner(const std::vector<double>& capacity, const std::vector<std::vector<Load>>& loads,
         const std::vector<double>& rate_cap)
      : capacity_(capacity), loads_(loads), rate_cap_(rate_cap), dropped_(capacity.size()), parent_(capacity.size()) {}

  std::vector<bool> run() {
    index_users();
    std::vector<std::uint32_t> order(capacity_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return users(a) > users(b); });  // trunks first, end points last
    for (std::uint32_t r : order) try_drop(r);
    return dropped_;
  }

 private:
  struct User {
    std::uint32_t shape;
    double load;
  };

  std::size_t users(std::uint32_t r) const { return begin_[r + 1] - begin_[r]; }

  void index_users() {
    begin_.assign(capacity_.size() + 1, 0);
    for (const auto& shape : loads_)
      for (const Load& l : shape) ++begin_[l.resource.index() + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    users_.resize(begin_.back());
    auto next = begin_;
    for (std::size_t s = 0; s < loads_.size(); ++s)
      for (const Load& l : loads_[s]) users_[next[l.resource.index()]++] = {static_cast<std::uint32_t>(s), l.load};
  }

  /// The kept resource, other than `r`, that limits this shape most when it is alone; `none` if there is no other.
  const Load* tightest(std::uint32_t shape, std::uint32_t r) const {
    const Load* best = nullptr;
    for (const Load& l : loads_[shape]) {
      const auto i = l.resource.index();
      if (i == r || dropped_[i]) continue;
      if (!best || l.load * capacity_[best->resource.index()] > best->load * capacity_[i]) best = &l;
    }
    return best;
  }

  void try_drop(std::uint32_t r) {
    if (parent_[r]) return;
    constexpr double slack = 1 + 1e-9;  // equal sums of equal cables differ in the last bits
    double bound = 0;
    std::unordered_map<std::uint32_t, double> ratio;  // parent -> largest load here per load there
    for (std::size_t i = begin_[r]; i < begin_[r + 1] && bound <= capacity_[r] * slack; ++i) {
      const User& user = users_[i];
      const Load* p = tightest(user.shape, r);
      const double capped = user.load * rate_cap_[user.shape];
      if (!p) {
        bound += capped;
        continue;
      }
      const std::uint32_t parent = p->resource.value;
      const double here_per_there = user.load / p->load;
      double& known = ratio[parent];
      if (here_per_there <= known) continue;
      bound += (here_per_there - known) * capacity_[parent];
      known = here_per_there;
    }
    if (!(bound <= capacity_[r] * slack)) return;
    dropped_[r] = true;
    for (const auto& [parent, unused] : ratio) parent_[parent] = true;
  }

  const std::vector<double>& capacity_;
  const std::vector<std::vector<Load>>& loads_;
  const std::vector<double>& rate_cap_;
  std::vector<bool> dropped_;
  std::vector<bool> parent_;
  std::vector<std::size_t> begin_;
  std::vector<User> users_;
};

}  // namespace

ResourceMap reduce_links(const Fabric& fabric, const std::vector<std::vector<Usage>>& usage,
                         const std::vector<double>& rate_cap) {
  Merged merged = merge(fabric, usage);
  const auto loads = merged_loads(merged, usage);
  const auto dropped = Pruner(merged.capacity, loads, rate_cap).run();

  ResourceMap map;
  std::vector<std::uint32_t> renumbered(merged.capacity.size(), none);
  for (std::size_t r = 0; r < merged.capacity.size(); ++r) {
    if (dropped[r]) continue;
    renumbered[r] = static_cast<std::uint32_t>(map.capacity.size());
    map.capacity.push_back(merged.capacity[r]);
    map.links.push_back(std::move(merged.links[r]));
  }
  map.loads.resize(loads.size());
  for (std::size_t s = 0; s < loads.size(); ++s)
    for (const Load& l : loads[s])
      if (!dropped[l.resource.index()]) map.loads[s].push_back({ResourceId{renumbered[l.resource.index()]}, l.load});
  return map;
}

}  // namespace foretrain
