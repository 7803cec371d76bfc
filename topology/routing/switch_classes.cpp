#include "topology/routing/switch_classes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "topology/refinement.h"

namespace foretrain {
namespace {

/// Numbers for kinds of links: bandwidth and tier.
class LinkKinds {
 public:
  std::uint32_t of(const Link& link) {
    const Kind kind(link.bandwidth.bytes_per_s(), link.tier);
    if (kind != last_) {
      last_ = kind;
      number_ = known_.try_emplace(kind, static_cast<std::uint32_t>(known_.size())).first->second;
    }
    return number_;
  }

 private:
  using Kind = std::tuple<std::int64_t, TierId>;
  std::map<Kind, std::uint32_t> known_;
  Kind last_{-1, TierId{}};
  std::uint32_t number_ = 0;
};

/// Those with GPUs each by itself, all others alike.
std::vector<std::uint32_t> first_colours(const SwitchGraph& graph) {
  std::vector<std::uint32_t> colours(graph.switch_count(), 0);
  std::uint32_t next = 1;
  for (std::size_t a = 0; a < graph.attachment_count(); ++a)
    for (const SwitchId s : graph.switches_of(id_at<AttachmentId>(a)))
      if (colours[s.index()] == 0) colours[s.index()] = next++;
  return colours;
}

}  // namespace

SwitchClasses::SwitchClasses(const SwitchGraph& graph) {
  LinkKinds kinds;
  LabelledGraph labelled(graph.switch_count());
  labelled.connect_all([&](const auto& connect) {
    for (std::size_t s = 0; s < graph.switch_count(); ++s)
      for (const SwitchGraph::Edge& e : graph.edges(id_at<SwitchId>(s))) {
        const std::uint32_t kind = kinds.of(graph.fabric().link(e.link));
        connect(static_cast<std::uint32_t>(s), e.to.value, 2 * kind, 2 * kind + 1);
      }
  });
  class_of_ = refine(labelled, first_colours(graph));

  std::vector<std::uint32_t> first_switch;
  for (std::uint32_t s = 0; s < class_of_.size(); ++s)
    if (class_of_[s] == first_switch.size()) first_switch.push_back(s);
  count_ = static_cast<std::uint32_t>(first_switch.size());
  links_alike_.resize(graph.fabric().link_count());
  for (std::size_t l = 0; l < links_alike_.size(); ++l) links_alike_[l] = id_at<LinkId>(l);
  if (!some_alike()) return;
  index_edges(graph, first_switch);
  for (Side* side : {&from_, &to_}) {
    side->seen.assign(count_, 0);
    side->distance.assign(count_, 0);
  }
  marked_.assign(count_, 0);
  held_.assign(count_, 0);
}

/// Switches of a class have the same edges to classes; those of its first switch are listed, and all links put to them.
void SwitchClasses::index_edges(const SwitchGraph& graph, const std::vector<std::uint32_t>& first_switch) {
  LinkKinds kinds;
  std::vector<std::uint32_t> size(count_, 0);
  for (const std::uint32_t c : class_of_) ++size[c];
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> at;  // of a class: by class at the other end and kind
  std::vector<std::vector<std::uint32_t>> members(count_);
  for (std::uint32_t s = 0; s < class_of_.size(); ++s) members[class_of_[s]].push_back(s);
  begin_.push_back(0);
  back_begin_.assign(count_ + std::size_t{1}, 0);
  for (std::uint32_t c = 0; c < count_; ++c) {
    at.clear();
    for (const std::uint32_t s : members[c])
      for (const SwitchGraph::Edge& e : graph.edges(SwitchId{s})) {
        const std::uint32_t to = class_of_[e.to.index()];
        const auto [known, fresh] = at.try_emplace({to, kinds.of(graph.fabric().link(e.link))}, edges_.size());
        if (fresh) edges_.push_back({.first = e.link, .to = to});
        Edge& edge = edges_[known->second];
        if (s == first_switch[c]) ++edge.links;
        links_alike_[e.link.index()] = edge.first;
      }
    for (std::size_t i = begin_.back(); i < edges_.size(); ++i) {
      edges_[i].into = edges_[i].links * size[c] / size[edges_[i].to];
      ++back_begin_[edges_[i].to + std::size_t{1}];
    }
    begin_.push_back(edges_.size());
  }
  for (std::size_t c = 0; c < count_; ++c) back_begin_[c + 1] += back_begin_[c];
  back_edges_.resize(edges_.size());
  auto next = back_begin_;
  for (std::uint32_t c = 0; c < count_; ++c)
    for (const Edge& e : edges(c)) back_edges_[next[e.to]++] = c;
}

// ---- the search, from both ends until they meet
// -----------------------------------------------------------------------

void SwitchClasses::begin(Side& side, std::span<const SwitchId> switches) const {
  if (side.levels.empty()) side.levels.emplace_back();
  side.levels[0].clear();
  side.depth = 0;
  for (const SwitchId s : switches) {
    const std::uint32_t c = class_of_[s.index()];
    if (std::exchange(side.seen[c], search_) == search_) continue;
    side.distance[c] = 0;
    side.levels[0].push_back(c);
  }
}

/// Edges out of the outermost level.
std::size_t SwitchClasses::width(bool forward) const {
  const Side& side = forward ? from_ : to_;
  std::size_t sum = 0;
  for (const std::uint32_t c : side.levels[side.depth]) sum += forward ? edges(c).size() : back_edges(c).size();
  return sum;
}

/// Goes one level on; false when there is none.
bool SwitchClasses::widen(bool forward) const {
  Side& side = forward ? from_ : to_;
  if (side.levels.size() == side.depth + 1) side.levels.emplace_back();
  std::vector<std::uint32_t>& next = side.levels[side.depth + 1];
  next.clear();
  const auto distance = static_cast<std::uint16_t>(side.depth + 1);
  const auto visit = [&](std::uint32_t c) {
    if (std::exchange(side.seen[c], search_) == search_) return;
    side.distance[c] = distance;
    next.push_back(c);
  };
  for (const std::uint32_t c : side.levels[side.depth]) {
    if (forward) {
      for (const Edge& e : edges(c)) visit(e.to);
    } else {
      for (const std::uint32_t from : back_edges(c)) visit(from);
    }
  }
  ++side.depth;
  return !next.empty();
}

/// True when the two outermost levels share a class. Before, no way can be as short as both depths together.
bool SwitchClasses::meet() const {
  const std::vector<std::uint32_t>& outermost = from_.levels[from_.depth];
  return std::any_of(outermost.begin(), outermost.end(),
                     [&](std::uint32_t c) { return to_.seen[c] == search_ && to_.distance[c] == to_.depth; });
}

/// Marks what is on the first half of a shortest way: what of each level leads to a marked class of the next.
void SwitchClasses::mark_ways() const {
  for (const std::uint32_t c : from_.levels[from_.depth])
    if (to_.seen[c] == search_ && to_.distance[c] == to_.depth) marked_[c] = search_;
  for (std::size_t level = from_.depth; level-- > 0;)
    for (const std::uint32_t c : from_.levels[level])
      if (std::any_of(edges(c).begin(), edges(c).end(), [&](const Edge& e) { return leads_on(e.to, level); }))
        marked_[c] = search_;
}

/// Whether a class is the next on a shortest way after one that is `level` from the sources.
bool SwitchClasses::leads_on(std::uint32_t to, std::size_t level) const {
  if (level < from_.depth)
    return marked_[to] == search_ && from_.seen[to] == search_ && from_.distance[to] == level + 1;
  const std::size_t left = from_.depth + to_.depth - level - 1;
  return to_.seen[to] == search_ && to_.distance[to] == left;
}

// ---- shares
// -----------------------------------------------------------------------------------------------------------

void SwitchClasses::hold(std::uint32_t c, double share) const {
  if (held_[c] == 0) next_level_.push_back(c);
  held_[c] += share;
}

/// Hands what the switches of a class hold to the next; empties them.
void SwitchClasses::step(std::uint32_t from, std::size_t level, std::vector<LinkShare>& between) const {
  std::uint32_t links = 0;
  for (const Edge& e : edges(from))
    if (leads_on(e.to, level)) links += e.links;
  const double share = std::exchange(held_[from], 0) / static_cast<double>(links);
  for (const Edge& e : edges(from)) {
    if (!leads_on(e.to, level)) continue;
    between.push_back({e.first, share});
    for (std::uint32_t i = 0; i < e.into; ++i) hold(e.to, share);  // one by one: rounded as the links' sum is
  }
}

SwitchClasses::Division SwitchClasses::divide(std::span<const SwitchId> sources,
                                              std::span<const SwitchId> goals) const {
  ++search_;
  begin(from_, sources);
  begin(to_, goals);
  while (!meet())
    if (!widen(width(true) <= width(false))) return {};
  mark_ways();

  Division division;
  const auto is_nearest = [&](SwitchId s) { return marked_[class_of_[s.index()]] == search_; };
  const auto nearest = static_cast<double>(std::count_if(sources.begin(), sources.end(), is_nearest));
  next_level_.clear();
  for (const SwitchId s : sources) {
    division.at_source.push_back(is_nearest(s) ? 1 / nearest : 0);
    if (is_nearest(s)) hold(class_of_[s.index()], 1 / nearest);
  }
  for (std::size_t level = 0; level < from_.depth + to_.depth; ++level) {
    std::swap(level_, next_level_);
    next_level_.clear();
    for (const std::uint32_t c : level_) step(c, level, division.between);
  }
  for (const SwitchId s : goals) division.at_goal.push_back(held_[class_of_[s.index()]]);
  for (const std::uint32_t c : next_level_) held_[c] = 0;
  return division;
}

}  // namespace foretrain
