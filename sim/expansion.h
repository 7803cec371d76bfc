// Expansion: every distinct call of a job, turned into what the network plays, before the first event.
//
// A distinct call is (communicator, collective, size); its algorithm and protocol are the tuner's, its latency and
// idle time numbers, its usage vector a *shape* shared by all sizes of one (communicator, collective, choice). At
// fidelity `flows` it also becomes a plan of single sends, and the shapes are those of the sends.
//
// Links become *resources* in two exact reductions: links that every shape loads alike are one resource (the narrowest
// counts), and a resource that can never fill, because narrower resources before it let too little through, is left
// out. On a non-blocking fabric with even spreading what remains is one resource a NIC direction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network.h"
#include "sim/program.h"
#include "sim/resources.h"
#include "sim/send_plan.h"
#include "sim/simulate.h"

namespace foretrain {

/// One distinct call of one communicator.
struct PlannedCall {
  Collective op{};
  std::int64_t size = 0;  ///< bytes of the message
  Choice choice{};
  Duration latency;
  Duration idle_time;      ///< latency and transfer on an idle network
  ShapeId shape;           ///< meaningless where `moves` is false
  std::uint32_t plan = 0;  ///< flows: into Expansion::plans
  bool moves = false;      ///< false: nothing crosses a link (one rank, or no bytes)
  std::uint16_t row = 0;   ///< into Expansion::rows
};

struct RowKey {
  std::uint8_t dimension = 0;
  Collective op{};
  auto operator<=>(const RowKey&) const = default;
};

struct Expansion {
  std::vector<std::uint32_t> calls_begin;  ///< by communicator, one more than there are: into `calls`
  std::vector<PlannedCall> calls;
  std::vector<RowKey> rows;      ///< (dimension, collective) pairs of the job, ascending
  UsageTable usage;              ///< by shape: links, for the byte counters; not of flows
  std::vector<LinkId> alike;     ///< by link: the one in `usage` that stands for it; empty: each for itself
  std::vector<SendPlan> plans;   ///< flows: of every call that moves
  LinkTable wire;                ///< flows: by shape, part of the wire bytes that cross each link
  ResourceTable resources;       ///< what the shapes load
  std::vector<double> rate_cap;  ///< by shape: message bytes a second, or `uncapped`
  std::vector<double> weight;    ///< by shape: of its flows, for fairness

  [[nodiscard]] std::span<const PlannedCall> calls_of(CommunicatorId communicator) const {
    return std::span(calls).subspan(calls_begin[communicator.index()],
                                    calls_begin[communicator.index() + 1] - calls_begin[communicator.index()]);
  }
  /// The shapes of a communicator's calls, once each, in the order of its calls; not of flows.
  void shapes_of(CommunicatorId communicator, std::vector<ShapeId>& shapes) const;

  [[nodiscard]] std::uint16_t row_of(std::uint8_t dimension, Collective op) const;
};

/// Throws std::invalid_argument when a forced algorithm cannot serve a call.
[[nodiscard]] Expansion expand(const Fabric& fabric, const Transport& transport, const Job& job,
                               const SimulateOptions& options);

}  // namespace foretrain
