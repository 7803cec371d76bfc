#include <fmt/format.h>

#include <boost/program_options/value_semantic.hpp>
#include <ostream>
#include <vector>

#include "scenarios/result.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/cli/progress.h"
#include "tools/commands/command.h"
#include "tools/output/human.h"
#include "tools/output/json.h"
#include "tools/output/memory_table.h"

namespace foretrain {
namespace {

Syntax memory_syntax() {
  Syntax syntax(
      "memory", "memory SCENARIO.yaml [options]",
      "plays one training step and prints what each pipeline stage holds at its fullest, by part, and whether "
      "that fits");
  syntax.positional("scenario", "SCENARIO.yaml");
  syntax.options.add_options()("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE")->composing(),
                               "change a value of the scenario, as in training.microbatch=2; repeatable")(
      "json", po::value<std::string>()->value_name("FILE"),
      "write the table as JSON; - is standard output, and then nothing else is");
  syntax.examples = {"memory scenarios/llama3-8b-one-node.yaml",
                     "memory scenarios/llama3-8b-one-node.yaml --set training.recompute=full --json -"};
  return syntax;
}

}  // namespace

int show_memory(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = memory_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const auto sets =
      values->count("set") > 0 ? (*values)["set"].as<std::vector<std::string>>() : std::vector<std::string>{};
  const std::string json = values->count("json") > 0 ? (*values)["json"].as<std::string>() : std::string();
  const Scenario scenario = load_scenario((*values)["scenario"].as<std::string>(), sets, default_catalogue());
  if (!json.empty() && json != "-") check_writable(json);

  const Result result = [&] {
    const Progress progress(console, fmt::format("playing {} ranks ...", grouped(scenario.gpus)));
    return rehearse(scenario, {.progress = [&](double part) { progress.show(part); }});
  }();
  if (!json.empty()) write_text(json, memory_json(result), console.out);
  if (json != "-") console.out << memory_text(result);
  return 0;
}

}  // namespace foretrain
