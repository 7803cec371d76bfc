// Fit: constants of GPUs and stacks from published runs. Every residual is a simulation; slopes are differences of
// simulations, over the parameters that a run depends on only. Steps are taken on the linearised model (linear.h),
// whose residuals are then simulated anew.
//
//   Fit fit(table, rules, parameters, options);
//   for (int round = 0; round < 3; ++round) fit.improve(round);
//   fit.values();
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/fit/linear.h"
#include "tools/fit/parameters.h"
#include "tools/validate/validation.h"

namespace foretrain {

struct FitOptions {
  std::vector<std::string> sets;  ///< laid over every scenario
  std::size_t jobs = 0;           ///< simulations at the same time; 0: as many as there are cores
  std::function<void(const std::string& doing, double part)> progress;
};

class Fit {
 public:
  /// Of the runs that have a scenario and are not reported apart; `parameters` as they concern them.
  Fit(std::vector<PublishedRun> runs, PublishedRules rules, std::vector<FitParameter> parameters,
      std::filesystem::path catalogue, FitOptions options);

  /// Solves and goes there, and simulates what is there; slopes are measured anew in every third round, from the first
  /// (0) on. A round moves no parameter further than the linear model can be trusted.
  void improve(int round);
  /// Simulates and measures slopes, and moves nothing: what `without` needs.
  void measure();
  /// Parameters fitted without some rows, on the slopes that are known. Requires `measure` or `improve`.
  [[nodiscard]] std::vector<double> without(const std::vector<bool>& left_out) const;
  /// The rows at other values of the parameters; those not `wanted` without prediction.
  [[nodiscard]] Validation at(const std::vector<double>& values, const std::vector<bool>& wanted) const;

  [[nodiscard]] const std::vector<PublishedRun>& runs() const { return runs_; }
  [[nodiscard]] const std::vector<FitParameter>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  /// The rows at `values()`.
  [[nodiscard]] const Validation& rows() const { return current_; }

 private:
  [[nodiscard]] PublishedCase case_at(std::size_t run, const std::vector<double>& values) const;
  [[nodiscard]] double slope(std::size_t run, std::size_t parameter) const;
  /// Calls `run(i)` for all i below `count`, several at the same time.
  void each(const char* doing, std::size_t count, const std::function<void(std::size_t)>& run) const;
  [[nodiscard]] std::vector<LinearParameter> linear_parameters(double reach) const;
  void measure_slopes();
  void simulate();

  std::vector<PublishedRun> runs_;
  PublishedRules rules_;
  std::vector<FitParameter> parameters_;
  std::filesystem::path catalogue_;
  FitOptions options_;
  std::vector<std::vector<std::size_t>> concerned_;  ///< by run: the parameters that it depends on
  std::vector<double> values_;
  Validation current_;
  std::vector<LinearRow> linear_;  ///< by run
};

/// Which rows each of `count` folds leaves out: a group of runs of one family, GPU, model and precision is left out as
/// a whole, groups in turn.
[[nodiscard]] std::vector<std::vector<bool>> folds_of(const Validation& rows, std::size_t count);

}  // namespace foretrain
