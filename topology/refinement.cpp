#include "topology/refinement.h"

#include <algorithm>
#include <limits>

namespace foretrain {
namespace {

/// splitmix64's finaliser (Steele 2014): a good 64-bit mix.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

Digest digest_of(std::uint32_t label, std::uint32_t colour) {
  const std::uint64_t word = std::uint64_t{label} << 32 | colour;
  const std::uint64_t a = mix(word);
  return {a, mix(a ^ (word * 0xd6e8feb86659fd93ULL))};
}

/// The classes while they are being split. The nodes of a class stand together in `order_`; those whose sum a round has
/// changed are kept at the end of their class.
class Refiner {
 public:
  Refiner(const LabelledGraph& graph, std::vector<std::uint32_t> colours)
      : graph_(graph), colour_(std::move(colours)), sum_(graph.nodes()) {
    std::uint32_t count = 0;
    for (const std::uint32_t c : colour_) count = std::max(count, c + 1);
    classes_.resize(count);
    for (const std::uint32_t c : colour_) ++classes_[c].size;
    std::uint32_t begin = 0;
    for (Class& c : classes_) {
      c.begin = begin;
      begin += c.size;
    }
    order_.resize(colour_.size());
    place_.resize(colour_.size());
    for (std::uint32_t v = 0; v < colour_.size(); ++v) {
      Class& c = classes_[colour_[v]];
      place_[v] = c.begin + c.touched++;  // all are touched in the first round
      order_[place_[v]] = v;
    }
  }

  std::vector<std::uint32_t> run() {
    for (std::uint32_t v = 0; v < colour_.size(); ++v)
      for (const LabelledGraph::Edge& e : graph_.edges(v)) sum_[e.to] += digest_of(e.label, colour_[v]);
    for (std::uint32_t c = 0; c < classes_.size(); ++c)
      if (classes_[c].touched > 0) touched_.push_back(c);
    split_touched();
    while (!changed_.empty()) {
      spread_changes();
      split_touched();
    }
    return numbered_by_first();
  }

 private:
  struct Class {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
    std::uint32_t touched = 0;
  };
  struct Changed {
    std::uint32_t node;
    std::uint32_t before;
  };

  void touch(std::uint32_t v) {
    Class& c = classes_[colour_[v]];
    const std::uint32_t first_touched = c.begin + c.size - c.touched;
    if (place_[v] >= first_touched) return;
    if (c.touched++ == 0) touched_.push_back(colour_[v]);
    const std::uint32_t other = order_[first_touched - 1];
    std::swap(order_[place_[v]], order_[first_touched - 1]);
    place_[other] = place_[v];
    place_[v] = first_touched - 1;
  }

  void spread_changes() {
    for (const auto& [v, before] : changed_)
      for (const LabelledGraph::Edge& e : graph_.edges(v)) {
        sum_[e.to] += digest_of(e.label, colour_[v]);
        sum_[e.to] -= digest_of(e.label, before);
        touch(e.to);
      }
    changed_.clear();
  }

  void split_touched() {
    std::vector<std::uint32_t> touched;
    std::swap(touched, touched_);
    for (const std::uint32_t c : touched) split(c);
  }

  /// Divides a class by the sums of its nodes; the largest part keeps the colour, the first of several.
  void split(std::uint32_t colour) {
    const Class whole = classes_[colour];
    classes_[colour].touched = 0;
    const std::uint32_t end = whole.begin + whole.size;
    const std::uint32_t first_touched = end - whole.touched;
    const Digest& first = sum_[order_[whole.begin]];
    keys_.clear();
    bool alike = true;
    for (std::uint32_t i = first_touched; i < end; ++i) {
      keys_.push_back({sum_[order_[i]], order_[i]});
      alike = alike && keys_.back().sum == first;
    }
    if (alike) return;
    // Those that are as the untouched after all stand next to them.
    const bool some_stay = whole.touched < whole.size;
    std::sort(keys_.begin(), keys_.end(), [&, staying = first](const Key& v, const Key& w) {
      const bool v_stays = some_stay && v.sum == staying;
      const bool w_stays = some_stay && w.sum == staying;
      if (v_stays != w_stays) return v_stays;
      return v.sum != w.sum ? v.sum < w.sum : v.node < w.node;
    });
    for (std::uint32_t i = first_touched; i < end; ++i) {
      order_[i] = keys_[i - first_touched].node;
      place_[order_[i]] = i;
    }
    parts_.clear();
    parts_.push_back(whole.begin);
    for (std::uint32_t i = std::max(first_touched, whole.begin + 1); i < end; ++i)
      if (sum_[order_[i]] != sum_[order_[i - 1]]) parts_.push_back(i);
    parts_.push_back(end);
    std::size_t largest = 0;
    for (std::size_t p = 1; p + 1 < parts_.size(); ++p)
      if (parts_[p + 1] - parts_[p] > parts_[largest + 1] - parts_[largest]) largest = p;
    for (std::size_t p = 0; p + 1 < parts_.size(); ++p) {
      const Class part{.begin = parts_[p], .size = parts_[p + 1] - parts_[p], .touched = 0};
      if (p == largest)
        classes_[colour] = part;
      else
        recolour(part, colour);
    }
  }

  void recolour(const Class& part, std::uint32_t before) {
    const auto fresh = static_cast<std::uint32_t>(classes_.size());
    classes_.push_back(part);
    for (std::uint32_t i = part.begin; i < part.begin + part.size; ++i) {
      colour_[order_[i]] = fresh;
      changed_.push_back({order_[i], before});
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> numbered_by_first() const {
    constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> number(classes_.size(), none);
    std::uint32_t next = 0;
    std::vector<std::uint32_t> result(colour_.size());
    for (std::size_t v = 0; v < colour_.size(); ++v) {
      std::uint32_t& n = number[colour_[v]];
      if (n == none) n = next++;
      result[v] = n;
    }
    return result;
  }

  const LabelledGraph& graph_;
  std::vector<std::uint32_t> colour_;
  std::vector<Digest> sum_;
  std::vector<Class> classes_;        ///< by colour
  std::vector<std::uint32_t> order_;  ///< nodes, class by class
  std::vector<std::uint32_t> place_;  ///< by node: in `order_`
  std::vector<std::uint32_t> touched_;
  std::vector<Changed> changed_;
  std::vector<std::uint32_t> parts_;
  struct Key {
    Digest sum;
    std::uint32_t node = 0;
  };
  std::vector<Key> keys_;  ///< of the class at hand
};

}  // namespace

Digest& Digest::operator+=(const Digest& other) {
  a += other.a;
  b += other.b;
  return *this;
}

Digest& Digest::operator-=(const Digest& other) {
  a -= other.a;
  b -= other.b;
  return *this;
}

void Digest::append(std::uint64_t word) {
  a = mix(a ^ word);
  b = mix(b + word * 0xd6e8feb86659fd93ULL);
}

std::vector<std::uint32_t> refine(const LabelledGraph& graph, std::vector<std::uint32_t> colours) {
  return Refiner(graph, std::move(colours)).run();
}

}  // namespace foretrain
