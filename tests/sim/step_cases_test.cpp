// Is the step that the benchmarks play GPipe, and the all-reduce a ring?
#include "tests/bench/step_cases.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/simulate.h"
#include "tests/bench/expansion_cases.h"
#include "tests/bench/network_cases.h"
#include "tests/bench/ring_cases.h"
#include "tests/support/measured_difference.h"

namespace foretrain::bench {
namespace {

// Stages of 32 ranks: a leaf each, so that all stages are equally far from the next.
constexpr StepShape shape{.tp = 8, .pp = 4, .dp = 4, .layers = 8, .microbatches = 6};

const CommunicationRow& row_of(const Measured& m, std::uint8_t dimension) {
  return *std::find_if(m.communication.begin(), m.communication.end(),
                       [&](const CommunicationRow& r) { return r.dimension == dimension; });
}

/// Seconds of one call on an idle network.
double idle(const Measured& m, std::uint8_t dimension) {
  const CommunicationRow& row = row_of(m, dimension);
  return row.idle_time.seconds() / static_cast<double>(row.calls);
}

TEST(StepCases, CallsAreThoseOfTheShape) {
  const Measured m = simulate(servers_on_fat_tree(shape.ranks()), Transport{}, gpipe_step(shape), {});
  const std::uint64_t layers = shape.layers_per_stage();
  // Two all-reduces a layer, forward and backward.
  EXPECT_EQ(row_of(m, 0).calls, std::uint64_t{shape.ranks()} * shape.microbatches * layers * 4);
  EXPECT_EQ(row_of(m, 1).calls, std::uint64_t{shape.ranks()} * layers);
  // Every rank on a side of a boundary sends or receives a microbatch each way.
  EXPECT_EQ(row_of(m, 2).calls, std::uint64_t{shape.tp} * shape.dp * (shape.pp - 1) * 2 * shape.microbatches * 2);
}

/// Huang et al. 2019 (GPipe, arXiv 1811.06965): m + p - 1 microbatches' time each way; every boundary is crossed once
/// more each way, and of the gradients that is left which the last backward pass does not hide.
TEST(StepCases, WithoutSharingTheStepIsGPipesClosedForm) {
  const StepSizes sizes;
  const Measured m = simulate(servers_on_fat_tree(shape.ranks()), Transport{}, gpipe_step(shape, sizes),
                              {.fidelity = Fidelity::analytic});
  const double layers = shape.layers_per_stage();
  const double forward = 2 * (sizes.half_forward.seconds() + idle(m, 0));    // of a layer
  const double backward = 2 * (sizes.half_backward.seconds() + idle(m, 0));  // of a layer
  const double gradients = idle(m, 1);
  ASSERT_LT(idle(m, 2), layers * forward) << "sends hide behind the next microbatch";
  const double exposed = gradients + std::max(0.0, (layers - 1) * (gradients - backward));
  const double passes = (shape.microbatches + shape.pp - 1) * layers * (forward + backward);
  EXPECT_NEAR(m.step.seconds(), passes + 2 * (shape.pp - 1) * idle(m, 2) + exposed + sizes.optimizer.seconds(), 1e-10);
}

TEST(StepCases, FoldsToAStageARankAndPlaysTheSame) {
  const Fabric fabric = servers_on_fat_tree(shape.ranks());
  const Job job = gpipe_step(shape);
  const Measured folded = simulate(fabric, Transport{}, job, {.fold = true});
  const Measured each = simulate(fabric, Transport{}, job, {.fold = false});
  EXPECT_EQ(folded.engine.rank_classes, shape.pp);
  EXPECT_EQ(each.engine.rank_classes, shape.ranks());
  EXPECT_EQ(test::difference(folded, each), "");
}

TEST(StepCases, ShapesHaveTheRanksAskedFor) {
  for (const std::uint32_t ranks : {16U, 64U, 1024U, 16384U}) EXPECT_EQ(step_on(ranks).ranks(), ranks);
  EXPECT_EQ(step_on(1024).dp, 16U);
}

TEST(RingCases, EveryRankSendsEveryStepAndNoFasterThanItsNic) {
  constexpr std::uint32_t ranks = 16;
  const Fabric fabric = fat_tree(ranks);
  const Job job = one_all_reduce(ranks, gibibytes(1));
  const Measured fluid = play_ring_all_reduce(fabric, job, Fidelity::fluid);
  const Measured flows = play_ring_all_reduce(fabric, job, Fidelity::flows);
  EXPECT_EQ(flows.engine.sends, ranks * 2 * (ranks - 1));
  const double wire = 2.0 * (ranks - 1) / ranks * static_cast<double>(gibibytes(1).count());
  EXPECT_GE(fluid.step.seconds(), wire / 50e9);
  EXPECT_NEAR(flows.step.seconds(), fluid.step.seconds(), 0.02 * fluid.step.seconds());
}

}  // namespace
}  // namespace foretrain::bench
