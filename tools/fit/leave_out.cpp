#include "tools/fit/leave_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace foretrain {
namespace {

constexpr std::size_t fold_count = 8;

std::vector<bool> rows_of(const Fit& fit, const std::string& family) {
  std::vector<bool> mask;
  for (const PublishedRun& run : fit.runs()) mask.push_back(run.family() == family);
  return mask;
}

std::vector<std::vector<bool>> masks_of(const Fit& fit, const std::string& what) {
  if (what == "groups") return folds_of(fit.rows(), fold_count);
  std::set<std::string> families;
  for (const PublishedRun& run : fit.runs()) families.insert(run.family());
  std::vector<std::vector<bool>> masks;
  for (const std::string& family : families)
    if (what == "families" || what == family) masks.push_back(rows_of(fit, family));
  if (masks.empty()) {
    throw InputError(fmt::format("no rows of family '{}' to leave out; allowed: groups, families, {}", shown(what),
                                 fmt::join(families, ", ")));
  }
  return masks;
}

}  // namespace

Validation leave_out(const Fit& fit, const std::string& what) {
  Validation all = fit.rows();
  for (ValidationRow& row : all.rows) row.predicted.reset();
  for (const std::vector<bool>& mask : masks_of(fit, what)) {
    const Validation part = fit.at(fit.without(mask), mask);
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i]) all.rows[i] = part.rows[i];
  }
  return all;
}

Validation leave_out(const std::vector<PublishedRun>& runs, const std::string& what,
                     const std::filesystem::path& catalogue, const FitOptions& options) {
  const PublishedRules rules = load_published_rules(catalogue);
  std::vector<PublishedRun> usable;
  std::vector<PublishedCase> cases;
  for (const PublishedRun& run : runs) {
    PublishedCase c = case_of(run, rules, options.sets, catalogue);
    if (!c.scenario || c.published.apart) continue;
    usable.push_back(run);
    cases.push_back(std::move(c));
  }
  const auto list = catalogue / "published" / "parameters.yaml";
  Fit fit(std::move(usable), rules, load_parameters(list, catalogue, cases), catalogue, options);
  fit.measure();
  return leave_out(fit, what);
}

}  // namespace foretrain
