#include "sim/fold.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "topology/refinement.h"

namespace foretrain {
namespace {

/// Numbers for digests, in the order in which they are first asked for.
class Colours {
 public:
  std::uint32_t of(const Digest& digest) {
    return known_.try_emplace(digest, static_cast<std::uint32_t>(known_.size())).first->second;
  }
  [[nodiscard]] std::size_t size() const { return known_.size(); }

 private:
  std::unordered_map<Digest, std::uint32_t, DigestHash> known_;  // looked up only, never iterated
};

enum class NodeKind : std::uint8_t { rank, communicator, resource };

Digest digest_of(NodeKind kind) {
  Digest d;
  d.append(static_cast<std::uint64_t>(kind));
  return d;
}

Classes each_its_own(std::size_t things) {
  Classes c{.of = std::vector<std::uint32_t>(things),
            .first = std::vector<std::uint32_t>(things),
            .count = std::vector<std::uint32_t>(things, 1)};
  std::iota(c.of.begin(), c.of.end(), 0U);
  std::iota(c.first.begin(), c.first.end(), 0U);
  return c;
}

class Folder {
 public:
  Folder(const Job& job, const Expansion& expansion, bool shares, FoldFault fault)
      : job_(job), expansion_(expansion), shares_(shares), fault_(fault) {}

  Fold run() {
    find_idle();
    Fold result;
    std::vector<std::uint32_t> first = first_colours();
    result.rank_kinds = count_first(std::span(first).first(job_.ranks.size()));
    const std::vector<std::uint32_t> colours = shares_ ? by_all(first) : by_groups(first);
    const auto rest = std::span<const std::uint32_t>(colours);
    result.ranks = classes_of(rest.first(job_.ranks.size()));
    result.communicators = classes_of(rest.subspan(job_.ranks.size(), job_.communicators.size()));
    // Where resources make no difference each is its own class: none of them matters.
    result.resources = shares_ ? classes_of(rest.subspan(job_.ranks.size() + job_.communicators.size()))
                               : each_its_own(expansion_.resources.capacity.size());
    // Between the kinds and the classes: to be found out only where these differ.
    result.rank_groupings = result.ranks.size();
    if (shares_ && result.ranks.size() > result.rank_kinds) {
      const std::vector<std::uint32_t> groupings = by_groups(std::move(first));
      result.rank_groupings = count_first(std::span(groupings).first(job_.ranks.size()));
    }
    return result;
  }

 private:
  /// By programs and communicators alone.
  [[nodiscard]] std::vector<std::uint32_t> by_groups(std::vector<std::uint32_t> colours) {
    LabelledGraph groups(colours.size());
    groups.connect_all([this](const auto& connect) { connect_ranks(connect); });
    return refine(groups, std::move(colours));
  }

  [[nodiscard]] std::vector<std::uint32_t> by_all(std::vector<std::uint32_t> colours) {
    append_resources(colours);
    LabelledGraph all(colours.size());
    all.connect_all([this](const auto& connect) {
      connect_ranks(connect);
      connect_resources(connect);
    });
    return refine(all, std::move(colours));
  }

  /// How many colours there are, numbered in the order in which they first come.
  static std::size_t count_first(std::span<const std::uint32_t> colours) {
    return colours.empty() ? 0 : std::size_t{*std::max_element(colours.begin(), colours.end())} + 1;
  }

  /// Groups that a rank only has because slots must be filled: nobody calls them.
  void find_idle() {
    for (std::size_t c = 0; c < job_.communicators.size(); ++c)
      idle_.push_back(job_.communicators[c].members.size() == 1 &&
                      expansion_.calls_of(id_at<CommunicatorId>(c)).empty());
  }

  static Classes classes_of(std::span<const std::uint32_t> colours) {
    Classes c;
    c.of.reserve(colours.size());
    std::uint32_t most = 0;
    for (const std::uint32_t colour : colours) most = std::max(most, colour);
    constexpr std::uint32_t none = UINT32_MAX;
    std::vector<std::uint32_t> number(colours.empty() ? 0 : std::size_t{most} + 1, none);
    for (std::uint32_t i = 0; i < colours.size(); ++i) {
      std::uint32_t& n = number[colours[i]];
      if (n == none) {
        n = static_cast<std::uint32_t>(c.first.size());
        c.first.push_back(i);
        c.count.push_back(0);
      }
      ++c.count[n];
      c.of.push_back(n);
    }
    return c;
  }

  /// Of ranks and communicators.
  std::vector<std::uint32_t> first_colours() {
    std::vector<std::uint32_t> colours;
    colours.reserve(job_.ranks.size() + job_.communicators.size() + expansion_.resources.capacity.size());
    for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
      Digest d = digest_of(NodeKind::rank);
      d.append(job_.ranks[r].program);
      d.append(job_.pace.empty() || fault_ == FoldFault::ignore_pace ? usual_pace : job_.pace[r]);
      colours.push_back(colours_.of(d));
    }
    for (std::size_t c = 0; c < job_.communicators.size(); ++c)
      colours.push_back(colours_.of(communicator_digest(id_at<CommunicatorId>(c))));
    return colours;
  }

  Digest communicator_digest(CommunicatorId id) {
    const Communicator& communicator = job_.communicators[id.index()];
    Digest d = digest_of(NodeKind::communicator);
    d.append(communicator.members.size());
    d.append(communicator.dimension);
    expansion_.shapes_of(id, shapes_);
    for (const PlannedCall& call : expansion_.calls_of(id)) {
      d.append(static_cast<std::uint64_t>(call.op));
      d.append(static_cast<std::uint64_t>(call.size));
      d.append(static_cast<std::uint64_t>(call.choice.algorithm));
      d.append(static_cast<std::uint64_t>(call.choice.protocol));
      d.append(static_cast<std::uint64_t>(call.latency.ps()));
      d.append(static_cast<std::uint64_t>(call.idle_time.ps()));
      d.append(call.moves ? 1 : 0);
      if (!call.moves) continue;
      d.append(static_cast<std::uint64_t>(std::find(shapes_.begin(), shapes_.end(), call.shape) - shapes_.begin()));
      d.append(std::bit_cast<std::uint64_t>(expansion_.rate_cap[call.shape.index()]));
      d.append(std::bit_cast<std::uint64_t>(expansion_.weight[call.shape.index()]));
    }
    return d;
  }

  void append_resources(std::vector<std::uint32_t>& colours) {
    std::uint32_t next = 0;
    for (const std::uint32_t c : colours) next = std::max(next, c + 1);
    Colours by_capacity;
    for (const double capacity : expansion_.resources.capacity) {
      Digest d = digest_of(NodeKind::resource);
      if (fault_ != FoldFault::ignore_capacities) d.append(std::bit_cast<std::uint64_t>(capacity));
      colours.push_back(next + by_capacity.of(d));
    }
  }

  template <class Connect>
  void connect_ranks(const Connect& connect) {
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      const auto& slots = job_.ranks[r].slots;
      for (std::size_t s = 0; s < slots.size(); ++s) {
        if (idle_[slots[s].index()]) continue;
        const auto label = fault_ == FoldFault::ignore_slots ? 0 : static_cast<std::uint32_t>(s);
        connect(r, communicator_node(slots[s]), label, label);
      }
    }
  }

  template <class Connect>
  void connect_resources(const Connect& connect) {
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      const auto id = id_at<CommunicatorId>(c);
      expansion_.shapes_of(id, shapes_);
      for (std::uint32_t i = 0; i < shapes_.size(); ++i)
        for (const Load& l : expansion_.resources.of(shapes_[i].index())) {
          const std::uint32_t label = load_label(i, l.load);
          connect(communicator_node(id), resource_node(l.resource), label, label);
        }
    }
  }

  [[nodiscard]] std::uint32_t communicator_node(CommunicatorId id) const {
    return static_cast<std::uint32_t>(job_.ranks.size()) + id.value;
  }
  [[nodiscard]] std::uint32_t resource_node(ResourceId id) const {
    return static_cast<std::uint32_t>(job_.ranks.size() + job_.communicators.size()) + id.value;
  }

  /// A number for (which shape, load).
  std::uint32_t load_label(std::uint32_t shape, double load) {
    const double counted = fault_ == FoldFault::ignore_loads ? 1.0 : load;
    const std::pair key(shape, std::bit_cast<std::uint64_t>(counted));
    if (key == last_key_) return last_label_;
    last_key_ = key;
    last_label_ = labels_.try_emplace(key, static_cast<std::uint32_t>(labels_.size())).first->second;
    return last_label_;
  }

  const Job& job_;
  const Expansion& expansion_;
  bool shares_;
  FoldFault fault_;
  std::vector<bool> idle_;  ///< by communicator
  Colours colours_;
  std::vector<ShapeId> shapes_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> labels_;
  std::pair<std::uint32_t, std::uint64_t> last_key_ = {UINT32_MAX, 0};
  std::uint32_t last_label_ = 0;
};

}  // namespace

Fold fold(const Job& job, const Expansion& expansion, bool shares, FoldFault fault) {
  return Folder(job, expansion, shares, fault).run();
}

Fold unfolded(const Job& job, const Expansion& expansion) {
  return {.ranks = each_its_own(job.ranks.size()),
          .communicators = each_its_own(job.communicators.size()),
          .resources = each_its_own(expansion.resources.capacity.size()),
          .rank_kinds = job.ranks.size(),
          .rank_groupings = job.ranks.size()};
}

}  // namespace foretrain
