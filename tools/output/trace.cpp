#include "tools/output/trace.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "tools/output/trace_events.h"
#include "tools/version.h"

namespace foretrain {
namespace {

// Numbers of processes and threads mean nothing; 0 is the idle process in Perfetto.
constexpr std::int64_t threads_a_process = 1000;

std::int64_t process_of(std::size_t traced) { return static_cast<std::int64_t>(traced) + 1; }

TraceThread thread_of(std::size_t traced, std::size_t stream) {
  const std::int64_t process = process_of(traced);
  return {process, process * threads_a_process + static_cast<std::int64_t>(stream)};
}

/// One call of a communicator.
struct CallKey {
  CommunicatorId communicator;
  std::uint32_t call = 0;
  auto operator<=>(const CallKey&) const = default;
};

class TraceWriter {
 public:
  TraceWriter(const Result::Timeline& timeline, TraceEvents& events) : timeline_(timeline), events_(events) {}

  void write() {
    find_flows();
    for (std::size_t i = 0; i < timeline_.ranks.size(); ++i) name_rank(i);
    for (std::size_t i = 0; i < timeline_.ranks.size(); ++i) write_rank(i);
    write_network();
  }

 private:
  [[nodiscard]] const Job& job() const { return timeline_.workload.job; }
  [[nodiscard]] const RankBinding& binding(std::size_t traced) const {
    return job().ranks[timeline_.ranks[traced].index()];
  }
  [[nodiscard]] const Program& program(std::size_t traced) const { return job().programs[binding(traced).program]; }
  [[nodiscard]] const Operation& operation(std::size_t traced, const TracedOperation& t) const {
    return program(traced).streams[t.stream].operations[t.index];
  }
  [[nodiscard]] CallKey key_of(std::size_t traced, const Operation& o, const TracedOperation& t) const {
    return {binding(traced).slots[o.slot], t.call};
  }

  /// An arrow for every send/recv of which both sides are traced.
  void find_flows() {
    std::map<CallKey, int> sides;
    for (std::size_t i = 0; i < timeline_.ranks.size(); ++i) {
      for (const TracedOperation& t : timeline_.operations[i]) {
        const Operation& o = operation(i, t);
        if (o.kind == OperationKind::communicate && o.op == Collective::send_recv) ++sides[key_of(i, o, t)];
      }
    }
    for (const auto& [key, count] : sides) {
      if (count == 2) flows_.emplace(key, flows_.size() + 1);
    }
  }

  void name_rank(std::size_t traced) {
    const RankId rank = timeline_.ranks[traced];
    events_.process(process_of(traced),
                    fmt::format("stage {} (rank {})", timeline_.workload.stage_of[rank.index()], rank.value));
    const auto& streams = program(traced).streams;
    for (std::size_t s = 0; s < streams.size(); ++s) {
      events_.thread(thread_of(traced, s), streams[s].name, static_cast<std::int64_t>(s));
    }
  }

  void write_rank(std::size_t traced) {
    std::int64_t held = timeline_.overhead_bytes;
    const auto count_memory = [&](Time at) {
      events_.counter(process_of(traced), "memory in use", trace_time(at), TraceArgs().add("bytes", held));
    };
    count_memory(Time());
    for (const TracedOperation& t : timeline_.operations[traced]) {
      const Operation& o = operation(traced, t);
      switch (o.kind) {
        case OperationKind::compute:
          write_compute(traced, o, t);
          break;
        case OperationKind::communicate:
          write_call(traced, o, t);
          break;
        case OperationKind::memory:
          held += o.amount;
          count_memory(t.end);
          break;
      }
    }
  }

  static TraceArgs place_args(const Place& place) {
    TraceArgs args;
    if (place.microbatch != Place::unset) args.add("microbatch", std::int64_t{place.microbatch});
    if (place.chunk != Place::unset) args.add("chunk", std::int64_t{place.chunk});
    if (place.layer != Place::unset) args.add("layer", std::int64_t{place.layer});
    return args;
  }

  void write_compute(std::size_t traced, const Operation& o, const TracedOperation& t) {
    TraceArgs args = place_args(o.place);
    args.add("activity", std::string_view(job().activities[o.activity]));
    events_.slice(thread_of(traced, t.stream), program(traced).labels[o.label], "compute", trace_time(t.start),
                  trace_time(t.end), args);
  }

  void write_call(std::size_t traced, const Operation& o, const TracedOperation& t) {
    const TraceThread thread = thread_of(traced, t.stream);
    const std::string& name = program(traced).labels[o.label];
    const TraceTime from = trace_time(t.start);
    const TraceTime began = trace_time(t.began);
    const TraceTime end = trace_time(t.end);
    if (from < began) events_.slice(thread, name, "wait", from, began, place_args(o.place));
    const bool p2p = o.op == Collective::send_recv;
    events_.slice(thread, name, p2p ? "p2p" : "collective", began, end, call_args(traced, o, t));
    if (!p2p || began == end) return;
    const CallKey key = key_of(traced, o, t);
    const auto flow = flows_.find(key);
    if (flow == flows_.end()) return;
    const bool sends = job().communicators[key.communicator.index()].members.front() == timeline_.ranks[traced];
    // An arrow binds to the slice that encloses its instant; a slice does not enclose its own end.
    if (sends) {
      events_.flow_start(thread, flow->second, began);
    } else {
      events_.flow_end(thread, flow->second, {end.ns - 1});
    }
  }

  [[nodiscard]] TraceArgs call_args(std::size_t traced, const Operation& o, const TracedOperation& t) const {
    const Communicator& group = job().communicators[binding(traced).slots[o.slot].index()];
    TraceArgs args = place_args(o.place);
    args.add("op", to_text(o.op)).add("dimension", std::string_view(job().dimensions[group.dimension].name));
    args.add("ranks", static_cast<std::int64_t>(group.members.size())).add("bytes", o.amount);
    const double seconds = (t.end - t.began).seconds();
    if (seconds > 0) {
      const double algbw = static_cast<double>(o.amount) / seconds;
      args.add("busbw_GBps", algbw * busbw_factor(o.op, group.members.size()) / 1e9);
    }
    args.add("algorithm", to_text(t.choice.algorithm)).add("protocol", to_text(t.choice.protocol));
    return args;
  }

  void write_network() {
    const std::int64_t process = process_of(timeline_.ranks.size());
    events_.process(process, "network");
    for (std::size_t tier = 0; tier < timeline_.tiers.size(); ++tier) {
      const std::string name = timeline_.tier_names[tier] + " utilization";
      const TierTimeline& bins = timeline_.tiers[tier];
      for (std::size_t b = 0; b < bins.utilization.size(); ++b) {
        const Time at = Time::from_start(bins.bin * static_cast<std::int64_t>(b));
        events_.counter(process, name, trace_time(at), TraceArgs().add("percent", bins.utilization[b] * 100));
      }
      events_.counter(process, name, trace_time(Time::from_start(timeline_.step)), TraceArgs().add("percent", 0.0));
    }
  }

  const Result::Timeline& timeline_;
  TraceEvents& events_;
  std::map<CallKey, std::uint64_t> flows_;
};

}  // namespace

void write_trace(std::ostream& out, const Result& result) {
  if (!result.timeline) throw std::invalid_argument("write_trace: the result has no timeline");
  TraceEvents events(out, {{"simulator", fmt::format("foretrain {}", version())},
                           {"scenario", result.scenario.name},
                           {"step_time", to_text(result.timeline->step)}});
  TraceWriter(*result.timeline, events).write();
  events.finish();
}

}  // namespace foretrain
