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

}  // namespace foretrain
