// Do scenarios fold, exactly, and say what keeps them from it?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "scenarios/result.h"
#include "tests/scenarios/support.h"
#include "tests/support/measured_difference.h"

namespace foretrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The same plan in fewer replicas and microbatches; experts on as many ranks as are left, a torus of 512.
Scenario cut(Scenario s, std::int64_t gpus_most, std::int64_t microbatches_most) {
  const std::int64_t replica = s.plan.ranks() / s.plan.dp;
  const std::int64_t m = microbatches(s.plan, s.training);
  const bool both_ways = s.plan.schedule.kind == ScheduleKind::dualpipe;
  const std::int64_t fewer = std::max((both_ways ? 2 : 1) * s.plan.pp, microbatches_most / s.plan.pp * s.plan.pp);
  if (auto* torus = std::get_if<TorusSpec>(&s.cluster.fabric)) torus->shape = {8, 8, 8};
  s.plan.dp = std::max<std::int64_t>(1, gpus_most / replica);
  while (s.plan.dp > 1 && replica * s.plan.dp % 8 != 0) --s.plan.dp;  // whole servers
  s.gpus = replica * s.plan.dp;
  s.plan.ep = std::gcd(s.plan.ep, s.gpus / s.plan.pp);
  s.training.global_batch = std::min(m, fewer) * s.training.microbatch * s.plan.dp;
  return s;
}

void expect_exact(const Scenario& s) {
  SCOPED_TRACE(s.name + ", " + std::string(to_text(s.network.routing)));
  ASSERT_THAT(check(s.model, s.plan, s.training, s.gpus), IsEmpty());
  const Measured folded = measure(s, {.trace = true});
  const Measured each = measure(s, {.trace = true, .fold = false});
  EXPECT_EQ(test::difference(folded, each), "");
  EXPECT_LE(folded.engine.events, each.engine.events);
}

std::vector<std::string> ready_scenarios() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::catalogue()))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(FoldScenarios, all_ready_ones_are_exact_when_cut_to_512_gpus) {
  for (const std::string& name : ready_scenarios()) {
    Scenario s = cut(testing::ready(name), 512, 8);
    expect_exact(s);
    s.network.routing = Routing::ecmp;
    const Measured folded = measure(s);
    EXPECT_EQ(test::difference(folded, measure(s, {.fold = false})), "") << name << " with ecmp";
  }
}

TEST(FoldScenarios, stragglers_and_slow_links_are_exact) {
  Scenario s = cut(testing::ready("llama3-405b"), 512, 16);
  s.faults.gpus = {{"node5/gpu2", 1.3}};
  s.faults.fabric = {{FabricFault::Kind::nic, "node20/nic3", 0.5}, {FabricFault::Kind::link, "leaf2 > spine1", 0.5}};
  expect_exact(s);
}

TEST(FoldScenarios, llama3_405b_is_exact_on_4096_gpus) { expect_exact(cut(testing::ready("llama3-405b"), 4096, 16)); }
TEST(FoldScenarios, a_trillion_parameters_are_exact_on_4096_gpus) {
  expect_exact(cut(testing::ready("megatron-1t"), 4096, 64));
}
TEST(FoldScenarios, gpt3_175b_is_exact_on_4096_gpus) { expect_exact(cut(testing::ready("gpt3-175b-selene"), 4096, 8)); }

// ---- why not further ----------------------------------------------------------------------------------------------

TEST(Asymmetries, none_where_a_class_is_a_stage) {
  const Result r = rehearse(cut(testing::ready("llama3-405b"), 1024, 16));
  EXPECT_EQ(r.engine.rank_classes, 16U);
  EXPECT_THAT(r.engine.asymmetries, IsEmpty());
}

TEST(Asymmetries, name_the_straggler) {
  Scenario s = cut(testing::ready("llama3-405b"), 1024, 16);
  s.faults.gpus = {{"node5/gpu2", 1.3}};
  const Result r = rehearse(s);
  EXPECT_GT(r.engine.rank_classes, 16U);
  EXPECT_LT(r.engine.rank_classes, 1024U);
  EXPECT_THAT(r.engine.asymmetries, ElementsAre("1 GPU at another pace"));
}

TEST(Asymmetries, name_the_tier_of_the_slow_link) {
  Scenario s = cut(testing::ready("llama3-405b"), 1024, 16);
  s.faults.fabric = {{FabricFault::Kind::nic, "node20/nic3", 0.5}};
  EXPECT_THAT(rehearse(s).engine.asymmetries, ElementsAre(HasSubstr("different bandwidth in tier nic")));
}

TEST(Asymmetries, name_the_hashing_of_routes) {
  Scenario s = cut(testing::ready("llama3-405b"), 512, 16);
  s.network.routing = Routing::ecmp;
  const Result r = rehearse(s);
  EXPECT_GT(r.engine.rank_classes, 16U);
  EXPECT_THAT(r.engine.asymmetries, ElementsAre(HasSubstr("ecmp")));
}

TEST(Asymmetries, none_are_named_where_nothing_is_folded) {
  const Result r = rehearse(cut(testing::ready("llama3-405b"), 256, 16), {.fold = false});
  EXPECT_EQ(r.engine.rank_classes, 256U);
  EXPECT_THAT(r.engine.asymmetries, IsEmpty());
}

}  // namespace
}  // namespace foretrain
