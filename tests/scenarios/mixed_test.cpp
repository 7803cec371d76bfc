// Clusters with GPUs of several kinds: groups of servers under one network.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/result.h"
#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using namespace foretrain::testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string grouped_as(const std::string& groups) { return "cluster.groups=" + groups; }

double rate_to_leaf(const Fabric& fabric, GpuId gpu) {
  const VertexId nic = fabric.nics_of(gpu).front();
  double rate = 0;
  const auto [first, last] = fabric.out_links(nic);
  for (LinkId l = first; l < last; ++l.value) {
    if (!fabric.vertex(fabric.link(l).to).node) rate += static_cast<double>(fabric.link(l).bandwidth.bytes_per_s());
  }
  return rate;
}

double nvlink_of(const Fabric& fabric, GpuId gpu) {
  double rate = 0;
  const auto [first, last] = fabric.out_links(fabric.vertex_of(gpu));
  for (LinkId l = first; l < last; ++l.value) {
    const Link& link = fabric.link(l);
    if (fabric.tiers()[link.tier.index()].name == "nvlink") rate += static_cast<double>(link.bandwidth.bytes_per_s());
  }
  return rate;
}

const char* const h100_and_a100 =
    "[{gpus: 8}, {gpus: 8, gpu: a100-80gb, node: {nvlink: 300GB/s, pcie: 32GB/s, nic: 200Gb/s}}]";

// --- Reading ------------------------------------------------------------------------------------------------------

TEST(MixedClusters, ServersOfEachGroupAreItsOwn) {
  const Scenario s = parse(good, {grouped_as(h100_and_a100)});
  ASSERT_EQ(s.cluster.groups.size(), 2U);
  EXPECT_EQ(s.cluster.gpu.name, "h100-80gb");
  EXPECT_EQ(s.cluster.groups[1].gpu.name, "a100-80gb");
  const Fabric fabric = build_fabric(s);
  EXPECT_EQ(fabric.node_count(), 2U);
  EXPECT_EQ(nvlink_of(fabric, GpuId{0}), 450e9);
  EXPECT_EQ(nvlink_of(fabric, GpuId{8}), 300e9);
  EXPECT_EQ(rate_to_leaf(fabric, GpuId{7}), 50e9);
  EXPECT_EQ(rate_to_leaf(fabric, GpuId{15}), 25e9);
}

TEST(MixedClusters, TheLastGroupTakesTheRest) {
  const Scenario s = parse(good, {grouped_as("[{gpus: 8}, {gpu: h200}]")});
  EXPECT_EQ(s.cluster.groups[1].gpus, 8);
  EXPECT_EQ(groups_of(s.cluster, 8).size(), 1U);
}

TEST(MixedClusters, ShapesMayDiffer) {
  const Scenario s = parse(good, {grouped_as("[{gpus: 8}, {gpu: mi300x, node: {shape: full_mesh, nvlink: 448GB/s}}]"),
                                  "cluster.node.nvlink_racks=1"});
  const Fabric fabric = build_fabric(s);
  EXPECT_EQ(nvlink_of(fabric, GpuId{9}), 7 * 64e9);
}

/// Site after site is filled, each with servers of its own make.
TEST(MixedClusters, StandInSitesToo) {
  const std::string sites =
      "{kind: sites, sites: 2, gpus_per_site: 8, site: {kind: rail_optimised, nodes_per_group: 4}}";
  const Fabric fabric = build_fabric(parse(good, {"cluster.fabric=" + sites, grouped_as(h100_and_a100)}));
  EXPECT_EQ(rate_to_leaf(fabric, GpuId{0}), 50e9);
  EXPECT_EQ(rate_to_leaf(fabric, GpuId{8}), 25e9);
}

TEST(MixedClusters, LoadBack) {
  for (const char* groups : {h100_and_a100, "[{gpus: 8, gpu: h200}, {gpu: h100-80gb}]",
                             "[{gpus: 8}, {gpu: mi300x, node: {shape: full_mesh, nvlink: 448GB/s}}]"}) {
    const Scenario s = parse(good, {grouped_as(groups)});
    const Scenario again = parse_scenario(to_yaml(s), "again.yaml", {}, "/no/catalogue/is/needed");
    EXPECT_EQ(to_yaml(again), to_yaml(s));
    ASSERT_EQ(again.cluster.groups.size(), 2U);
    for (std::size_t g = 0; g < 2; ++g) {
      EXPECT_EQ(again.cluster.groups[g].gpus, s.cluster.groups[g].gpus);
      EXPECT_EQ(again.cluster.groups[g].gpu, s.cluster.groups[g].gpu);
    }
    EXPECT_EQ(nvlink_of(build_fabric(again), GpuId{8}), nvlink_of(build_fabric(s), GpuId{8}));
  }
}

TEST(MixedClusters, MistakesAreNamed) {
  const auto says = [](const std::string& groups) { return mistakes(good, {grouped_as(groups)}); };
  EXPECT_THAT(says("[{gpus: 8}, {gpus: 16}]"), HasSubstr("16 GPUs, but the groups have 24 together; allowed: 24"));
  EXPECT_THAT(says("[{gpus: 16}, {gpu: h200}]"),
              HasSubstr("16 GPUs leave none for the last group, the others have 16; allowed: more"));
  EXPECT_THAT(says("[{gpus: 12}, {gpus: 4}]"),
              HasSubstr("12 GPUs are not a whole number of nodes of 8; allowed: a multiple of 8; nearest: 8 or 16"));
  EXPECT_THAT(says("[{gpus: 8}, {gpu: h101}]"), HasSubstr("'h101' cannot be read"));
  EXPECT_THAT(says("[{gpus: 8}, {gpu: h200, nodes: 4}]"), HasSubstr("unknown key 'nodes'"));
  EXPECT_THAT(says("[{gpus: 8}, {node: {nics: 4}}]"),
              HasSubstr("servers of 8 GPUs and 4 NICs beside such of 8 and 8; allowed: as many as in the first group"));
  EXPECT_THAT(says("[{}, {gpus: 8}]"), HasSubstr("missing key 'gpus'"));
  EXPECT_THAT(says("[]"), HasSubstr("allowed: a list of 1 to 64 groups"));
  EXPECT_THAT(says("a100-80gb"), HasSubstr("allowed: a list of 1 to 64 groups"));
  EXPECT_THAT(mistakes(good, {"cluster.fabric={kind: torus, shape: 4x4}", grouped_as("[{gpus: 8}, {gpus: 8}]")}),
              HasSubstr("a fabric that is not made of servers has one kind of GPU"));
  EXPECT_THAT(mistakes(good, {grouped_as("[{gpus: 8}, {gpu: a100-80gb}]"), "training.precision=fp8"}),
              HasSubstr("fp8 on GPU 'a100-80gb', which has none"));
  // Both at once.
  const std::string two = says("[{gpus: 8, gpu: h101}, {gpus: 4}]");
  EXPECT_THAT(two, HasSubstr("'h101' cannot be read"));
  EXPECT_THAT(two, HasSubstr("4 GPUs are not a whole number of nodes of 8"));
}

// --- Playing ------------------------------------------------------------------------------------------------------

Result played(const std::vector<std::string>& sets) { return rehearse(parse(good, sets)); }

void expect_equal(const Result& a, const Result& b) {
  EXPECT_EQ(a.step_time_s, b.step_time_s);
  EXPECT_EQ(a.mfu, b.mfu);
  EXPECT_EQ(a.hfu, b.hfu);
  EXPECT_EQ(a.breakdown.compute, b.breakdown.compute);
  EXPECT_EQ(a.breakdown.tp, b.breakdown.tp);
  EXPECT_EQ(a.breakdown.dp, b.breakdown.dp);
  EXPECT_EQ(a.memory.peak_bytes, b.memory.peak_bytes);
  EXPECT_EQ(a.memory.capacity_bytes, b.memory.capacity_bytes);
  ASSERT_EQ(a.tiers.size(), b.tiers.size());
  for (std::size_t t = 0; t < a.tiers.size(); ++t) EXPECT_EQ(a.tiers[t].bytes, b.tiers[t].bytes);
}

TEST(MixedClusters, OfEqualKindsAreTheUnmixedOneToTheBit) {
  const Result plain = played({});
  expect_equal(played({grouped_as("[{gpus: 8}, {gpus: 8}]")}), plain);
  // The same numbers under another name are another kind, with programs of its own.
  expect_equal(played({grouped_as("[{gpus: 8}, {gpus: 8, gpu: {use: h100-80gb, name: twin}}]")}), plain);
}

/// Data-parallel ranks wait for the slowest: the step is the slow kind's but for what a faster partner saves on the
/// way.
TEST(MixedClusters, TheSlowKindSetsTheStep) {
  const Result fast = played({});
  const Result slow = played({"cluster.gpu=a100-80gb"});
  const Result mixed = played({grouped_as("[{gpus: 8}, {gpu: a100-80gb}]")});
  EXPECT_GT(mixed.step_time_s, 1.5 * fast.step_time_s);
  EXPECT_LE(mixed.step_time_s - slow.step_time_s, 1e-5 * slow.step_time_s);  // its messages meet others
  EXPECT_GT(mixed.step_time_s, 0.99 * slow.step_time_s);
  ASSERT_EQ(mixed.gpu_kinds.size(), 2U);
  // What overlapped communication slows depends on when the others communicate; the work itself does not.
  const auto work = [](const Result& r, std::size_t kind) { return r.gpu_kinds[kind].compute_s; };
  EXPECT_NEAR(work(mixed, 0), work(fast, 0), fast.slowed_s + 1e-9);
  EXPECT_NEAR(work(mixed, 1), work(slow, 0), slow.slowed_s + 1e-9);
  // The order of the groups is a renumbering of the nodes.
  EXPECT_NEAR(played({grouped_as("[{gpus: 8, gpu: a100-80gb}, {gpu: h100-80gb}]")}).step_time_s, mixed.step_time_s,
              1e-9 * mixed.step_time_s);
}

TEST(MixedClusters, MfuIsOfTheSumOfPeaks) {
  const Result r = played({grouped_as("[{gpus: 8}, {gpu: a100-80gb}]")});
  const double peaks = 8 * 989e12 + 8 * 312e12;
  EXPECT_NEAR(r.mfu * peaks, r.model_tflops_per_gpu * 1e12 * 16, 1e-6 * peaks * r.mfu);
}

/// The verdict is that of the GPU with the least room, not of the fullest one.
TEST(MixedClusters, MemoryFitsWhenItFitsTheSmallest) {
  const Result roomy = played({grouped_as("[{gpus: 8, gpu: h200}, {gpu: h100-80gb}]")});
  EXPECT_EQ(roomy.memory.capacity_bytes, roomy.gpu_kinds[1].capacity_bytes);
  EXPECT_EQ(roomy.memory.peak_bytes, played({}).memory.peak_bytes);
  const Result tight =
      played({grouped_as("[{gpus: 8, gpu: h200}, {gpu: {use: h100-80gb, memory_size: 8GiB, memory_usable: 8GiB}}]")});
  EXPECT_FALSE(tight.memory.fits);
  EXPECT_EQ(tight.memory.capacity_bytes, std::int64_t{8} << 30);
}

}  // namespace
}  // namespace foretrain
