// foretrain_fit: fits the constants of GPUs and stacks to published training runs (docs/validation.md).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>
#include <cmath>
#include <iostream>

#include "tools/cli/options.h"
#include "tools/cli/progress.h"
#include "tools/fit/leave_out.h"
#include "tools/output/human.h"
#include "tools/output/validation_table.h"

namespace foretrain {
namespace {

Syntax fit_syntax() {
  Syntax syntax("fit", "fit RUNS.csv [options]",
                "fits constants of GPUs and stacks to published training runs, as published/parameters.yaml of the "
                "catalogue lists them");
  syntax.positional("runs", "RUNS.csv");
  syntax.options.add_options()("rounds", po::value<int>()->value_name("N")->default_value(4),
                               "simulate, solve and go there this often")(
      "parameters", po::value<std::string>()->value_name("FILE"), "another list of parameters")(
      "only", po::value<std::vector<std::string>>()->value_name("NAME")->composing(),
      "rows of this family or id only, * for any characters; repeatable")(
      "leave-out", po::value<std::string>()->value_name("WHAT"),
      "then also: refit without a family, each of the `families` in turn, or eight `groups` of configurations, and "
      "report the error of what was left out")("write", "write the new values into the catalogue's files")(
      "jobs", po::value<std::size_t>()->value_name("N")->default_value(0),
      "simulations at the same time (0: one a core)");
  syntax.examples = {"fit scenarios/published/runs.csv --rounds 3", "fit runs.csv --rounds 0 --leave-out groups"};
  return syntax;
}

std::vector<PublishedRun> wanted_runs(const PublishedTable& table, const std::vector<std::string>& only) {
  std::vector<PublishedRun> runs;
  for (const PublishedRun& run : table.runs) {
    const bool wanted = only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& name) {
                          return matches_pattern(run.family(), name) || matches_pattern(run.id(), name);
                        });
    if (wanted) runs.push_back(run);
  }
  return runs;
}

std::string summary_line(const std::string& name, const Validation& validation) {
  std::vector<double> errors;
  for (const ValidationRow& row : validation.rows)
    if (row.predicted) errors.push_back(row.error());
  const ErrorSummary s = summary_of(errors);
  return fmt::format("{}: {} runs, median {}, mean {}, nine in ten {}, bias {}\n", name, s.count,
                     human_percent(s.median_abs_error), human_percent(s.mean_abs_error), human_percent(s.p90_abs_error),
                     human_percent(s.bias));
}

int fit_constants(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = fit_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const auto catalogue = default_catalogue();
  const PublishedRules rules = load_published_rules(catalogue);
  const auto only =
      values->count("only") > 0 ? (*values)["only"].as<std::vector<std::string>>() : std::vector<std::string>{};
  std::vector<PublishedRun> runs;
  std::vector<PublishedCase> cases;
  for (PublishedRun& run : wanted_runs(load_published((*values)["runs"].as<std::string>()), only)) {
    PublishedCase c = case_of(run, rules, {}, catalogue);
    if (!c.scenario || c.published.apart) continue;
    runs.push_back(std::move(run));
    cases.push_back(std::move(c));
  }
  const std::filesystem::path list = values->count("parameters") > 0
                                         ? std::filesystem::path((*values)["parameters"].as<std::string>())
                                         : catalogue / "published" / "parameters.yaml";
  const Progress progress(console, "");
  Fit fit(
      std::move(runs), rules, load_parameters(list, catalogue, cases), catalogue,
      {.sets = {}, .jobs = (*values)["jobs"].as<std::size_t>(), .progress = [&](const std::string& doing, double part) {
         if (console.progress) console.err << fmt::format("\r{} {:.0f} %   ", doing, 100 * part) << std::flush;
       }});
  const std::vector<double> before = fit.values();
  const int rounds = (*values)["rounds"].as<int>();
  for (int round = 0; round < rounds; ++round) {
    fit.improve(round);
    console.out << summary_line(fmt::format("round {}", round + 1), fit.rows()) << std::flush;
  }
  if (rounds == 0) fit.measure();
  for (std::size_t p = 0; p < before.size(); ++p) {
    const FitParameter& of = fit.parameters()[p];
    console.out << fmt::format("{:<40} {:>10} -> {:>10} {}\n", of.name(), significant(before[p], 4),
                               significant(fit.values()[p], 4), of.unit);
  }
  if (values->count("write") > 0) write_parameters(fit.parameters(), fit.values(), catalogue);
  if (values->count("leave-out") > 0) {
    const std::string what = (*values)["leave-out"].as<std::string>();
    const Validation left_out = leave_out(fit, what);
    console.out << validation_text(left_out) << summary_line("left out: " + what, left_out);
  }
  return 0;
}

}  // namespace
}  // namespace foretrain

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const foretrain::Console console{
      .out = std::cout, .err = std::cerr, .look = {}, .progress = isatty(STDERR_FILENO) != 0};
  try {
    return foretrain::fit_constants(args, console);
  } catch (const foretrain::InputError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
