// Quotient: what the player plays, one rank, communicator and resource of every class (sim/fold.h).
//
// An *actor* is a class of ranks, a *group* a class of communicators. In a group the members are counted: so many ranks
// of that actor, calling from that stream.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/fold.h"
#include "sim/network.h"

namespace foretrain {

using ActorId = Id<struct ActorTag>;
using GroupId = Id<struct GroupTag>;

struct Quotient {
  struct Actor {
    RankId first;             ///< the rank that stands for all
    std::uint32_t ranks = 0;  ///< how many they are
    std::uint32_t program = 0;
    std::uint32_t slots_begin = 0;  ///< into `slots`
  };
  struct Member {
    ActorId actor;
    std::uint16_t stream = 0;  ///< from which it calls
    std::uint32_t ranks = 0;   ///< of one communicator
  };
  struct Group {
    CommunicatorId first;
    std::uint32_t communicators = 0;
    std::uint32_t ranks = 0;  ///< of one communicator
    std::uint32_t members_begin = 0;
    std::uint32_t members_end = 0;
    std::uint32_t calls_begin = 0;
    std::uint32_t calls_end = 0;
  };

  std::vector<Actor> actors;
  std::vector<GroupId> slots;  ///< of all actors
  std::vector<Group> groups;
  std::vector<Member> members;          ///< of all groups
  std::vector<PlannedCall> calls;       ///< of all groups; shapes are the network's
  std::vector<std::uint32_t> shape_of;  ///< by shape of the expansion: its shape in the network
  std::unique_ptr<FluidNetwork> network;

  [[nodiscard]] std::span<const Member> members_of(const Group& g) const {
    return std::span(members).subspan(g.members_begin, g.members_end - g.members_begin);
  }
};

[[nodiscard]] Quotient quotient(const Job& job, const Expansion& expansion, const Fold& fold);

}  // namespace foretrain
