#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/program_options/value_semantic.hpp>
#include <filesystem>
#include <functional>
#include <ostream>
#include <vector>

#include "scenarios/result.h"
#include "scenarios/scenario.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/cli/progress.h"
#include "tools/commands/command.h"
#include "tools/output/human.h"
#include "tools/output/json.h"
#include "tools/output/summary.h"
#include "tools/output/trace.h"

namespace foretrain {
namespace {

Syntax run_syntax() {
  Syntax syntax("run", "run SCENARIO.yaml [options]",
                "plays one training step of a scenario and prints what it takes, on one screen");
  syntax.positional("scenario", "SCENARIO.yaml");
  syntax.options.add_options()("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE")->composing(),
                               "change a value of the scenario, as in training.global_batch=512; repeatable")(
      "json", po::value<std::string>()->value_name("FILE"),
      "write the result as JSON; - is standard output, and then nothing else is")(
      "trace", po::value<std::string>()->value_name("FILE"),
      "write a timeline for ui.perfetto.dev; compressed if FILE ends in .gz")(
      "no-fold", "play every rank, where those that do the same are otherwise played once; same answers, slower")(
      "fidelity", po::value<std::string>()->value_name("NAME"),
      "fluid (default): transfers share links; analytic: each as on an idle network; flows: each as its single chunk "
      "sends, slow and exact");
  syntax.examples = {
      "run scenarios/llama3-8b-one-node.yaml",
      "run scenarios/llama3-8b-one-node.yaml --set training.global_batch=64 --trace step.json.gz --json -"};
  return syntax;
}

struct RunArguments {
  std::string scenario;
  std::vector<std::string> sets;
  std::string json, trace;  ///< empty: not wanted
  bool fold = true;
};

RunArguments read_arguments(const Syntax& syntax, const po::variables_map& values) {
  RunArguments args{
      .scenario = values["scenario"].as<std::string>(), .sets = {}, .json = {}, .trace = {}, .fold = true};
  if (values.count("set") > 0) args.sets = values["set"].as<std::vector<std::string>>();
  if (values.count("fidelity") > 0) args.sets.push_back("network.fidelity=" + values["fidelity"].as<std::string>());
  args.fold = values.count("no-fold") == 0;
  if (values.count("json") > 0) args.json = values["json"].as<std::string>();
  if (values.count("trace") > 0) args.trace = values["trace"].as<std::string>();
  if (args.trace == "-") throw syntax.error("--trace needs a file; only --json can write to standard output");
  if (!args.json.empty() && args.json == args.trace) {
    throw syntax.error(fmt::format("--json and --trace both write '{}'; give each a file of its own", args.json));
  }
  return args;
}

void write_file(const std::string& path, const Console& console, const std::string& what,
                const std::function<void(std::ostream&)>& write) {
  const Progress progress(console, "writing " + what + " ...");
  OutputFile file(path);
  write(file.stream());
  file.commit();
  spdlog::debug("wrote the {} to {}", what, path);
}

}  // namespace

int run_scenario(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = run_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const RunArguments wanted = read_arguments(syntax, *values);
  const Scenario scenario = load_scenario(wanted.scenario, wanted.sets, default_catalogue());
  spdlog::debug("scenario {}: {} on {} GPUs of {}", scenario.name, scenario.model.name, scenario.gpus,
                scenario.cluster.name);
  const bool json_file = !wanted.json.empty() && wanted.json != "-";
  if (json_file) check_writable(wanted.json);
  if (!wanted.trace.empty()) check_writable(wanted.trace);

  const Result result = [&] {
    const Progress progress(console, fmt::format("playing {} ranks ...", grouped(scenario.gpus)));
    return rehearse(scenario, {.trace = !wanted.trace.empty(), .fold = wanted.fold, .progress = [&](double part) {
                                 progress.show(part);
                               }});
  }();
  spdlog::debug("played {} events in {}", grouped(static_cast<std::int64_t>(result.engine.events)),
                human_seconds(result.engine.wall_s));

  if (!wanted.trace.empty()) {
    write_file(wanted.trace, console, "trace", [&](std::ostream& out) { write_trace(out, result); });
  }
  if (json_file) write_file(wanted.json, console, "result", [&](std::ostream& out) { out << result_json(result); });
  console.out << (wanted.json == "-" ? result_json(result) : summary(result, console.look));
  return 0;
}

}  // namespace foretrain
