#include "tools/fit/linear.h"

#include <ceres/ceres.h>

#include <algorithm>
#include <stdexcept>

namespace foretrain {
namespace {

class RowCost final : public ceres::CostFunction {
 public:
  RowCost(const LinearRow& row, const std::vector<LinearParameter>& parameters) : row_(row) {
    set_num_residuals(1);
    for (const std::size_t p : row.parameters) {
      mutable_parameter_block_sizes()->push_back(1);
      at_.push_back(parameters[p].at);
    }
  }

  bool Evaluate(double const* const* x, double* residual, double** jacobians) const override {
    *residual = row_.residual;
    for (std::size_t k = 0; k < at_.size(); ++k) *residual += row_.slopes[k] * (x[k][0] - at_[k]);
    *residual /= fit_noise;
    if (jacobians == nullptr) return true;
    for (std::size_t k = 0; k < at_.size(); ++k)
      if (jacobians[k] != nullptr) jacobians[k][0] = row_.slopes[k] / fit_noise;
    return true;
  }

 private:
  const LinearRow& row_;
  std::vector<double> at_;
};

struct Prior {
  double prior, width;
  template <class T>
  bool operator()(const T* x, T* residual) const {
    *residual = (*x - prior) / width;
    return true;
  }
};

}  // namespace

std::vector<double> solve_linear(const std::vector<LinearRow>& rows, const std::vector<LinearParameter>& parameters) {
  std::vector<double> x;
  x.reserve(parameters.size());
  for (const LinearParameter& p : parameters) x.push_back(std::clamp(p.at, p.least, p.most));
  ceres::Problem problem;
  for (const LinearRow& row : rows) {
    std::vector<double*> blocks;
    for (const std::size_t p : row.parameters) blocks.push_back(&x[p]);
    if (!blocks.empty()) problem.AddResidualBlock(new RowCost(row, parameters), new ceres::SoftLOneLoss(1), blocks);
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const LinearParameter& of = parameters[p];
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Prior, 1, 1>(new Prior{of.prior, of.width}), nullptr,
                             &x[p]);
    problem.SetParameterLowerBound(&x[p], 0, of.least);
    problem.SetParameterUpperBound(&x[p], 0, of.most);
  }
  ceres::Solver::Options options;
  options.max_num_iterations = 200;
  options.function_tolerance = 1e-9;
  options.linear_solver_type = ceres::DENSE_NORMAL_CHOLESKY;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  if (!summary.IsSolutionUsable()) throw std::runtime_error("the fit found no solution: " + summary.message);
  return x;
}

}  // namespace foretrain
