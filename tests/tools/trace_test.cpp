// The trace: its events one by one, then as Perfetto's trace processor understands them, by SQL.
#include "tools/output/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tests/tools/samples.h"
#include "tests/tools/scratch.h"
#include "tools/output/trace_events.h"

namespace foretrain {
namespace {

using Json = nlohmann::json;

std::string trace_text(const Result& result) {
  std::ostringstream text;
  write_trace(text, result);
  return text.str();
}

std::vector<Json> events_of(const std::string& text, const std::string& phase) {
  std::vector<Json> found;
  const Json trace = Json::parse(text);
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

TEST(Trace, InstantsAreRoundedOnceToNanoseconds) {
  EXPECT_EQ(trace_time(Time::from_start(picoseconds(499))).ns, 0);
  EXPECT_EQ(trace_time(Time::from_start(picoseconds(500))).ns, 1);
  EXPECT_EQ(trace_time(Time::from_start(picoseconds(1'499))).ns, 1);
}

TEST(Trace, NeedsATimeline) {
  std::ostringstream text;
  EXPECT_THROW(write_trace(text, sample_result()), std::invalid_argument);
}

TEST(Trace, SlicesSayWhatHappened) {
  const auto slices = events_of(trace_text(sample_traced_result()), "X");
  ASSERT_EQ(slices.size(), 5U);  // F, send; wait, recv, F
  EXPECT_EQ(slices[0]["name"], "F");
  EXPECT_EQ(slices[0]["cat"], "compute");
  EXPECT_EQ(slices[0]["dur"], 2.0);
  EXPECT_EQ(slices[0]["args"]["microbatch"], 3);
  EXPECT_EQ(slices[0]["args"]["layer"], 1);
  EXPECT_EQ(slices[1]["cat"], "p2p");
  EXPECT_EQ(slices[1]["args"]["bytes"], 1000);
  EXPECT_EQ(slices[1]["args"]["busbw_GBps"], 1.0);  // 1000 bytes in 1 us
  EXPECT_EQ(slices[2]["cat"], "wait");
  EXPECT_EQ(slices[2]["dur"], 2.0);
  EXPECT_EQ(slices[3]["args"]["algorithm"], "pairwise");
  EXPECT_FALSE(slices[4]["args"].contains("microbatch")) << "what is unset is left out";
}

TEST(Trace, ArrowsLieInsideTheirSlices) {
  const std::string text = trace_text(sample_traced_result());
  const auto starts = events_of(text, "s");
  const auto ends = events_of(text, "f");
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
  EXPECT_EQ(ends[0]["bp"], "e");
  EXPECT_GE(starts[0]["ts"].get<double>(), 2.0);
  EXPECT_LT(ends[0]["ts"].get<double>(), 3.0);
  EXPECT_NE(starts[0]["pid"], ends[0]["pid"]);
}

TEST(Trace, CountersAddUp) {
  std::map<int, std::vector<std::int64_t>> memory;
  std::vector<double> use;
  for (const Json& event : events_of(trace_text(sample_traced_result()), "C")) {
    if (event["name"] == "memory in use") {
      memory[event["pid"]].push_back(event["args"]["bytes"]);
    } else {
      EXPECT_EQ(event["name"], "nvlink utilization");
      use.push_back(event["args"]["percent"]);
    }
  }
  EXPECT_EQ(memory[1], (std::vector<std::int64_t>{7, 107, 7}));
  EXPECT_EQ(memory[2], (std::vector<std::int64_t>{7}));
  EXPECT_EQ(use, (std::vector<double>{25, 50, 0}));
}

TEST(Trace, NamesOfAnyBytesStayJson) {
  Result r = sample_traced_result();
  r.scenario.name = "a\"b\\\n\xff";
  EXPECT_TRUE(Json::accept(trace_text(r)));
}

TEST(Trace, SameResultSameBytes) { EXPECT_EQ(trace_text(sample_traced_result()), trace_text(sample_traced_result())); }

// ---- By SQL ----

struct Outcome {
  int status = 0;
  std::string output;
};

Outcome shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {127, "popen failed"};
  Outcome outcome;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), n);
  outcome.status = pclose(pipe);
  return outcome;
}

const std::string tools_folder = std::string(FORETRAIN_SOURCE_DIR) + "/tools/";
const std::string processor_folder = std::string(FORETRAIN_BINARY_DIR) + "/trace-processor";

/// Empty, or why there is no trace processor. It is put into the build folder.
std::string trace_processor_missing() {
  if (shell("node --version").status != 0) return "node is not installed";
  if (shell("npm --version").status != 0) return "npm is not installed";
  const Outcome got = shell("bash '" + tools_folder + "get-trace-processor.sh' '" + processor_folder + "'");
  return got.status == 0 ? "" : "the trace processor could not be had: " + got.output;
}

/// Tab-separated rows without the heading; any error of import fails the command.
Outcome query(const std::string& trace, const std::string& sql) {
  Outcome outcome =
      shell("TP_DIR='" + processor_folder + "' node '" + tools_folder + "tpq.mjs' '" + trace + "' \"" + sql + "\"");
  if (outcome.status == 0) outcome.output.erase(0, outcome.output.find('\n') + 1);
  return outcome;
}

TEST(TraceSql, PerfettoSeesWhatWasPlayed) {
  if (const std::string why = trace_processor_missing(); !why.empty()) GTEST_SKIP() << why;
  const Scratch scratch;
  put(scratch / "t.json", trace_text(sample_traced_result()));

  const Outcome sums =
      query(scratch / "t.json", "select category, count(*), sum(dur) from slice group by 1 order by 1");
  EXPECT_EQ(sums.output, "compute\t2\t6000\np2p\t2\t2000\nwait\t1\t2000\n") << sums.output;
  EXPECT_EQ(sums.status, 0);

  const Outcome arrows = query(scratch / "t.json",
                               "select a.name, b.name, a.ts, b.ts from flow join slice a on a.id = slice_out "
                               "join slice b on b.id = slice_in");
  EXPECT_EQ(arrows.output, "send\trecv\t2000\t2000\n");

  const Outcome threads = query(scratch / "t.json",
                                "select p.name, t.name from slice s join thread_track k on s.track_id = k.id "
                                "join thread t using (utid) join process p using (upid) group by 1, 2 order by 1, 2");
  EXPECT_EQ(threads.output,
            "stage 0 (rank 0)\tmain\nstage 0 (rank 0)\tpp send\nstage 1 (rank 1)\tmain\nstage 1 (rank 1)\tpp recv\n");

  const Outcome memory = query(scratch / "t.json",
                               "select cast(max(value) as int) from counter c join process_counter_track k "
                               "on c.track_id = k.id where k.name glob 'memory in use*'");
  EXPECT_EQ(memory.output, "107\n");
}

// A real step: a pipeline of 8 on 64 GPUs.
TEST(TraceSql, PerfettoReadsAWholeStep) {
  if (const std::string why = trace_processor_missing(); !why.empty()) GTEST_SKIP() << why;
  const Scenario scenario =
      load_scenario(std::string(FORETRAIN_SOURCE_DIR) + "/scenarios/gpt3-175b-selene.yaml", {}, default_catalogue());
  const Result result = rehearse(scenario, {.trace = true});
  const Scratch scratch;
  put(scratch / "t.json", trace_text(result));

  // An arrow for every pair of send and receive: the representatives are each other's neighbours.
  const Outcome pairs = query(scratch / "t.json",
                              "select (select count(*) from slice where category = 'p2p') - 2 * (select count(*) from "
                              "flow), (select count(*) from flow) > 0");
  EXPECT_EQ(pairs.output, "0\t1\n");
  // Messages from stage s to s+1 and back: two a microbatch, chunk and boundary; 8 stages of 3 chunks have 23
  // boundaries.
  const std::int64_t boundaries = scenario.plan.stages() - 1;
  const std::int64_t messages = 2 * boundaries * microbatches(scenario.plan, scenario.training);
  EXPECT_EQ(query(scratch / "t.json", "select count(*) from flow").output, std::to_string(messages) + "\n");
  // A process a stage, and one for the network; nothing after the end of the step.
  EXPECT_EQ(query(scratch / "t.json", "select count(*) from process where name glob 'stage *'").output,
            std::to_string(scenario.plan.pp) + "\n");
  const std::int64_t step_ns = trace_time(Time::from_start(result.timeline->step)).ns;
  EXPECT_EQ(query(scratch / "t.json", "select max(ts + dur) <= " + std::to_string(step_ns) + " from slice").output,
            "1\n");
}

// The check itself: slices that cross on one thread are an error of import.
TEST(TraceSql, CrossingSlicesWouldBeSeen) {
  if (const std::string why = trace_processor_missing(); !why.empty()) GTEST_SKIP() << why;
  const Scratch scratch;
  std::ostringstream text;
  TraceEvents events(text, {});
  events.slice({1, 1}, "a", "compute", {0}, {10}, {});
  events.slice({1, 1}, "b", "compute", {5}, {15}, {});
  events.finish();
  put(scratch / "t.json", text.str());
  EXPECT_NE(query(scratch / "t.json", "select count(*) from slice").status, 0);
}

}  // namespace
}  // namespace foretrain
