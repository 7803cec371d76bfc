#include <fmt/format.h>

#include <array>
#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <ostream>
#include <vector>

#include "scenarios/schedule_file.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/named.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/commands/command.h"
#include "tools/output/schedule_picture.h"
#include "tools/output/schedule_table.h"
#include "workloads/schedules/runtime.h"

namespace foretrain {
namespace {

/// Actions of all ranks; more would take minutes to play and nobody would look at them.
constexpr std::int64_t actions_most = std::int64_t{1} << 23;

/// What `--csv` writes.
enum class CsvFormat : std::uint8_t { compute_only, compute_comms, compute_comms_fsdp };
constexpr CsvFormat all_csv_formats[] = {CsvFormat::compute_only, CsvFormat::compute_comms,
                                         CsvFormat::compute_comms_fsdp};
constexpr std::string_view to_text(CsvFormat format) {
  switch (format) {
    case CsvFormat::compute_only:
      return "compute_only";
    case CsvFormat::compute_comms:
      return "compute_comms";
    case CsvFormat::compute_comms_fsdp:
      return "compute_comms_fsdp";
  }
  return "";
}

Syntax schedule_syntax() {
  Syntax syntax("schedule", "schedule KIND|SCENARIO.yaml|SCHEDULE.csv [options]",
                "a pipeline schedule by itself, played with the same times on every stage: bubble, memory, picture");
  syntax.positional("what", "KIND|SCENARIO.yaml|SCHEDULE.csv");
  const auto number = [] { return po::value<std::int64_t>()->value_name("N"); };
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  const std::string formats = "what --csv writes (default compute_only): " + names_of(all_csv_formats);
  syntax.options.add_options()("pp", number(), "pipeline ranks (required with KIND)")(
      "microbatches", number(), "microbatches a step (required with KIND)")(
      "virtual-stages", number(), "chunks of the model a rank (default: 2 where there can be several)")(
      "group", number(), "microbatches that pass a chunk before the next chunk's turn (default: the usual number)")(
      "times", text("F,I,W"), "time of forward, input gradient, weight gradient of a chunk, any unit (default 1,1,1)")(
      "block", po::value<double>()->value_name("T"), "time of an overlapped forward and backward (default F+I+W)")(
      "latency", po::value<double>()->value_name("T"), "time of a message between two ranks (default 0)")(
      "draw", "the picture: a row a rank, time from left to right")("width", number(),
                                                                    "columns of the picture (default 100)")(
      "csv", text("FILE"), "write the lists of actions as PyTorch reads them; - is standard output")(
      "csv-format", text("NAME"), formats.c_str())("json", text("FILE"),
                                                   "write the numbers as JSON; - is standard output");
  syntax.examples = {"schedule 1f1b --pp 4 --microbatches 8 --draw",
                     "schedule zbv --pp 8 --microbatches 32 --times 18.5,18.1,9.3 --latency 0.6",
                     "schedule scenarios/llama3-405b.yaml --draw --width 160"};
  return syntax;
}

/// A schedule and how often it runs.
struct Wanted {
  ScheduleSpec spec;
  std::int64_t ranks = 1;
  std::int64_t microbatches = 1;
};

std::int64_t whole(const Syntax& syntax, const po::variables_map& values, const char* option, std::int64_t most) {
  if (values.count(option) == 0) throw syntax.error(fmt::format("--{} is missing", option));
  const auto value = values[option].as<std::int64_t>();
  if (value < 1 || value > most) throw syntax.error(fmt::format("--{} {}: allowed: 1 to {}", option, value, most));
  return value;
}

Wanted of_kind(const Syntax& syntax, const po::variables_map& values, const std::string& word) {
  Wanted wanted;
  std::vector<std::string> names;
  bool found = false;
  for (const ScheduleKind kind : all_schedule_kinds) {
    if (kind == ScheduleKind::file) continue;
    names.emplace_back(to_text(kind));
    if (folded(word) != folded(names.back())) continue;
    wanted.spec.kind = kind;
    found = true;
  }
  if (!found) {
    throw syntax.error(fmt::format("unknown schedule '{}'{}; allowed: {}, a scenario (.yaml) or a schedule (.csv)",
                                   shown(word), suggestion(word, names), fmt::join(names, ", ")));
  }
  wanted.ranks = whole(syntax, values, "pp", 4096);
  wanted.microbatches = whole(syntax, values, "microbatches", 32768);
  wanted.spec.virtual_stages = values.count("virtual-stages") > 0 ? whole(syntax, values, "virtual-stages", 4096)
                                                                  : usual_chunks(wanted.spec.kind);
  if (values.count("group") > 0) wanted.spec.microbatch_group = whole(syntax, values, "group", 32768);
  return wanted;
}

Wanted of_file(const std::string& file) {
  Problems problems;
  const auto asked = problems.source("foretrain schedule", "", ".");
  const auto listed = read_schedule_file(file, {asked, std::nullopt}, "", problems);
  problems.throw_if_any();
  return {{.kind = ScheduleKind::file, .virtual_stages = listed->shape.chunks, .listed = listed},
          listed->shape.ranks,
          listed->shape.microbatches};
}

Wanted of_scenario(const std::string& file) {
  const Scenario scenario = load_scenario(file, {}, default_catalogue());
  return {scenario.plan.schedule, scenario.plan.pp, microbatches(scenario.plan, scenario.training)};
}

/// What a KIND needs and a file has already.
void refuse_shape_options(const Syntax& syntax, const po::variables_map& values, const std::string& file) {
  for (const char* option : {"pp", "microbatches", "virtual-stages", "group"}) {
    if (values.count(option) > 0)
      throw syntax.error(fmt::format("--{} with {}; allowed: with a schedule by its name", option, shown(file)));
  }
}

Wanted wanted_of(const Syntax& syntax, const po::variables_map& values) {
  const std::string& word = values["what"].as<std::string>();
  const bool scenario = word.ends_with(".yaml") || word.ends_with(".yml");
  if (!scenario && !word.ends_with(".csv")) return of_kind(syntax, values, word);
  refuse_shape_options(syntax, values, word);
  return scenario ? of_scenario(word) : of_file(word);
}

void check_wanted(const Syntax& syntax, const Wanted& wanted) {
  std::string mistakes;
  for (const PlanError& error : check_schedule(wanted.spec, wanted.ranks, wanted.microbatches))
    mistakes += fmt::format("{}{}", mistakes.empty() ? "" : "\n", syntax.error(error.message).what());
  if (!mistakes.empty()) throw UsageError(mistakes);
  const std::int64_t actions = 3 * wanted.ranks * wanted.microbatches * wanted.spec.virtual_stages;
  if (actions > actions_most) throw syntax.error(fmt::format("up to {} actions; allowed: {}", actions, actions_most));
}

double time_in(const Syntax& syntax, std::string_view text, const char* option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0 && value < 1e12)) {
    throw syntax.error(
        fmt::format("--{}: '{}' is no time; allowed: a number above 0, in any unit", option, shown(text)));
  }
  return value;
}

/// "18.5,18.1,9.3"
void read_three(const Syntax& syntax, std::string_view text, PassTimes& times) {
  const std::array<double*, 3> parts = {&times.forward, &times.backward_input, &times.backward_weight};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto comma = text.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == parts.size()))
      throw syntax.error("--times: allowed: three numbers with commas between, as 1,1,1");
    *parts[i] = time_in(syntax, text.substr(0, comma), "times");
    text.remove_prefix(std::min(text.size(), comma == std::string_view::npos ? comma : comma + 1));
  }
}

PassTimes times_of(const Syntax& syntax, const po::variables_map& values) {
  PassTimes times;
  if (values.count("times") > 0) read_three(syntax, values["times"].as<std::string>(), times);
  const auto allowed = [&](const char* option, double most) {
    const double value = values[option].as<double>();
    if (!(value >= 0 && value <= most))
      throw syntax.error(fmt::format("--{} {}: allowed: 0 to {}", option, value, most));
    return value;
  };
  if (values.count("latency") > 0) times.latency = allowed("latency", 1e12);
  if (values.count("block") > 0) times.block = allowed("block", times.forward + times.backward());
  return times;
}

RuntimeLists runtime_lists(const PlayedSchedule& played, CsvFormat format) {
  const ActionLists lists = all_actions(played.spec, played.shape);
  if (format == CsvFormat::compute_only) return compute_only(lists, played.shape);
  const RuntimeLists messages = with_messages(lists, played.shape);
  return format == CsvFormat::compute_comms ? messages : with_sharding(messages, played.shape);
}

std::string file_of(const po::variables_map& values, const char* option) {
  return values.count(option) > 0 ? values[option].as<std::string>() : std::string();
}

/// What is written where.
struct Outputs {
  std::string csv, json;  ///< empty: not at all
  CsvFormat format{};
  std::optional<std::int64_t> picture_width;
};

Outputs outputs_of(const Syntax& syntax, const po::variables_map& values) {
  Outputs outputs{.csv = file_of(values, "csv"), .json = file_of(values, "json"), .format = {}, .picture_width = {}};
  if (!outputs.csv.empty() && outputs.csv == outputs.json)
    throw syntax.error(fmt::format("--csv and --json cannot both write '{}'", outputs.csv));
  for (const std::string& file : {outputs.csv, outputs.json})
    if (!file.empty() && file != "-") check_writable(file);
  if (values.count("csv-format") > 0 && outputs.csv.empty()) throw syntax.error("--csv-format needs --csv");
  outputs.format = named(syntax, values, "csv-format", all_csv_formats).value_or(CsvFormat::compute_only);
  const bool drawn = values.count("draw") > 0;
  const bool width = values.count("width") > 0;
  if (width && !drawn) throw syntax.error("--width needs --draw");
  if (drawn) outputs.picture_width = width ? whole(syntax, values, "width", 10'000) : 100;
  return outputs;
}

PlayedSchedule played_of(const Wanted& wanted, const PassTimes& times) {
  const PipelineShape shape = pipeline_shape(wanted.spec, wanted.ranks, wanted.microbatches);
  if (const std::string wrong = verify(wanted.spec, shape); !wrong.empty()) throw InputError(wrong);
  return {wanted.spec, shape, times, play(all_actions(wanted.spec, shape), shape, times)};
}

}  // namespace

int show_schedule(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = schedule_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const Outputs outputs = outputs_of(syntax, *values);
  const PassTimes times = times_of(syntax, *values);
  const Wanted wanted = wanted_of(syntax, *values);
  check_wanted(syntax, wanted);

  const PlayedSchedule played = played_of(wanted, times);
  if (!outputs.csv.empty()) write_text(outputs.csv, to_csv(runtime_lists(played, outputs.format)), console.out);
  if (!outputs.json.empty()) write_text(outputs.json, schedule_json(played), console.out);
  if (outputs.csv == "-" || outputs.json == "-") return 0;
  console.out << schedule_text(played);
  if (outputs.picture_width) {
    console.out << '\n'
                << schedule_picture(played.play, played.shape.chunks, static_cast<std::size_t>(*outputs.picture_width));
  }
  return 0;
}

}  // namespace foretrain
