#include "topology/routing/links_alike.h"

#include <map>
#include <tuple>
#include <unordered_map>

#include "topology/refinement.h"

namespace foretrain {
namespace {

/// Numbers for kinds of links: bandwidth and tier.
class LinkKinds {
 public:
  std::uint32_t of(const Link& link) {
    const std::tuple kind(link.bandwidth.bytes_per_s(), link.tier);
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

std::vector<LinkId> links_alike(const SwitchGraph& graph) {
  LinkKinds kinds;
  LabelledGraph labelled(graph.switch_count());
  labelled.connect_all([&](const auto& connect) {
    for (std::size_t s = 0; s < graph.switch_count(); ++s)
      for (const SwitchGraph::Edge& e : graph.edges(id_at<SwitchId>(s))) {
        const std::uint32_t kind = kinds.of(graph.fabric().link(e.link));
        connect(static_cast<std::uint32_t>(s), e.to.value, 2 * kind, 2 * kind + 1);
      }
  });
  const std::vector<std::uint32_t> classes = refine(labelled, first_colours(graph));

  std::vector<LinkId> alike(graph.fabric().link_count());
  for (std::size_t l = 0; l < alike.size(); ++l) alike[l] = id_at<LinkId>(l);
  std::unordered_map<Digest, LinkId, DigestHash> first;  // looked up only, never iterated
  for (std::size_t s = 0; s < graph.switch_count(); ++s)
    for (const SwitchGraph::Edge& e : graph.edges(id_at<SwitchId>(s))) {
      const Digest key{std::uint64_t{classes[s]} << 32 | classes[e.to.index()], kinds.of(graph.fabric().link(e.link))};
      alike[e.link.index()] = first.try_emplace(key, e.link).first->second;
    }
  return alike;
}

}  // namespace foretrain
