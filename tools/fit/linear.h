// The robust fit of a linearised model: what Ceres is asked.
#pragma once

#include <cstddef>
#include <vector>

namespace foretrain {

/// A row: the logarithm of predicted over published where the linearisation stands, and how it changes with the
/// logarithms of the parameters that it depends on.
struct LinearRow {
  double residual = 0;
  std::vector<std::size_t> parameters;
  std::vector<double> slopes;
};

/// Logarithms of a parameter: where the linearisation stands, what was expected and how surely, and bounds.
struct LinearParameter {
  double at = 0, prior = 0, width = 0, least = 0, most = 0;
};

/// Residuals below this are noise (the spread of one plan over releases of one stack, docs/validation.md): the loss is
/// quadratic below and grows linearly above.
inline constexpr double fit_noise = 0.02;

/// Logarithms of the parameters that minimise the loss over the rows plus the squares of (parameter - prior) / width.
[[nodiscard]] std::vector<double> solve_linear(const std::vector<LinearRow>& rows,
                                               const std::vector<LinearParameter>& parameters);

}  // namespace foretrain
