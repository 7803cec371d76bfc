// Where two measurements of one job differ: folded and unfolded must not, in anything but the engine's own counts.
#pragma once

#include <string>

#include <fmt/format.h>

#include "sim/simulate.h"

namespace foretrain::test {

inline bool same(const RankAccount& a, const RankAccount& b) {
  return a.busy == b.busy && a.exposed == b.exposed && a.waiting == b.waiting && a.tail == b.tail &&
         a.slowed == b.slowed;
}

inline bool same(const CommunicationRow& a, const CommunicationRow& b) {
  return a.dimension == b.dimension && a.op == b.op && a.calls == b.calls && a.ranks == b.ranks && a.bytes == b.bytes &&
         a.bus_bytes == b.bus_bytes && a.time == b.time && a.idle_time == b.idle_time;
}

inline bool same(const LinkUse& a, const LinkUse& b) { return a.bytes == b.bytes && a.saturated == b.saturated; }

inline bool same(const MemoryPeak& a, const MemoryPeak& b) {
  return a.peak == b.peak && a.parts == b.parts && a.at == b.at;
}

inline bool same(const TracedOperation& a, const TracedOperation& b) {
  return a.stream == b.stream && a.index == b.index && a.start == b.start && a.began == b.began && a.end == b.end &&
         a.call == b.call && a.choice == b.choice;
}

inline bool same(const TierTimeline& a, const TierTimeline& b) {
  return a.bin == b.bin && a.utilization == b.utilization;
}

/// The first thing that differs in two lists, or nothing.
template <class List>
std::string list_difference(const std::string& what, const List& a, const List& b) {
  if (a.size() != b.size()) return fmt::format("{}: {} and {} of them", what, a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return fmt::format("{} {}", what, i);
  return {};
}

/// Names the first difference; empty where there is none, to the picosecond and the last bit of every sum.
inline std::string difference(const Measured& a, const Measured& b) {
  if (a.step != b.step) return fmt::format("step: {} and {} ps", a.step.ps(), b.step.ps());
  for (const std::string& lists :
       {list_difference("account of rank", a.ranks, b.ranks), list_difference("memory of rank", a.memory, b.memory),
        list_difference("communication row", a.communication, b.communication),
        list_difference("link", a.links, b.links), list_difference("tier", a.tiers, b.tiers)})
    if (!lists.empty()) return lists;
  if (a.traces.size() != b.traces.size()) return "number of traces";
  for (std::size_t t = 0; t < a.traces.size(); ++t)
    if (const std::string trace = list_difference(fmt::format("trace {}, operation", t), a.traces[t], b.traces[t]);
        !trace.empty())
      return trace;
  return a.engine.operations == b.engine.operations ? "" : "operations played";
}

}  // namespace foretrain::test
