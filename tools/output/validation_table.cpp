#include "tools/output/validation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/csv.h"
#include "tools/output/human.h"

namespace foretrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr double gigabyte = 1e9;

std::string gpu_of(const ValidationRow& row) {
  return row.of.scenario ? row.of.scenario->cluster.gpu.name : row.of.published.run.text("gpu");
}

/// "+3.1 %"
std::string signed_percent(double error) { return fmt::format("{:+.1f} %", 100 * error); }

std::string row_line(const ValidationRow& row) {
  const PublishedRun& run = row.of.published.run;
  const std::string memory = row.memory_error() ? signed_percent(*row.memory_error()) : "";
  return fmt::format("{:<22}{:<11}{:>6}  {:<28}{:>10}{:>10}{:>10}{:>10}\n", clipped(run.id(), 21), gpu_of(row),
                     run.text("n_gpus"), clipped(run.text("model"), 27), significant(row.of.step_s, 4),
                     significant(row.predicted->step_s, 4), signed_percent(row.error()), memory);
}

std::string group_line(const ValidationGroup& group) {
  const auto percent = [](double part) { return fmt::format("{:.1f} %", 100 * part); };
  const ErrorSummary& s = group.step;
  std::string line = fmt::format("{:<11}{:<18}{:>6}{:>10}{:>10}{:>10}{:>10}", group.by, group.name, s.count,
                                 percent(s.median_abs_error), percent(s.mean_abs_error), percent(s.p90_abs_error),
                                 signed_percent(s.bias));
  if (group.memory.count > 0) {
    line += fmt::format("   memory of {}: median {}, nine in ten {}", group.memory.count,
                        percent(group.memory.median_abs_error), percent(group.memory.p90_abs_error));
  }
  return line + '\n';
}

constexpr std::size_t worst_shown = 10;

/// The rows that are furthest off, where there are many.
std::string worst_lines(const Validation& validation) {
  std::vector<const ValidationRow*> rows;
  for (const ValidationRow& row : validation.rows)
    if (row.predicted) rows.push_back(&row);
  if (rows.size() <= 2 * worst_shown) return {};
  std::stable_sort(rows.begin(), rows.end(), [](const ValidationRow* a, const ValidationRow* b) {
    return std::abs(std::log1p(a->error())) > std::abs(std::log1p(b->error()));
  });
  std::string text = "\nFurthest off\n";
  for (std::size_t i = 0; i < worst_shown; ++i) text += row_line(*rows[i]);
  return text;
}

/// Why rows were skipped, the commonest reasons first, with the rows of each.
std::string skipped_lines(const Validation& validation) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const ValidationRow& row : validation.rows) {
    const std::string& why = row.skipped();
    if (!why.empty()) by_reason[why.substr(0, why.find('\n'))].push_back(row.of.published.run.id());
  }
  if (by_reason.empty()) return {};
  std::string text = "\nNot played\n";
  for (const auto& [why, ids] : by_reason) {
    const std::string others = ids.size() > 1 ? fmt::format(" and {} more", ids.size() - 1) : "";
    text += fmt::format("  {}{}: {}\n", ids.front(), others, why);
  }
  return text;
}

Json summary_json(const std::string& group, const ErrorSummary& s) {
  return {{"group", group},
          {"count", s.count},
          {"median_abs_error", s.median_abs_error},
          {"mean_abs_error", s.mean_abs_error},
          {"p90_abs_error", s.p90_abs_error},
          {"bias", s.bias}};
}

std::string group_name(const ValidationGroup& group) {
  return group.by.empty() ? group.name : fmt::format("{}: {}", group.by, group.name);
}

}  // namespace

std::string validation_text(const Validation& validation) {
  std::string text = fmt::format("{:<22}{:<11}{:>6}  {:<28}{:>10}{:>10}{:>10}{:>10}\n", "run", "GPU", "GPUs", "model",
                                 "published", "predicted", "error", "memory");
  for (const ValidationRow& row : validation.rows)
    if (row.predicted) text += row_line(row);
  text += worst_lines(validation) + skipped_lines(validation);
  text += fmt::format("\n{:<29}{:>6}{:>10}{:>10}{:>10}{:>10}\n", "Step time, |error|", "runs", "median", "mean", "90 %",
                      "bias");
  for (const ValidationGroup& group : groups_of(validation)) text += group_line(group);
  return text;
}

std::string validation_csv(const Validation& validation) {
  std::string text =
      "id,family,source,url,gpu,n_gpus,model,published_s,predicted_s,error,published_memory_gb,predicted_memory_gb,"
      "skipped\n";
  for (const ValidationRow& row : validation.rows) {
    const PublishedRun& run = row.of.published.run;
    const auto number = [](bool there, double value) { return there ? fmt::format("{:.6g}", value) : std::string(); };
    const bool predicted = row.predicted.has_value();
    const bool memory = row.memory_error().has_value();
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(run.id()), csv_text(run.family()),
                        csv_text(run.text("source")), csv_text(run.text("url")), csv_text(gpu_of(row)),
                        run.text("n_gpus"), csv_text(run.text("model")), number(row.of.step_s > 0, row.of.step_s),
                        number(predicted, predicted ? row.predicted->step_s : 0),
                        number(predicted, predicted ? row.error() : 0),
                        number(memory, memory ? *row.of.memory_bytes / gigabyte : 0),
                        number(memory, memory ? *row.predicted->memory_bytes / gigabyte : 0), csv_text(row.skipped()));
  }
  return text;
}

std::string validation_json(const Validation& validation) {
  Json rows = Json::array();
  for (const ValidationRow& row : validation.rows) {
    const PublishedRun& run = row.of.published.run;
    const bool memory = row.memory_error().has_value();
    rows.push_back({{"id", run.id()},
                    {"family", run.family()},
                    {"gpu", gpu_of(row)},
                    {"predicted_s", row.predicted ? Json(row.predicted->step_s) : Json(nullptr)},
                    {"published_s", row.of.step_s > 0 ? Json(row.of.step_s) : Json(nullptr)},
                    {"error", row.predicted ? Json(row.error()) : Json(nullptr)},
                    {"predicted_mem_gb", memory ? Json(*row.predicted->memory_bytes / gigabyte) : Json(nullptr)},
                    {"published_mem_gb", memory ? Json(*row.of.memory_bytes / gigabyte) : Json(nullptr)},
                    {"apart", row.of.published.apart},
                    {"skipped", row.skipped()}});
  }
  Json summary = Json::array();
  for (const ValidationGroup& group : groups_of(validation)) {
    summary.push_back(summary_json(group_name(group), group.step));
    if (group.memory.count > 0) summary.push_back(summary_json(group_name(group) + ", memory", group.memory));
  }
  const Json whole = {{"schema", "foretrain.validation/1"}, {"rows", rows}, {"summary", summary}};
  return whole.dump(2) + '\n';
}

}  // namespace foretrain
