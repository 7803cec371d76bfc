// Do whole steps, played as single chunk sends, take as long as in fluid?
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "scenarios/result.h"

namespace foretrain {
namespace {

void expect_same_step(const std::string& name, std::vector<std::string> sets) {
  const auto catalogue = std::filesystem::path(FORETRAIN_SOURCE_DIR) / "scenarios";
  const auto path = catalogue / (name + ".yaml");
  const Result fluid = rehearse(load_scenario(path, sets, catalogue));
  sets.emplace_back("network.fidelity=flows");
  const Result flows = rehearse(load_scenario(path, sets, catalogue));
  EXPECT_NEAR(flows.step_time_s / fluid.step_time_s, 1, 0.02) << flows.step_time_s << " against " << fluid.step_time_s;
  EXPECT_NE(flows.step_time_s, 0);
  ASSERT_EQ(flows.tiers.size(), fluid.tiers.size());
  for (std::size_t t = 0; t < flows.tiers.size(); ++t)
    EXPECT_NEAR(flows.tiers[t].bytes, fluid.tiers[t].bytes, 1e-9 * fluid.tiers[t].bytes);
}

TEST(Flows, OfLlama3On8GpusTakeAsLongAsFluid) { expect_same_step("llama3-8b-one-node", {"training.global_batch=16"}); }

TEST(Flows, OfGpt3On64GpusTakeAsLongAsFluid) { expect_same_step("gpt3-175b-selene", {"training.global_batch=8"}); }

}  // namespace
}  // namespace foretrain
