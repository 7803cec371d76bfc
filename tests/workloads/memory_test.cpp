#include <gtest/gtest.h>

#include "tests/workloads/gpus.h"
#include "workloads/memory.h"

namespace foretrain {
namespace {

std::int64_t all_stages(const Model& model, const Plan& plan) {
  std::int64_t sum = 0;
  for (std::int64_t stage = 0; stage < plan.stages(); ++stage) sum += stage_parameters(model, plan, stage);
  return sum;
}

TEST(StageParameters, AddUpToTheModelWithoutTp) {
  const Model llama405 = llama3_405b();  // 128256 is a multiple of 128: no padding
  for (const std::int64_t pp : {1, 2, 7, 126, 128}) {
    EXPECT_EQ(all_stages(llama405, {.pp = pp}), llama405.parameters()) << pp;
  }
  const Model tied = gpt(24, 1024, 16);
  EXPECT_EQ(all_stages(tied, {}), tied.parameters());
  // A second copy of the tied matrix on the last stage.
  EXPECT_EQ(all_stages(tied, {.pp = 4}), tied.parameters() + tied.vocabulary * tied.hidden);
}

TEST(StageParameters, TpSplitsMatricesAndReplicatesNormsAndRowBiases) {
  const std::int64_t h = 1024;
  const std::int64_t t = 4;
  const std::int64_t layers = 24;
  const Model m = gpt(layers, h, 16);
  const std::int64_t split = layers * (12 * h * h + 7 * h) + m.vocabulary * h;  // biases of QKV 3h and FC1 4h
  const std::int64_t replicated = layers * (4 * h + 2 * h) + m.max_positions * h + 2 * h;
  EXPECT_EQ(stage_parameters(m, {.tp = t}, 0), split / t + replicated);
}

TEST(StageParameters, VirtualStagesOfARankHoldWhatTheirLayersDo) {
  const Model m = llama3_405b();
  const Plan chunks{.tp = 8, .pp = 16, .schedule = {.kind = ScheduleKind::interleaved_1f1b, .virtual_stages = 8}};
  EXPECT_EQ(stage_parameters(m, chunks, 0), std::int64_t{129024} / 8 * 16384);  // the embedding alone
  EXPECT_EQ(stage_parameters(m, chunks, 1) * 126 + stage_parameters(m, chunks, 0) + stage_parameters(m, chunks, 127),
            all_stages(m, chunks));
}

}  // namespace
}  // namespace foretrain
