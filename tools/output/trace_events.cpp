#include "tools/output/trace_events.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

namespace foretrain {
namespace {

constexpr std::size_t flush_bytes = std::size_t{1} << 16;

/// Microseconds with three decimals, from whole nanoseconds: no floating point between simulation and file.
std::string microseconds_text(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TraceTime trace_time(Time t) { return {(t.ps() + 500) / 1000}; }

void TraceArgs::key(std::string_view name) {
  fmt::format_to(std::back_inserter(text_), "{}{}:", text_.empty() ? "" : ",", json_text(name));
}

TraceArgs& TraceArgs::add(std::string_view name, std::int64_t value) {
  key(name);
  text_ += fmt::to_string(value);
  return *this;
}

TraceArgs& TraceArgs::add(std::string_view name, std::string_view value) {
  key(name);
  text_ += json_text(value);
  return *this;
}

TraceArgs& TraceArgs::add(std::string_view name, double value) {
  key(name);
  fmt::format_to(std::back_inserter(text_), "{:.3f}", value);
  return *this;
}

TraceEvents::TraceEvents(std::ostream& out, const OtherData& other) : out_(out) {
  auto end = fmt::appender(buffer_);
  end = fmt::format_to(end, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{");
  const char* comma = "";
  for (const auto& [key, value] : other) {
    end = fmt::format_to(end, "{}{}:{}", comma, json_text(key), json_text(value));
    comma = ",";
  }
  fmt::format_to(end, "}},\"traceEvents\":[");
}

void TraceEvents::begin_event() {
  flush_if_large();
  fmt::format_to(fmt::appender(buffer_), "{}", first_ ? "\n" : ",\n");
  first_ = false;
}

void TraceEvents::flush_if_large() {
  if (buffer_.size() < flush_bytes) return;
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

void TraceEvents::process(std::int64_t process, std::string_view name) {
  begin_event();
  fmt::format_to(fmt::appender(buffer_), R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process,
                 json_text(name));
  begin_event();
  fmt::format_to(fmt::appender(buffer_),
                 R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})", process);
}

void TraceEvents::thread(TraceThread where, std::string_view name, std::int64_t order) {
  begin_event();
  fmt::format_to(fmt::appender(buffer_), R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                 where.process, where.thread, json_text(name));
  begin_event();
  fmt::format_to(fmt::appender(buffer_),
                 R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
                 where.process, where.thread, order);
}

void TraceEvents::slice(TraceThread where, std::string_view name, std::string_view category, TraceTime from,
                        TraceTime to, const TraceArgs& args) {
  begin_event();
  fmt::format_to(fmt::appender(buffer_),
                 R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}}}})", where.process,
                 where.thread, microseconds_text(from.ns), microseconds_text(to.ns - from.ns), json_text(name),
                 category, args.text());
}

void TraceEvents::flow_start(TraceThread where, std::uint64_t id, TraceTime at) {
  begin_event();
  fmt::format_to(fmt::appender(buffer_), R"({{"ph":"s","pid":{},"tid":{},"ts":{},"id":{},"name":"p2p","cat":"p2p"}})",
                 where.process, where.thread, microseconds_text(at.ns), id);
}

void TraceEvents::flow_end(TraceThread where, std::uint64_t id, TraceTime at) {
  begin_event();
  fmt::format_to(fmt::appender(buffer_),
                 R"({{"ph":"f","bp":"e","pid":{},"tid":{},"ts":{},"id":{},"name":"p2p","cat":"p2p"}})", where.process,
                 where.thread, microseconds_text(at.ns), id);
}

void TraceEvents::counter(std::int64_t process, std::string_view name, TraceTime at, const TraceArgs& values) {
  begin_event();
  fmt::format_to(fmt::appender(buffer_), R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{{}}}}})", process,
                 microseconds_text(at.ns), json_text(name), values.text());
}

void TraceEvents::finish() {
  fmt::format_to(fmt::appender(buffer_), "\n]}}\n");
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

}  // namespace foretrain
