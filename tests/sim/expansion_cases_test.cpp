// Is the job that the benchmark of the expansion lays out what it says, and small where it can be?
#include <gtest/gtest.h>

#include "tests/bench/expansion_cases.h"

namespace foretrain::bench {
namespace {

TEST(ExpansionCases, EveryGroupOfAnExpertJobIsACallAndAShape) {
  constexpr std::uint32_t gpus = 512;
  const Fabric fabric = servers_on_fat_tree(gpus);
  const Job job = expert_job(gpus);
  ASSERT_EQ(job.check(), "");
  for (const Routing routing : {Routing::ecmp, Routing::spread}) {
    const Expanded expanded = expand_expert_job(fabric, job, routing);
    EXPECT_EQ(expanded.calls, gpus / 8 + 8 + gpus / 64);
    EXPECT_EQ(expanded.shapes, expanded.calls);
    // Each node's NVLink, loaded by its own call, is at least one resource; spread leaves no more than a NIC's each
    // way.
    EXPECT_GE(expanded.resources, gpus / 8);
    if (routing == Routing::spread) {
      EXPECT_LE(expanded.resources, gpus / 8 + 2 * gpus);
    }
  }
}

}  // namespace
}  // namespace foretrain::bench
