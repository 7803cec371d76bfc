// FitParameter: a constant of a catalogue file that a fit may change, with what was believed of it before.
//
// published/parameters.yaml of the catalogue lists them by name, * for every file of a shelf:
//   - {name: gpus.*.matmul, prior_of: peak, prior: 0.75, width: 0.15, most_of: peak}
//   - {name: stacks.*.tp_time, prior: 0.7, width: 0.4, least: 0.1, most: 3, usual: 1}
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/published/predict.h"

namespace foretrain {

struct FitParameter {
  std::string shelf;   ///< "gpus" or "stacks"
  std::string object;  ///< the file's name on it
  std::string key;
  std::string unit;  ///< as the file has it behind the number
  double value = 0;  ///< as the file has it, else as usual
  double prior = 0;  ///< expected before any run is seen
  double width = 0;  ///< how far, as a natural logarithm, it may well be from that
  double least = 0, most = 0;

  [[nodiscard]] std::string name() const { return shelf + "." + object + "." + key; }
  /// Whether a run's time may depend on it.
  [[nodiscard]] bool concerns(const Scenario& scenario) const;
  /// The `--set` that gives it another value.
  [[nodiscard]] std::string setting(double value) const;
};

/// The parameters of a list (a file as above) that concern five of the cases or more. Throws InputError.
[[nodiscard]] std::vector<FitParameter> load_parameters(const std::filesystem::path& list,
                                                        const std::filesystem::path& catalogue,
                                                        const std::vector<PublishedCase>& cases);

/// Writes new values into the files of the catalogue, leaving all else as it is; three significant digits.
void write_parameters(const std::vector<FitParameter>& parameters, const std::vector<double>& values,
                      const std::filesystem::path& catalogue);

}  // namespace foretrain
