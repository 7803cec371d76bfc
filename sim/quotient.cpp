#include "sim/quotient.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace foretrain {
namespace {

class Builder {
 public:
  Builder(const Job& job, const Expansion& expansion, const Fold& fold)
      : job_(job), expansion_(expansion), fold_(fold) {}

  Quotient run() {
    find_streams();
    for (std::size_t k = 0; k < fold_.ranks.size(); ++k) add_actor(k);
    build_network();
    for (std::size_t g = 0; g < fold_.communicators.size(); ++g) add_group(g);
    return std::move(out_);
  }

 private:
  /// The one stream from which each program calls each slot.
  void find_streams() {
    for (const Program& p : job_.programs) {
      auto& by_slot = stream_of_slot_.emplace_back(p.slots, std::uint16_t{0});
      for (std::size_t s = 0; s < p.streams.size(); ++s)
        for (const Operation& o : p.streams[s].operations)
          if (o.kind == OperationKind::communicate) by_slot[o.slot] = static_cast<std::uint16_t>(s);
    }
  }

  void add_actor(std::size_t k) {
    const RankBinding& binding = job_.ranks[fold_.ranks.first[k]];
    out_.actors.push_back({.first = RankId{fold_.ranks.first[k]},
                           .ranks = fold_.ranks.count[k],
                           .program = binding.program,
                           .slots_begin = static_cast<std::uint32_t>(out_.slots.size())});
    for (const CommunicatorId id : binding.slots) out_.slots.push_back(GroupId{fold_.communicators.of[id.index()]});
  }

  /// Shapes of a class are those of its first communicator, in the same order.
  void build_network() {
    std::vector<double> capacity;
    for (const std::uint32_t r : fold_.resources.first) capacity.push_back(expansion_.resources.capacity[r]);
    out_.network = std::make_unique<FluidNetwork>(std::move(capacity));
    out_.shape_of.resize(expansion_.rate_cap.size());
    if (!expansion_.plans.empty() || expansion_.usage.shapes() == 0) {  // shapes of sends belong to no communicator
      for (std::size_t s = 0; s < expansion_.rate_cap.size(); ++s) out_.shape_of[s] = add_shape(s, 1).value;
      return;
    }
    std::vector<ShapeId> shapes;
    std::vector<std::uint32_t> first_of_class;
    for (std::size_t g = 0; g < fold_.communicators.size(); ++g) {
      expansion_.shapes_of(CommunicatorId{fold_.communicators.first[g]}, shapes);
      first_of_class.push_back(shapes_);
      for (const ShapeId s : shapes) add_shape(s.index(), fold_.communicators.count[g]);
    }
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      expansion_.shapes_of(id_at<CommunicatorId>(c), shapes);
      std::uint32_t next = first_of_class[fold_.communicators.of[c]];
      for (const ShapeId s : shapes) out_.shape_of[s.index()] = next++;
    }
  }

  /// `communicators`: how many of the class load the network like this one.
  ShapeId add_shape(std::size_t s, std::uint32_t communicators) {
    std::map<std::pair<std::uint32_t, double>, std::uint64_t> loaded;  // by class and load: resources
    for (const Load& l : expansion_.resources.of(s)) ++loaded[{fold_.resources.of[l.resource.index()], l.load}];
    loads_.clear();
    for (const auto& [what, resources] : loaded) {
      const std::uint64_t flows = resources * communicators;
      const std::uint32_t alike = fold_.resources.count[what.first];
      if (flows % alike != 0) throw std::logic_error("folding: a class of resources is not used alike");
      loads_.push_back({ResourceId{what.first}, what.second, static_cast<std::uint32_t>(flows / alike)});
    }
    ++shapes_;
    return out_.network->add_sorted_shape(loads_, expansion_.rate_cap[s], expansion_.weight[s]);
  }

  void add_group(std::size_t g) {
    const CommunicatorId id{fold_.communicators.first[g]};
    const Communicator& communicator = job_.communicators[id.index()];
    Quotient::Group group{.first = id,
                          .communicators = fold_.communicators.count[g],
                          .ranks = static_cast<std::uint32_t>(communicator.members.size()),
                          .members_begin = static_cast<std::uint32_t>(out_.members.size()),
                          .members_end = 0,
                          .calls_begin = static_cast<std::uint32_t>(out_.calls.size()),
                          .calls_end = 0};
    add_members(communicator, id);
    group.members_end = static_cast<std::uint32_t>(out_.members.size());
    for (PlannedCall call : expansion_.calls_of(id)) {
      if (call.moves && !out_.shape_of.empty()) call.shape = ShapeId{out_.shape_of[call.shape.index()]};
      out_.calls.push_back(call);
    }
    group.calls_end = static_cast<std::uint32_t>(out_.calls.size());
    out_.groups.push_back(group);
  }

  /// In the order in which actors and slots first appear.
  void add_members(const Communicator& communicator, CommunicatorId id) {
    member_at_.clear();
    for (const RankId r : communicator.members) {
      const RankBinding& binding = job_.ranks[r.index()];
      const auto slot =
          static_cast<std::size_t>(std::find(binding.slots.begin(), binding.slots.end(), id) - binding.slots.begin());
      const std::uint32_t actor = fold_.ranks.of[r.index()];
      const auto [at, fresh] = member_at_.try_emplace({actor, slot}, out_.members.size());
      if (fresh) {
        const auto& by_slot = stream_of_slot_[binding.program];
        out_.members.push_back({ActorId{actor}, slot < by_slot.size() ? by_slot[slot] : std::uint16_t{0}, 0});
      }
      ++out_.members[at->second].ranks;
    }
  }

  const Job& job_;
  const Expansion& expansion_;
  const Fold& fold_;
  std::vector<std::vector<std::uint16_t>> stream_of_slot_;                  // by program
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> member_at_;  // of the communicator at hand
  std::vector<Load> loads_;
  std::uint32_t shapes_ = 0;
  Quotient out_;
};

}  // namespace

Quotient quotient(const Job& job, const Expansion& expansion, const Fold& fold) {
  return Builder(job, expansion, fold).run();
}

}  // namespace foretrain
