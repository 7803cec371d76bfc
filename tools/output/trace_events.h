// TraceEvents: writes Chrome's trace event format (JSON object form), one event at a time, nothing kept.
//
//   TraceEvents events(stream, {{"simulator", "foretrain 0.1.0"}});
//   events.process(1, "stage 0 (rank 0)");
//   events.thread({1, 1000}, "main", 0);
//   events.slice({1, 1000}, "F", "compute", from, to, TraceArgs().add("microbatch", 3));
//   events.finish();
//
// The format: "Trace Event Format" (Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/units.h"

namespace foretrain {

/// A JSON string, quoted and escaped.
[[nodiscard]] std::string json_text(std::string_view text);

/// An instant as the trace has it.
struct TraceTime {
  std::int64_t ns = 0;
  auto operator<=>(const TraceTime&) const = default;
};
/// To the nearest nanosecond. Requires t not before the start.
[[nodiscard]] TraceTime trace_time(Time t);

/// The members of an event's "args", as text.
class TraceArgs {
 public:
  TraceArgs& add(std::string_view key, std::int64_t value);
  TraceArgs& add(std::string_view key, std::string_view value);
  /// Three decimals: enough for GB/s, per cent and microseconds.
  TraceArgs& add(std::string_view key, double value);
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  void key(std::string_view name);
  std::string text_;
};

struct TraceThread {
  std::int64_t process = 0;
  std::int64_t thread = 0;
};

class TraceEvents {
 public:
  using OtherData = std::vector<std::pair<std::string, std::string>>;
  TraceEvents(std::ostream& out, const OtherData& other);

  /// Processes are shown in the order of their numbers.
  void process(std::int64_t process, std::string_view name);
  void thread(TraceThread where, std::string_view name, std::int64_t order);
  void slice(TraceThread where, std::string_view name, std::string_view category, TraceTime from, TraceTime to,
             const TraceArgs& args);
  /// An arrow; `at` lies in the slice that it starts from or ends at, written just before.
  void flow_start(TraceThread where, std::uint64_t id, TraceTime at);
  void flow_end(TraceThread where, std::uint64_t id, TraceTime at);
  void counter(std::int64_t process, std::string_view name, TraceTime at, const TraceArgs& values);
  /// Ends the JSON text.
  void finish();

 private:
  void begin_event();
  void flush_if_large();

  std::ostream& out_;
  fmt::memory_buffer buffer_;
  bool first_ = true;
};

}  // namespace foretrain
