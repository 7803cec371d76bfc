// Validation: published runs beside what is predicted of them, row by row and summed up by group.
//
//   const Validation v = validate(cases, {.jobs = 2});
//   for (const ValidationGroup& g : groups_of(v)) g.summary.median_abs_error;
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/published/predict.h"

namespace foretrain {

struct ValidationRow {
  PublishedCase of;
  std::optional<Prediction> predicted;  ///< none where the row was skipped, or playing it failed
  std::string failed;                   ///< why it failed

  /// Predicted over published, less 1. Requires a prediction.
  [[nodiscard]] double error() const { return predicted->step_s / of.step_s - 1; }
  /// The same of memory, where both are there.
  [[nodiscard]] std::optional<double> memory_error() const;
  /// Why there is no prediction; empty where there is one.
  [[nodiscard]] const std::string& skipped() const { return failed.empty() ? of.published.skipped : failed; }
};

struct Validation {
  std::vector<ValidationRow> rows;  ///< in the order of the table
};

struct ValidateOptions {
  std::size_t jobs = 0;                  ///< rows played at the same time; 0: as many as there are cores
  std::function<void(double)> progress;  ///< part of the rows done; called by one thread at a time
};
/// Plays every case that has a scenario. The same answer whatever `jobs` is.
[[nodiscard]] Validation validate(std::vector<PublishedCase> cases, const ValidateOptions& options = {});

/// Of |error|: the middle, the mean and what nine in ten stay below (between ranks: linear); bias: the mean error.
struct ErrorSummary {
  std::size_t count = 0;
  double median_abs_error = 0, mean_abs_error = 0, p90_abs_error = 0, bias = 0;
};
[[nodiscard]] ErrorSummary summary_of(const std::vector<double>& errors);

struct ValidationGroup {
  std::string by;    ///< "", "family", "gpu", "precision", "model", "plan"
  std::string name;  ///< of the group: "all", "dgxc", "h100-80gb"...
  ErrorSummary step;
  ErrorSummary memory;
};
/// All rows that count, then by family, GPU, precision, kind of model and of plan; last the headlines reported apart,
/// by themselves. Groups in the order of their names.
[[nodiscard]] std::vector<ValidationGroup> groups_of(const Validation& validation);

/// "tp+pp", "fsdp+cp", "dp": the ways in which the plan splits the model.
[[nodiscard]] std::string plan_kind(const Scenario& scenario);

}  // namespace foretrain
