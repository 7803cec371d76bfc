#include "tools/fit/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/validate/in_parallel.h"

namespace foretrain {
namespace {

constexpr double slope_step = 0.03;   // of the logarithm: well above what rounding to picoseconds does
constexpr double round_reach = 0.25;  // of the logarithm: how far a round may go

/// Runs of one name scale the same plan over more replicas: a logarithm's slope is nearly the same for all of them.
std::string plan_name(const PublishedRun& run, const Scenario& s) {
  const Plan& p = s.plan;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", run.family(), s.cluster.gpu.name,
                     s.training.stack.name, run.text("model"), s.model.layers, to_text(s.training.precision), p.tp,
                     p.cp, p.pp, p.ep, p.schedule.virtual_stages, p.zero, s.training.microbatch,
                     s.training.sequence_length, to_text(s.training.recompute));
}

}  // namespace

Fit::Fit(std::vector<PublishedRun> runs, PublishedRules rules, std::vector<FitParameter> parameters,
         std::filesystem::path catalogue, FitOptions options)
    : runs_(std::move(runs)),
      rules_(std::move(rules)),
      parameters_(std::move(parameters)),
      catalogue_(std::move(catalogue)),
      options_(std::move(options)) {
  for (const FitParameter& p : parameters_) values_.push_back(std::clamp(p.value, p.least, p.most));
  concerned_.resize(runs_.size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const PublishedCase plain = case_of(runs_[i], rules_, options_.sets, catalogue_);
    for (std::size_t p = 0; plain.scenario && p < parameters_.size(); ++p)
      if (parameters_[p].concerns(*plain.scenario)) concerned_[i].push_back(p);
  }
}

PublishedCase Fit::case_at(std::size_t run, const std::vector<double>& values) const {
  std::vector<std::string> sets = options_.sets;
  for (const std::size_t p : concerned_[run]) sets.push_back(parameters_[p].setting(values[p]));
  return case_of(runs_[run], rules_, sets, catalogue_);
}

void Fit::each(const char* doing, std::size_t count, const std::function<void(std::size_t)>& run) const {
  in_parallel(options_.jobs, count, run, [&](double part) {
    if (options_.progress) options_.progress(doing, part);
  });
}

Validation Fit::at(const std::vector<double>& values, const std::vector<bool>& wanted) const {
  std::vector<PublishedCase> cases(runs_.size());
  each("reading", cases.size(), [&](std::size_t i) {
    cases[i] = case_at(i, values);
    if (!wanted[i]) cases[i].scenario.reset();
  });
  const auto progress = [&](double part) {
    if (options_.progress) options_.progress("simulating", part);
  };
  return validate(std::move(cases), {.jobs = options_.jobs, .progress = progress});
}

void Fit::simulate() {
  current_ = at(values_, std::vector<bool>(runs_.size(), true));
  linear_.resize(runs_.size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const ValidationRow& row = current_.rows[i];
    linear_[i].residual = row.predicted ? std::log1p(row.error()) : 0;
  }
}

double Fit::slope(std::size_t run, std::size_t parameter) const {
  std::vector<double> values = values_;
  // Inwards, away from the bound that legal values end at.
  const bool up = values[parameter] * std::exp(slope_step) <= parameters_[parameter].most;
  const double step = up ? slope_step : -slope_step;
  values[parameter] *= std::exp(step);
  const PublishedCase moved = case_at(run, values);
  return (std::log(predict(moved).step_s / moved.step_s) - linear_[run].residual) / step;
}

void Fit::measure_slopes() {
  std::map<std::string, std::vector<std::size_t>> plans;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    linear_[i].parameters.clear();
    linear_[i].slopes.clear();
    if (current_.rows[i].predicted) plans[plan_name(runs_[i], *current_.rows[i].of.scenario)].push_back(i);
  }
  std::vector<std::pair<std::size_t, std::size_t>> tasks;
  for (auto& [name, members] : plans) {
    std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
      return current_.rows[a].of.scenario->gpus < current_.rows[b].of.scenario->gpus;
    });
    const std::size_t smallest = members.front();
    linear_[smallest].slopes.assign(concerned_[smallest].size(), 0);
    for (std::size_t k = 0; k < concerned_[smallest].size(); ++k) tasks.emplace_back(smallest, k);
  }
  each("measuring slopes", tasks.size(), [&](std::size_t t) {
    const auto [run, k] = tasks[t];
    linear_[run].slopes[k] = slope(run, concerned_[run][k]);
  });
  for (const auto& [name, members] : plans) {
    for (const std::size_t i : members) {
      linear_[i].parameters = concerned_[i];
      linear_[i].slopes = linear_[members.front()].slopes;
    }
  }
}

void Fit::measure() {
  if (current_.rows.empty()) simulate();
  measure_slopes();
}

std::vector<LinearParameter> Fit::linear_parameters(double reach) const {
  std::vector<LinearParameter> linear;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const FitParameter& of = parameters_[p];
    const double at = std::log(values_[p]);
    linear.push_back({.at = at,
                      .prior = std::log(of.prior),
                      .width = of.width,
                      .least = std::max(at - reach, of.least > 0 ? std::log(of.least) : at - reach),
                      .most = std::min(at + reach, std::log(of.most))});
  }
  return linear;
}

void Fit::improve(int round) {
  constexpr int rounds_a_slope = 3;
  if (current_.rows.empty()) simulate();
  if (round % rounds_a_slope == 0) measure_slopes();
  const std::vector<double> to = solve_linear(linear_, linear_parameters(round_reach));
  for (std::size_t p = 0; p < to.size(); ++p) values_[p] = std::exp(to[p]);
  simulate();
}

std::vector<double> Fit::without(const std::vector<bool>& left_out) const {
  std::vector<LinearRow> rows;
  for (std::size_t i = 0; i < linear_.size(); ++i)
    if (!left_out[i]) rows.push_back(linear_[i]);
  constexpr double any = 10;  // no nearer than the bounds of the parameters themselves
  std::vector<double> values = solve_linear(rows, linear_parameters(any));
  for (double& value : values) value = std::exp(value);
  return values;
}

std::vector<std::vector<bool>> folds_of(const Validation& rows, std::size_t count) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const ValidationRow& row = rows.rows[i];
    if (!row.of.scenario) continue;
    const Scenario& s = *row.of.scenario;
    groups[fmt::format("{}|{}|{}|{}", row.of.published.run.family(), s.cluster.gpu.name,
                       row.of.published.run.text("model"), to_text(s.training.precision))]
        .push_back(i);
  }
  std::vector<std::vector<bool>> folds(count, std::vector<bool>(rows.rows.size(), false));
  std::size_t fold = 0;
  for (const auto& [name, members] : groups) {
    for (const std::size_t i : members) folds[fold][i] = true;
    fold = (fold + 1) % count;
  }
  return folds;
}

}  // namespace foretrain
