// What the tests of fidelity `flows` share: settings, calls played in both fidelities, and all ways to play them.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate.h"
#include "tests/sim/hand_made_fabric.h"
#include "topology/builders/builders.h"

namespace foretrain {

using Group = std::vector<GpuId>;

struct Setting {
  std::string name;
  Fabric fabric;
  Routing routing;
  bool shared_nics = false;  ///< two channels of a call on a NIC
};

inline std::vector<Setting> every_builder() {
  std::vector<Setting> all;
  all.push_back({"rail", build_rail_optimised({.gpus = 128, .nodes_per_group = 4}), Routing::rail});
  all.push_back(
      {"rail 3:1", build_rail_optimised({.gpus = 128, .nodes_per_group = 4, .oversubscription = 3}), Routing::spread});
  all.push_back({"fat-tree", build_fat_tree({.gpus = 128, .tiers = 2, .radix = 32}), Routing::spread});
  all.push_back({"fat-tree ecmp", build_fat_tree({.gpus = 128, .tiers = 3, .radix = 16}), Routing::ecmp});
  all.push_back({"fat-tree 2:1", build_fat_tree({.gpus = 128, .tiers = 3, .radix = 16, .leaf_oversubscription = 2}),
                 Routing::spread});
  all.push_back({"meta",
                 build_meta_clos({.gpus = 128,
                                  .gpus_per_rack = 16,
                                  .racks_per_pod = 4,
                                  .pods = 2,
                                  .cluster_switches = 4,
                                  .aggregation_switches = 2}),
                 Routing::spread});
  all.push_back({"torus", build_torus({.shape = {4, 4, 8}}), Routing::dimension_order});
  all.push_back({"full mesh",
                 build_rail_optimised({.node = {.shape = NodeShape::full_mesh}, .gpus = 128, .nodes_per_group = 4}),
                 Routing::rail});
  const NodeSpec dgx1{
      .nics = 4, .nvlink = gigabytes_per_second(150), .nic = gigabits_per_second(100), .shape = NodeShape::cube_mesh};
  all.push_back({"cube mesh", build_fat_tree({.node = dgx1, .gpus = 128, .tiers = 2}), Routing::spread, true});
  return all;
}

/// One call, each on a communicator of its own, all at once.
struct Call {
  Collective op{};
  Group group;
  Bytes size;
};
inline Job job_of(const std::vector<Call>& calls) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{"dp", false}};
  for (std::size_t c = 0; c < calls.size(); ++c) {
    ProgramBuilder b;
    b.communicate(main_stream, {.label = "call", .op = calls[c].op, .size = calls[c].size});
    job.programs.push_back(std::move(b).build());
    Communicator communicator;
    for (const GpuId gpu : calls[c].group) {
      communicator.members.push_back(id_at<RankId>(job.ranks.size()));
      job.ranks.push_back({static_cast<std::uint32_t>(c), {id_at<CommunicatorId>(c)}});
      job.placement.push_back(gpu);
    }
    job.communicators.push_back(std::move(communicator));
  }
  return job;
}

/// With switches that reduce, so that every algorithm serves somebody.
inline Transport sharp() {
  Transport transport;
  transport.network.in_network_reduction = true;
  return transport;
}

struct Both {
  Measured fluid;
  Measured flows;
  [[nodiscard]] double ratio() const { return flows.step.seconds() / fluid.step.seconds(); }
};
inline Both play(const Setting& s, const Job& job, const Forced& forced, std::uint32_t pieces = 64) {
  SimulateOptions options{.routing = s.routing, .forced = forced, .pieces = pieces};
  Measured fluid = simulate(s.fabric, sharp(), job, options);
  options.fidelity = Fidelity::flows;
  return {std::move(fluid), simulate(s.fabric, sharp(), job, options)};
}
inline Both play(const Setting& s, const std::vector<Call>& calls, const Forced& forced, std::uint32_t pieces = 64) {
  return play(s, job_of(calls), forced, pieces);
}

/// Every algorithm, collective and protocol that serves a group.
struct Way {
  Collective op{};
  Algorithm algorithm{};
  Protocol protocol{};
  [[nodiscard]] std::string name() const {
    return std::string(to_text(op)) + " " + std::string(to_text(algorithm)) + " " + std::string(to_text(protocol));
  }
  [[nodiscard]] bool piped() const {  // through a tree, chain or phases, in pieces
    return algorithm == Algorithm::tree || algorithm == Algorithm::nvls_tree || algorithm == Algorithm::two_hop ||
           algorithm == Algorithm::hierarchical || algorithm == Algorithm::collnet ||
           algorithm == Algorithm::nvls_sharp || op == Collective::broadcast || op == Collective::reduce;
  }
  [[nodiscard]] bool phased() const {  // in steps over different links, one after another
    return algorithm == Algorithm::pat || algorithm == Algorithm::halving_doubling ||
           algorithm == Algorithm::torus_ring;
  }
};
inline std::vector<Way> ways_of(const Fabric& fabric, const Group& group) {
  const GroupShape shape = shape_of(fabric, GroupLayout(fabric, group));
  std::vector<Way> ways;
  for (const Collective op : all_collectives) {
    if (op == Collective::send_recv && group.size() != 2) continue;
    for (const auto& how : algorithms()) {
      for (const Protocol protocol : all_protocols)
        if (how->supports(op, protocol, shape, sharp())) ways.push_back({op, how->id(), protocol});
    }
  }
  return ways;
}

inline SendGraph graph_of(const Setting& s, const Way& way, Bytes size, const Group& group, std::uint32_t pieces = 64) {
  const auto router = make_router(s.routing, s.fabric, 1);
  const Transport transport = sharp();
  return algorithm(way.algorithm)
      .sends(way.op, way.protocol, size, GroupLayout(s.fabric, group), {s.fabric, *router, transport, pieces});
}

/// Longest chain of sends: their number, and the sum of their latencies.
struct Chain {
  std::size_t sends = 0;
  Duration latency;
};
inline Chain longest_chain(const SendGraph& graph) {
  std::vector<std::size_t> sends(graph.size());
  std::vector<Duration> latency(graph.size());
  Chain longest;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const std::uint32_t a : graph.after(i)) {
      sends[i] = std::max(sends[i], sends[a]);
      latency[i] = std::max(latency[i], latency[a]);
    }
    longest.sends = std::max(longest.sends, ++sends[i]);
    longest.latency = std::max(longest.latency, latency[i] += graph[i].latency);
  }
  return longest;
}

/// Seconds if every step, the sends of one depth in the graph, began when all of the step before had ended.
inline double step_by_step(const Setting& s, const SendGraph& graph) {
  const auto router = make_router(s.routing, s.fabric, 1);
  const Transport transport = sharp();
  const CollectiveContext context{s.fabric, *router, transport};
  std::vector<std::vector<std::size_t>> steps;
  std::vector<std::size_t> depth(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const std::uint32_t a : graph.after(i)) depth[i] = std::max(depth[i], depth[a] + 1);
    if (graph[i].behind) depth[i] = std::max(depth[i], depth[*graph[i].behind] + 1);
    if (steps.size() <= depth[i]) steps.resize(depth[i] + 1);
    steps[depth[i]].push_back(i);
  }
  double total = 0;
  for (const auto& step : steps) {
    UsageSum sum(context);
    for (const std::size_t i : step) {
      const ChunkSend& send = graph[i];
      sum.route(send.from, send.via, 0, send.wire, send.in_node_goodput, send.between_goodput);
      sum.route(send.via, send.to, send.flow, send.wire, send.in_node_goodput, send.between_goodput);
    }
    double longest = 0;
    for (const Usage& use : sum.take()) {
      longest = std::max(longest, use.load / static_cast<double>(s.fabric.link(use.link).bandwidth.bytes_per_s()));
    }
    total += longest;
  }
  return total;
}

}  // namespace foretrain
