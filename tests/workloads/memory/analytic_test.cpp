// The analytic points of memory_points.csv.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/workloads/gpus.h"
#include "tests/workloads/memory/support.h"
#include "tests/workloads/reference.h"

namespace foretrain {
namespace {

struct Published {
  Model model;
  Plan plan;
  std::int64_t microbatch;
};

/// Models of Korthikanti 2022, table 3. 175B and 530B are interleaved with 3 chunks a stage, 22B and 1T are not.
Published korthikanti(const std::string& name) {
  if (name == "GPT 22B") return {gpt(48, 6144, 64), {.tp = 8}, 4};
  if (name == "GPT 175B") {
    return {gpt(96, 12288, 96), {.tp = 8, .pp = 8, .schedule = {ScheduleKind::interleaved_1f1b, 3}}, 1};
  }
  if (name == "GPT 530B") {
    return {gpt(105, 20480, 128), {.tp = 8, .pp = 35, .schedule = {ScheduleKind::interleaved_1f1b, 3}}, 1};
  }
  return {gpt(128, 25600, 160), {.tp = 8, .pp = 64}, 1};
}

double predicted_gib(const ReferenceRow& row, const Published& p, const Training& training) {
  const double gib = 1024.0 * 1024 * 1024;
  const auto pp = static_cast<double>(p.plan.pp);
  const auto v = static_cast<double>(p.plan.schedule.virtual_stages);
  const std::int64_t layers = p.model.layers;
  if (row.at("quantity").find("optimizer") != std::string::npos) {
    // The paper counts 12 h^2 a layer and 18 bytes a parameter, and no embedding.
    const std::int64_t n = 12 * p.model.hidden * p.model.hidden / p.plan.tp * layers / p.plan.pp;
    const Training recipe{.precision = Precision::fp16, .gradients = Precision::fp32};
    return counted(state_bytes({.dense = n}, p.plan, recipe).total()) / gib;
  }
  // First stage: pp microbatches of layers / pp layers, and (pp - 1)/(pp v) more when interleaved (section 4.2.3).
  const double in_flight = v > 1 ? 1 + (pp - 1) / (pp * v) : 1;
  return counted(layer_activations(p.model, p.plan, training)) * static_cast<double>(layers) * in_flight / gib;
}

TEST(PublishedMemory, KorthikantiFigures1And7) {
  const std::vector<ReferenceRow> rows = reference_rows("memory_points.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("memory_points.csv");
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    if (row.at("source").rfind("Korthikanti", 0) != 0) continue;
    Published p = korthikanti(row.at("model"));
    Training training = megatron_2022(p.microbatch);
    const double baseline = counted(layer_activations(p.model, p.plan, training));
    p.plan.sequence_parallel = row.at("sp") == "1";
    if (row.at("recompute") == "selective") training.recompute = Recompute::selective;
    if (row.at("recompute") == "full") training.recompute = Recompute::full;
    const double predicted = row.at("unit") == "percent"
                                 ? 100 * counted(layer_activations(p.model, p.plan, training)) / baseline
                                 : predicted_gib(row, p, training);
    EXPECT_NEAR(predicted / std::stod(row.at("value")), 1, 0.015) << row.at("id");
    ++compared;
  }
  EXPECT_EQ(compared, 32);
}

TEST(PublishedMemory, ZeroFigure1) {
  const std::vector<ReferenceRow> rows = reference_rows("memory_points.csv");
  if (rows.empty()) GTEST_SKIP() << "no " << reference_file("memory_points.csv");
  int compared = 0;
  for (const ReferenceRow& row : rows) {
    if (row.at("source").rfind("ZeRO", 0) != 0) continue;
    const Plan plan{.dp = std::stoll(row.at("n_gpus")), .zero = std::stoi(row.at("zero_stage"))};
    const Training recipe{.precision = Precision::fp16, .gradients = Precision::fp16};
    const Bytes predicted = state_bytes({.dense = 7'500'000'000}, plan, recipe).total();
    // Printed to 0.1 GB, which is more than 1.5 % of the smallest.
    const double published = std::stod(row.at("value"));
    EXPECT_NEAR(counted(predicted) / 1e9, published, std::max(0.05, 0.015 * published)) << row.at("id");
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

}  // namespace
}  // namespace foretrain
