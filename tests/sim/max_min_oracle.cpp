#include "tests/sim/max_min_oracle.h"

#include <coin/Clp_C_Interface.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

namespace foretrain {

namespace {

constexpr double unbounded = std::numeric_limits<double>::max();  // COIN-OR's infinity
constexpr double tolerance = 1e-6;

/// Columns: the rate of each flow, then the level t. Rows: each resource (sum of load * x <= C), then each flow
/// (x - weight * t >= 0).
class LevelProgram {
 public:
  LevelProgram(std::span<const double> capacities, std::span<const StaticFlow> flows)
      : level_column_(flows.size()), first_flow_row_(capacities.size()), model_(Clp_newModel(), Clp_deleteModel) {
    std::vector<CoinBigIndex> starts;
    std::vector<int> rows;
    std::vector<double> values;
    std::vector<double> upper;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      starts.push_back(static_cast<CoinBigIndex>(rows.size()));
      for (const Load& l : flows[f].loads) {
        rows.push_back(static_cast<int>(l.resource.index()));
        values.push_back(l.load);
      }
      rows.push_back(static_cast<int>(first_flow_row_ + f));
      values.push_back(1);
      upper.push_back(std::min(flows[f].rate_cap, unbounded));
    }
    starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    for (std::size_t f = 0; f < flows.size(); ++f) {
      rows.push_back(static_cast<int>(first_flow_row_ + f));
      values.push_back(-flows[f].weight);
    }
    upper.push_back(unbounded);
    starts.push_back(static_cast<CoinBigIndex>(rows.size()));

    std::vector<double> row_lower(capacities.size(), -unbounded);
    std::vector<double> row_upper(capacities.begin(), capacities.end());
    row_lower.resize(capacities.size() + flows.size(), 0.0);
    row_upper.resize(capacities.size() + flows.size(), unbounded);
    const std::vector<double> zeros(flows.size() + 1, 0.0);
    Clp_setLogLevel(model_.get(), 0);
    Clp_loadProblem(model_.get(), static_cast<int>(upper.size()), static_cast<int>(row_lower.size()), starts.data(),
                    rows.data(), values.data(), zeros.data(), upper.data(), zeros.data(), row_lower.data(),
                    row_upper.data());
    Clp_setObjSense(model_.get(), -1);
  }

  double maximise_level() { return maximise(level_column_); }
  double maximise_rate(std::size_t flow) { return maximise(flow); }
  void fix_level(double level) { bound(level_column_, level, level); }
  void free_level() { bound(level_column_, 0, unbounded); }
  void fix_rate(std::size_t flow, double rate) {
    bound(flow, rate, rate);
    Clp_rowLower(model_.get())[first_flow_row_ + flow] = -unbounded;
  }

 private:
  void bound(std::size_t column, double lower, double upper) {
    Clp_columnLower(model_.get())[column] = lower;
    Clp_columnUpper(model_.get())[column] = upper;
  }
  double maximise(std::size_t column) {
    Clp_objective(model_.get())[column] = 1;
    Clp_primal(model_.get(), 0);
    if (Clp_status(model_.get()) != 0) throw std::runtime_error("the linear program has no optimum");
    Clp_objective(model_.get())[column] = 0;
    return Clp_primalColumnSolution(model_.get())[column];
  }

  std::size_t level_column_;
  std::size_t first_flow_row_;
  std::unique_ptr<Clp_Simplex, void (*)(Clp_Simplex*)> model_;
};

}  // namespace

std::vector<double> max_min_rates_by_lp(std::span<const double> capacities, std::span<const StaticFlow> flows) {
  LevelProgram program(capacities, flows);
  std::vector<double> rates(flows.size(), 0.0);
  std::vector<bool> fixed(flows.size(), false);
  std::size_t left = flows.size();
  while (left > 0) {
    program.free_level();
    const double level = program.maximise_level();
    program.fix_level(level * (1 - 1e-9));
    std::vector<std::size_t> stopped;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!fixed[f] && program.maximise_rate(f) <= flows[f].weight * level + tolerance) stopped.push_back(f);
    }
    if (stopped.empty()) throw std::runtime_error("no flow is at its limit");
    for (const std::size_t f : stopped) {
      fixed[f] = true;
      rates[f] = flows[f].weight * level;
      program.fix_rate(f, rates[f] * (1 - 1e-9));
    }
    left -= stopped.size();
  }
  return rates;
}

}  // namespace foretrain
