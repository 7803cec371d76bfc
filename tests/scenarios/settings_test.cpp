// --set reaches every key, and says what is wrong with itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using namespace foretrain::testing;
using ::testing::StartsWith;

TEST(Settings, OverrideTheFile) {
  const Scenario s = parse(good, {"parallelism.tp=4", "parallelism.dp=4", "training.global_batch=128"});
  EXPECT_EQ(s.plan.tp, 4);
  EXPECT_EQ(s.plan.dp, 4);
  EXPECT_EQ(s.training.global_batch, 128);
}

TEST(Settings, TheLaterOneWins) { EXPECT_EQ(parse(good, {"network.seed=5", "network.seed=7"}).network.seed, 7U); }

TEST(Settings, MakeMapsThatTheFileLacks) {
  EXPECT_EQ(parse(good, {"network.routing=ecmp"}).network.routing, Routing::ecmp);
  EXPECT_EQ(parse(good, {"network.routing=static"}).network.routing, Routing::static_up_down);
  EXPECT_EQ(parse(good, {"network.flows_per_pair=16"}).network.flows_per_pair, 16U);
  EXPECT_TRUE(parse(good, {"parallelism.overlap.tp=true"}).plan.overlap.tp);
}

TEST(Settings, ReachIntoANamedModel) {
  const Scenario s = parse(good, {"model.layers=4"});
  EXPECT_EQ(s.model.name, "llama3-8b");
  EXPECT_EQ(s.model.layers, 4);
  EXPECT_EQ(s.model.hidden, 4096);
}

TEST(Settings, ReplaceTheModel) { EXPECT_EQ(parse(good, {"model=models/llama2-7b"}).model.name, "llama2-7b"); }

TEST(Settings, ReachIntoTheClusterAndItsParts) {
  const Scenario s = parse(
      good, {"cluster.node.nic=200Gb/s", "cluster.gpu.memory_size=96GiB", "cluster.transport.network.efficiency=0.9",
             "cluster.fabric.oversubscription=2", "cluster.transport.node.launch=9us", "cluster.jitter=0.01"});
  const auto& rail = std::get<RailSpec>(s.cluster.fabric);
  EXPECT_EQ(rail.node.nic, gigabits_per_second(200));
  EXPECT_EQ(rail.oversubscription, 2);
  EXPECT_EQ(s.cluster.gpu.memory_size, gibibytes(96));
  EXPECT_EQ(s.cluster.gpu.name, "h100-80gb");
  EXPECT_EQ(s.cluster.transport.network.efficiency, 0.9);
  EXPECT_EQ(s.cluster.transport.node.launch, microseconds(9));
  EXPECT_EQ(s.cluster.jitter, 0.01);
  EXPECT_EQ(s.cluster.transport.network.ll_step, parse(good).cluster.transport.network.ll_step);
}

TEST(Settings, ReplacePartsByName) {
  const Scenario s = parse(good, {"cluster.gpu=h200", "cluster.transport.network=roce"});
  EXPECT_EQ(s.cluster.gpu.name, "h200");
  EXPECT_EQ(s.cluster.transport.network.efficiency, 0.87);
}

TEST(Settings, AnotherKindDropsTheKeysOfTheOldOne) {
  const Scenario s = parse(good, {"cluster.fabric.kind=fat_tree"});
  EXPECT_EQ(std::get<FatTreeSpec>(s.cluster.fabric).radix, FatTreeSpec{}.radix);
  const std::string chunks = good_with("tp: 2", "pp: 2\n  schedule: {kind: interleaved_1f1b, virtual_stages: 4}");
  EXPECT_EQ(parse(chunks, {"parallelism.schedule.kind=1f1b"}).plan.schedule.virtual_stages, 1);
  const std::vector<std::string> both = {"parallelism.pp=2", "parallelism.tp=1",
                                         "parallelism.schedule.virtual_stages=4",
                                         "parallelism.schedule.kind=interleaved_1f1b"};
  EXPECT_EQ(parse(good, both).plan.schedule.virtual_stages, 4);
}

TEST(Settings, ListsAndMapsAreYaml) {
  const Scenario s =
      parse(good, {"parallelism.order=[tp, pp, dp, cp, ep]", "training.recompute=selective",
                   "training.recompute_modules=[norm, activation]", "parallelism.overlap={dp: false, tp: true}"});
  EXPECT_EQ(s.plan.order, (std::array{Axis::tp, Axis::pp, Axis::dp, Axis::cp, Axis::ep}));
  EXPECT_EQ(s.training.recompute_modules, (std::vector{RecomputeModule::norm, RecomputeModule::activation}));
  EXPECT_FALSE(s.plan.overlap.dp);
  EXPECT_TRUE(s.plan.overlap.tp);
}

TEST(Settings, ReachEveryPartOfThePlan) {
  const Scenario s = parse(good, {"model=mixtral-8x7b",
                                  "training.sequence_length=4096",
                                  "training.stack=deepspeed",
                                  "training.loss=fused",
                                  "training.recompute=full",
                                  "training.recompute_method=block",
                                  "training.recompute_layers=3",
                                  "training.moments=bf16",
                                  "training.compiled=true",
                                  "parallelism.cp=2",
                                  "parallelism.dp=4",
                                  "parallelism.ep=4",
                                  "parallelism.etp=2",
                                  "parallelism.zero=2",
                                  "parallelism.hsdp.shard=4",
                                  "parallelism.sharding.prefetch=2",
                                  "parallelism.sharding.reshard_after_forward=false",
                                  "parallelism.gradient_sync=last",
                                  "parallelism.context=all_gather",
                                  "parallelism.experts.exchange=two_hop",
                                  "parallelism.experts.imbalance=1.25",
                                  "parallelism.experts.capacity=1.5",
                                  "parallelism.stage_layers=[32]",
                                  "parallelism.overlap.ep=true"});
  EXPECT_EQ(s.training.stack.framework, Framework::deepspeed);
  EXPECT_EQ(s.training.loss, LossKernel::fused);
  EXPECT_EQ(s.training.recompute_method, RecomputeMethod::block);
  EXPECT_EQ(s.training.recompute_layers, 3);
  EXPECT_EQ(s.training.moments, Precision::bf16);
  EXPECT_TRUE(s.training.compiled);
  EXPECT_EQ(s.plan.ep, 4);
  EXPECT_EQ(s.plan.etp, 2);
  EXPECT_EQ(s.plan.expert_replicas(), 2);  // 2 x 2 x 4 ranks over 4 x 2
  EXPECT_EQ(s.plan.zero, 2);
  EXPECT_EQ(s.plan.hsdp_shard, 4);
  EXPECT_EQ(s.plan.sharding, (Sharding{.prefetch = 2, .reshard_after_forward = false}));
  EXPECT_EQ(s.plan.gradient_sync, GradientSync::last);
  EXPECT_EQ(s.plan.context, ContextExchange::all_gather);
  EXPECT_EQ(s.plan.experts, ExpertExchange::two_hop);
  EXPECT_EQ(s.plan.expert_imbalance, 1.25);
  EXPECT_EQ(s.plan.expert_capacity, 1.5);
  EXPECT_EQ(s.plan.stage_layers, (std::vector<std::int64_t>{32}));
  EXPECT_TRUE(s.plan.overlap.ep);
}

TEST(Settings, UnknownPath) {
  EXPECT_EQ(mistakes(good, {"parallelism.tpp=4"}),
            "--set parallelism.tpp=4: unknown key 'tpp', did you mean 'tp'?; allowed: tp, cp, pp, dp, ep, "
            "etp, sequence_parallel, zero, schedule, hsdp, sharding, gradient_sync, context, experts, stage_layers, "
            "order, overlap, bucket_parameters, offload");
  EXPECT_EQ(mistakes(good, {"paralelism.tp=4"}),
            "--set paralelism.tp=4: unknown key 'paralelism', did you mean 'parallelism'?; allowed: name, model, "
            "cluster, training, parallelism, network, faults");
}

TEST(Settings, PathThroughAValue) {
  EXPECT_EQ(mistakes(good, {"parallelism.tp.x=4"}),
            "--set parallelism.tp.x=4: found a map; allowed: a whole number from 1 to 4096");
}

TEST(Settings, Malformed) {
  const std::string advice = "; allowed: a dotted key, '=' and a value, such as parallelism.tp=4";
  EXPECT_EQ(mistakes(good, {"parallelism.tp"}), "--set parallelism.tp: no KEY=VALUE" + advice);
  EXPECT_EQ(mistakes(good, {"=4"}), "--set =4: no KEY=VALUE" + advice);
  EXPECT_THAT(mistakes(good, {"a..b=4"}), StartsWith("--set a..b=4: an empty key between dots; allowed:"));
  EXPECT_THAT(mistakes(good, {"a.b.c.d.e.f.g.h.i=4"}),
              StartsWith("--set a.b.c.d.e.f.g.h.i=4: too many dots; allowed:"));
  EXPECT_EQ(mistakes(good, {"parallelism.tp="}),
            "--set parallelism.tp=: found nothing; allowed: a whole number from 1 to 4096");
  EXPECT_THAT(mistakes(good, {"parallelism.order=[tp"}), StartsWith("--set parallelism.order=[tp: "));
}

TEST(Settings, ABrokenRuleNamesTheOptionThatBrokeIt) {
  EXPECT_EQ(mistakes(good, {"parallelism.dp=4"}),
            "--set parallelism.dp=4: tp 2 x cp 1 x pp 1 x dp 4 = 8 ranks, but there are 16 GPUs; allowed: dp 8");
}

}  // namespace
}  // namespace foretrain
