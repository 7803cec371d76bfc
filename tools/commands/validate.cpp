#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>
#include <ostream>
#include <vector>

#include "scenarios/published/predict.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/cli/progress.h"
#include "tools/commands/command.h"
#include "tools/output/human.h"
#include "tools/output/validation_plot.h"
#include "tools/output/validation_table.h"
#include "tools/validate/validation.h"
#ifdef FORETRAIN_FIT
#include "tools/fit/leave_out.h"
#endif

namespace foretrain {
namespace {

Syntax validate_syntax() {
  Syntax syntax("validate", "validate RUNS.csv [options]",
                "predicts training runs that others measured and published, and prints how far off each is");
  syntax.positional("runs", "RUNS.csv");
  const auto words = [] { return po::value<std::vector<std::string>>(); };
  syntax.options.add_options()("only", words()->value_name("NAME")->composing(),
                               "rows of this family or id, * for any characters; repeatable (default: all)")(
      "set", words()->value_name("KEY=VALUE")->composing(),
      "change a value of every scenario, as in training.stack.overhead=1; repeatable")(
      "json", po::value<std::string>()->value_name("FILE"),
      "write rows and summary as JSON; - is standard output, and then nothing else is")(
      "csv", po::value<std::string>()->value_name("FILE"), "write the rows as CSV")(
      "plot", po::value<std::string>()->value_name("FILE.svg"), "draw predicted against published step time")(
      "scenario", po::value<std::string>()->value_name("ID"),
      "print the scenario of one row instead, and play nothing")(
      "leave-out", po::value<std::string>()->value_name("WHAT"),
      "refit the constants without a family, each of the `families` in turn, or each of eight `groups` of "
      "configurations, and predict what was left out; takes minutes")(
      "jobs", po::value<std::size_t>()->value_name("N")->default_value(0),
      "rows played at the same time (0: one a core)");
  syntax.examples = {"validate scenarios/published/runs.csv",
                     "validate scenarios/published/runs.csv --only 'dgxc*' --csv errors.csv",
                     "validate scenarios/published/runs.csv --scenario mlperf-001"};
  return syntax;
}

std::vector<std::string> words_of_option(const po::variables_map& values, const char* name) {
  return values.count(name) > 0 ? values[name].as<std::vector<std::string>>() : std::vector<std::string>{};
}

std::string word_of_option(const po::variables_map& values, const char* name) {
  return values.count(name) > 0 ? values[name].as<std::string>() : std::string();
}

/// The rows that `--only` means: all, without it.
std::vector<PublishedRun> chosen(const PublishedTable& table, const std::vector<std::string>& only,
                                 const Syntax& syntax) {
  std::vector<PublishedRun> runs;
  const auto means = [](const PublishedRun& run, const std::string& name) {
    return matches_pattern(run.family(), name) || matches_pattern(run.id(), name);
  };
  std::copy_if(table.runs.begin(), table.runs.end(), std::back_inserter(runs), [&](const PublishedRun& run) {
    return only.empty() || std::any_of(only.begin(), only.end(), [&](const auto& name) { return means(run, name); });
  });
  for (const std::string& name : only) {
    if (std::any_of(runs.begin(), runs.end(), [&](const PublishedRun& run) { return means(run, name); })) continue;
    std::vector<std::string> families;
    for (const PublishedRun& run : table.runs)
      if (families.empty() || families.back() != run.family()) families.push_back(run.family());
    throw syntax.error(fmt::format("no row's family or id is '{}'{}; allowed: {}, or an id", shown(name),
                                   suggestion(name, families), fmt::join(families, ", ")));
  }
  return runs;
}

/// Predictions by constants that were fitted without the rows.
Validation left_out([[maybe_unused]] const std::vector<PublishedRun>& runs,
                    [[maybe_unused]] const po::variables_map& values, [[maybe_unused]] const Console& console,
                    [[maybe_unused]] const Syntax& syntax) {
#ifdef FORETRAIN_FIT
  const std::string what = word_of_option(values, "leave-out");
  const Progress progress(console, "leaving out " + what + " ...");
  return leave_out(runs, what, default_catalogue(),
                   {.sets = words_of_option(values, "set"),
                    .jobs = values["jobs"].as<std::size_t>(),
                    .progress = [&](const std::string&, double part) { progress.show(part); }});
#else
  throw syntax.error("--leave-out needs a build with Ceres (Debian package libceres-dev)");
#endif
}

/// The scenario of one row as text, with what the row did not say.
std::string scenario_text(const PublishedRun& run, const PublishedRules& rules) {
  const PublishedScenario s = scenario_of(run, rules);
  if (!s.skipped.empty()) throw InputError(fmt::format("{}: there is no scenario: {}", run.id(), s.skipped));
  std::string text = fmt::format("# {}: {}\n", run.id(), run.text("source"));
  if (!run.text("url").empty()) text += fmt::format("# {}\n", run.text("url"));
  for (const std::string& reason : s.reasons) text += fmt::format("# {}\n", reason);
  return text + s.yaml;
}

}  // namespace

int validate_runs(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = validate_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const auto catalogue = default_catalogue();
  const PublishedTable table = load_published((*values)["runs"].as<std::string>());
  const PublishedRules rules = load_published_rules(catalogue);
  if (const std::string id = word_of_option(*values, "scenario"); !id.empty()) {
    for (const PublishedRun& run : chosen(table, {id}, syntax)) console.out << scenario_text(run, rules);
    return 0;
  }
  const std::string json = word_of_option(*values, "json");
  const std::string csv = word_of_option(*values, "csv");
  const std::string plot = word_of_option(*values, "plot");
  for (const std::string& file : {json, csv, plot})
    if (!file.empty() && file != "-") check_writable(file);

  const std::vector<PublishedRun> runs = chosen(table, words_of_option(*values, "only"), syntax);
  std::vector<PublishedCase> cases;
  cases.reserve(runs.size());
  for (const PublishedRun& run : runs) cases.push_back(case_of(run, rules, words_of_option(*values, "set"), catalogue));
  const Validation validation = [&] {
    if (values->count("leave-out") > 0) return left_out(runs, *values, console, syntax);
    const Progress progress(console, fmt::format("playing {} runs ...", cases.size()));
    return validate(std::move(cases), {.jobs = (*values)["jobs"].as<std::size_t>(),
                                       .progress = [&](double part) { progress.show(part); }});
  }();
  if (!csv.empty()) write_text(csv, validation_csv(validation), console.out);
  if (!plot.empty()) write_text(plot, validation_plot(validation), console.out);
  if (!json.empty()) write_text(json, validation_json(validation), console.out);
  if (json != "-" && csv != "-") console.out << validation_text(validation);
  return 0;
}

}  // namespace foretrain
