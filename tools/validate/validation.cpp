#include "tools/validate/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/validate/in_parallel.h"

namespace foretrain {
namespace {

/// A row that cannot be played says so and holds up no other.
void play(ValidationRow& row) {
  if (!row.of.scenario) return;
  try {
    row.predicted = predict(row.of);
  } catch (const std::exception& error) {
    row.failed = error.what();
  }
}

/// The value below which a part of the sorted ones lie.
double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

struct Errors {
  std::vector<double> step, memory;
};

}  // namespace

std::optional<double> ValidationRow::memory_error() const {
  if (!predicted || !predicted->memory_bytes || !of.memory_bytes) return std::nullopt;
  return *predicted->memory_bytes / *of.memory_bytes - 1;
}

Validation validate(std::vector<PublishedCase> cases, const ValidateOptions& options) {
  Validation v;
  v.rows.reserve(cases.size());
  for (PublishedCase& c : cases) v.rows.push_back({.of = std::move(c), .predicted = {}, .failed = {}});
  in_parallel(
      options.jobs, v.rows.size(), [&](std::size_t i) { play(v.rows[i]); }, options.progress);
  return v;
}

ErrorSummary summary_of(const std::vector<double>& errors) {
  ErrorSummary s{.count = errors.size()};
  if (errors.empty()) return s;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    s.mean_abs_error += std::abs(error) / static_cast<double>(errors.size());
    s.bias += error / static_cast<double>(errors.size());
  }
  std::sort(sizes.begin(), sizes.end());
  s.median_abs_error = quantile(sizes, 0.5);
  s.p90_abs_error = quantile(sizes, 0.9);
  return s;
}

std::string plan_kind(const Scenario& scenario) {
  const Plan& p = scenario.plan;
  std::string kind = p.zero == 3 ? "fsdp" : "";
  const std::pair<const char*, std::int64_t> degrees[] = {{"tp", p.tp}, {"cp", p.cp}, {"ep", p.ep}, {"pp", p.pp}};
  for (const auto& [name, degree] : degrees) {
    if (degree > 1) kind += fmt::format("{}{}", kind.empty() ? "" : "+", name);
  }
  return kind.empty() ? "dp" : kind;
}

std::vector<ValidationGroup> groups_of(const Validation& validation) {
  constexpr const char* kinds[] = {"", "family", "gpu", "precision", "model", "plan", "apart"};
  std::map<std::pair<std::size_t, std::string>, Errors> groups;
  for (const ValidationRow& row : validation.rows) {
    if (!row.predicted) continue;
    const Scenario& s = *row.of.scenario;
    const std::string names[] = {"all",
                                 row.of.published.run.family(),
                                 s.cluster.gpu.name,
                                 std::string(to_text(s.training.precision)),
                                 s.model.experts ? "moe" : "dense",
                                 plan_kind(s)};
    const auto add = [&](std::size_t kind, const std::string& name) {
      Errors& errors = groups[{kind, name}];
      errors.step.push_back(row.error());
      if (const auto memory = row.memory_error()) errors.memory.push_back(*memory);
    };
    if (row.of.published.apart) {
      add(std::size(names), "headlines");
    } else {
      for (std::size_t kind = 0; kind < std::size(names); ++kind) add(kind, names[kind]);
    }
  }
  std::vector<ValidationGroup> all;
  all.reserve(groups.size());
  for (const auto& [key, errors] : groups)
    all.push_back({kinds[key.first], key.second, summary_of(errors.step), summary_of(errors.memory)});
  return all;
}

}  // namespace foretrain
