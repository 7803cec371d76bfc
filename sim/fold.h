// Folding: which ranks of a job, and which of its communicators and resources, do the same thing at the same instant.
//
// What is refined (topology/refinement.h) is a graph with three kinds of nodes, which begin with the colours of
//   - a rank: its program and its pace;
//   - a communicator: its size and dimension, and of every call that it makes the collective, the message, algorithm,
//     protocol, latency and time on an idle network, and of every shape its rate cap and weight;
//   - a resource: its capacity;
// and with two kinds of edges: a rank is joined to the communicator in its slot s by an edge labelled s, and a
// communicator to a resource that its i-th shape loads by an edge labelled (i, load).
//
// Why playing one of each class is exact. The partition is equitable: of any label and class, each node of a class has
// equally many edges. Claim: at any instant, all ranks of a class stand at the same operations with the same clocks,
// all communicators of a class have the same call in the same state and if its bytes move the same amount left at the
// same rate, and all resources of a class are used alike. True at the start. Suppose it true up to some instant.
//   - What a rank does next follows from its program, its pace, its events and the calls of the communicator in each
//     slot; by the labels, the communicators in slot s of the ranks of a class are of one class. So alike.
//   - When a call begins follows from the arrivals of the communicator's members, of which there are equally many of
//     each class and slot; how long it waits and what it loads, from its colour. So alike.
//   - The network's rates follow by progressive filling from the resources' sums over the flows on them. A resource
//   sees
//     equally many communicators of each class through each label, so the sums are alike in its class, to the last bit
//     because they are sums of integers; and the solver chooses by values alone, all that is equal at once (point 4 in
//     sim/network_water.cpp). So flows of a class freeze together at one rate, and finish together.
//   - What is handled at one instant may be handled in any order: accounts are made of clocks, and sums of integers.
// So the next event of every class comes to all its members alike, and by induction the claim holds to the end. A
// resource r then sees n * |C| / |R| flows of communicator class C with some load, where n is how many resources of r's
// class R each member of C loads so: the quotient (sim/quotient.h).
//
// Every difference (a straggler, a slow link, two flows hashed onto one cable) is a different colour or edge, and so
// splits classes as far as its effect can be felt, and no further.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/expansion.h"
#include "sim/program.h"

namespace foretrain {

/// Things by class; classes are numbered by their first member.
struct Classes {
  std::vector<std::uint32_t> of;     ///< by thing: its class
  std::vector<std::uint32_t> first;  ///< by class: its first member, which stands for all
  std::vector<std::uint32_t> count;  ///< by class: its members

  [[nodiscard]] std::size_t size() const { return first.size(); }
};

struct Fold {
  Classes ranks;
  Classes communicators;
  Classes resources;
  std::size_t rank_kinds = 0;      ///< programs at different paces: the fewest classes that there could be
  std::size_t rank_groupings = 0;  ///< classes by programs and communicators alone, as if no link were shared
};

/// What a test leaves out of the refinement to see that it is missed.
enum class FoldFault : std::uint8_t { none, ignore_loads, ignore_capacities, ignore_slots, ignore_pace };

/// `shares` false: no call shares a link with another (fidelity analytic), so resources make no difference.
[[nodiscard]] Fold fold(const Job& job, const Expansion& expansion, bool shares, FoldFault fault = FoldFault::none);

/// Everything in a class of its own.
[[nodiscard]] Fold unfolded(const Job& job, const Expansion& expansion);

}  // namespace foretrain
