// What a scenario means: the ready ones, the defaults, and the canonical text.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <tuple>

#include "scenarios/catalogue.h"
#include "tests/scenarios/support.h"
#include "tests/workloads/any_plan.h"

namespace foretrain {
namespace {

using namespace foretrain::testing;

TEST(ReadyScenario, Llama3On16384Gpus) {
  const Scenario s = ready("llama3-405b");
  EXPECT_EQ(s.name, "llama3-405b");
  EXPECT_EQ(s.model.layers, 126);
  EXPECT_EQ(s.cluster.name, "h100-roce-clos");
  EXPECT_EQ(s.gpus, 16384);
  EXPECT_EQ(s.training.sequence_length, 8192);
  EXPECT_EQ(s.training.global_batch, 2048);
  EXPECT_EQ(s.plan.tp, 8);
  EXPECT_EQ(s.plan.pp, 16);
  EXPECT_EQ(s.plan.dp, 128);
  EXPECT_TRUE(s.plan.sequence_parallel);
  EXPECT_EQ(s.plan.zero, 1);
  EXPECT_EQ(s.plan.schedule.kind, ScheduleKind::interleaved_1f1b);
  EXPECT_EQ(s.plan.stages(), s.model.layers + 2);  // embedding and loss take a slot each
}

TEST(ReadyScenario, Llama3On8192GpusHalvesDataParallelism) {
  const Scenario large = ready("llama3-405b"), small = ready("llama3-405b-8k-gpus");
  EXPECT_EQ(small.gpus, 8192);
  EXPECT_EQ(small.plan.dp, 64);
  EXPECT_EQ(small.training.global_batch, large.training.global_batch);
}

TEST(ReadyScenario, Llama3OnOneNode) {
  const Scenario s = ready("llama3-8b-one-node");
  EXPECT_EQ(s.gpus, 8);
  EXPECT_EQ(s.plan.ranks(), 8);
  EXPECT_EQ(s.cluster.name, "dgx-h100-ndr");
}

TEST(ReadyScenario, Gpt3OnSelene) {
  const Scenario s = ready("gpt3-175b-selene"), full = ready("gpt3-175b-selene-full");
  EXPECT_EQ(s.gpus, 64);
  EXPECT_EQ(s.cluster.name, "dgx-a100-hdr");
  EXPECT_EQ(s.model.vocabulary, 51200);
  EXPECT_EQ(s.plan.tp * s.plan.pp, 64);
  EXPECT_EQ(s.plan.schedule.virtual_stages, 3);
  EXPECT_EQ(s.training.global_batch, 64);
  EXPECT_EQ(s.training.sequence_length, 2048);
  EXPECT_EQ(s.training.precision, Precision::fp16);
  EXPECT_EQ(s.training.attention, AttentionKernel::unfused);
  EXPECT_EQ(s.training.recompute, Recompute::selective);
  EXPECT_TRUE(s.plan.sequence_parallel);
  EXPECT_EQ(full.training.recompute, Recompute::full);
  EXPECT_FALSE(full.plan.sequence_parallel);
}

TEST(ReadyScenario, ATrillionParameters) {
  const Scenario s = ready("megatron-1t");
  EXPECT_EQ(s.gpus, 3072);
  EXPECT_EQ(s.plan.tp, 8);
  EXPECT_EQ(s.plan.pp, 64);
  EXPECT_EQ(s.plan.dp, 6);
  EXPECT_EQ(s.training.global_batch, 3072);
  EXPECT_EQ(s.training.microbatch, 1);
  EXPECT_EQ(s.plan.zero, 0);
  EXPECT_EQ(s.training.recompute, Recompute::full);
  EXPECT_EQ(s.model.layers, s.plan.stages());  // one layer a chunk
}

TEST(ReadyScenario, ByNameAlone) { EXPECT_EQ(load_scenario("llama3-8b-one-node", {}, catalogue()).gpus, 8); }

TEST(Defaults, AreWhatAPractitionerExpects) {
  const Scenario s = parse(
      "model: llama3-8b\ncluster: {use: dgx-h100-ndr, gpus: 16}\n"
      "training: {sequence_length: 8192, global_batch: 64}\nparallelism: {tp: 2}\n");
  EXPECT_EQ(s.plan.dp, 16 / 2);
  EXPECT_TRUE(s.plan.sequence_parallel);
  EXPECT_EQ(s.plan.zero, 1);
  EXPECT_TRUE(s.plan.overlap.dp);
  EXPECT_FALSE(s.plan.overlap.tp);
  EXPECT_EQ(s.plan.schedule.kind, ScheduleKind::one_f_one_b);
  EXPECT_EQ(s.training.microbatch, 1);
  EXPECT_EQ(s.training.precision, Precision::bf16);
  EXPECT_EQ(s.training.gradients, Precision::fp32);
  EXPECT_EQ(s.training.recompute, Recompute::none);
  EXPECT_EQ(s.training.attention, AttentionKernel::flash);
  EXPECT_EQ(s.network.fidelity, Fidelity::fluid);
  EXPECT_EQ(s.network.routing, Routing::spread);
  EXPECT_EQ(s.network.flows_per_pair, 1U);
  EXPECT_FALSE(parse(good, {"parallelism.tp=1", "parallelism.dp=16"}).plan.sequence_parallel);
}

TEST(Defaults, DependOnTheSchedule) {
  const std::vector<std::string> pipeline = {"parallelism.tp=1", "parallelism.pp=4", "parallelism.dp=4"};
  EXPECT_FALSE(parse(good, pipeline).plan.overlap.pp);
  std::vector<std::string> chunks = pipeline;
  chunks.push_back("parallelism.schedule.virtual_stages=2");
  const Plan plan = parse(good, chunks).plan;
  EXPECT_EQ(plan.schedule.kind, ScheduleKind::interleaved_1f1b);
  EXPECT_TRUE(plan.overlap.pp);
}

TEST(Defaults, TorusRoutesByDimension) {
  const Scenario s = parse(good, {"cluster={use: h100-torus-4x4x4, gpus: 64}", "parallelism.dp=32"});
  EXPECT_EQ(s.network.routing, Routing::dimension_order);
}

TEST(Model, FromItsKeysAlone) {
  const Scenario s =
      parse(good_with("llama3-8b", "{layers: 4, hidden: 1024, heads: 8, vocabulary: 1000, positions: rotary}"));
  EXPECT_EQ(s.model.name, "custom");
  EXPECT_EQ(s.model.head_dim, 1024 / 8);
  EXPECT_EQ(s.model.kv_heads, s.model.heads);
  EXPECT_EQ(s.model.ffn_hidden, 4 * 1024);
}

void expect_round_trip(const Scenario& s) {
  const std::string text = to_yaml(s);
  const Scenario again = parse_scenario(text, "again.yaml", {}, "/no/catalogue/is/needed");
  EXPECT_EQ(to_yaml(again), text);
  EXPECT_EQ(again.name, s.name);
  EXPECT_EQ(again.gpus, s.gpus);
  EXPECT_EQ(again.model.parameters(), s.model.parameters());
  EXPECT_EQ(again.plan.ranks(), s.plan.ranks());
  EXPECT_EQ(again.cluster.transport.node.ring_rate, s.cluster.transport.node.ring_rate);
  EXPECT_EQ(again.cluster.jitter, s.cluster.jitter);
  EXPECT_EQ(again.cluster.max_gpus, s.cluster.max_gpus);
  EXPECT_EQ(again.cluster.fabric.index(), s.cluster.fabric.index());
}

TEST(Canonical, EveryReadyScenarioLoadsBack) {
  for (const std::string& name : Catalogue(catalogue()).names(Shelf::scenarios)) expect_round_trip(ready(name));
}

TEST(Canonical, EveryClusterLoadsBack) {
  for (const std::string& name : Catalogue(catalogue()).names(Shelf::clusters)) {
    const Cluster cluster = load_cluster(name, catalogue());
    const bool torus = std::holds_alternative<TorusSpec>(cluster.fabric);
    const std::int64_t gpus = torus ? cluster.max_gpus : 144;
    expect_round_trip(
        parse(good, {fmt::format("cluster={{use: {}, gpus: {}}}", name, gpus),
                     fmt::format("parallelism.dp={}", gpus / 2), fmt::format("training.global_batch={}", gpus)}));
  }
}

TEST(Canonical, StrangeNamesAreQuoted) {
  for (const char* name : {"true", "a: b", "null", "1e3", "x \\\"y\\\" # z", "ä", "- a"}) {
    const Scenario s = parse(std::string("name: \"") + name + "\"\n" + good);
    EXPECT_EQ(parse(to_yaml(s)).name, s.name) << name;
  }
}

RC_GTEST_PROP(Canonical, AnyLegalPlanLoadsBack, ()) {
  const int tp = 1 << *rc::gen::inRange(0, 4), pp = 1 << *rc::gen::inRange(0, 4), dp = 1 << *rc::gen::inRange(0, 4);
  const Scenario s =
      parse(good, {fmt::format("cluster.gpus={}", tp * pp * dp), fmt::format("parallelism.tp={}", tp),
                   fmt::format("parallelism.pp={}", pp), fmt::format("parallelism.dp={}", dp),
                   fmt::format("parallelism.zero={}", *rc::gen::inRange(0, 2)),
                   fmt::format("network.seed={}", *rc::gen::inRange(0, 1000)),
                   fmt::format("network.flows_per_pair={}", *rc::gen::inRange(1, 257)),
                   fmt::format("network.routing={}", to_text(*rc::gen::elementOf(std::vector<Routing>(
                                                         std::begin(all_routings), std::end(all_routings))))),
                   fmt::format("cluster.node.nic={}Gb/s", *rc::gen::inRange(1, 800)),
                   fmt::format("cluster.transport.network.efficiency=0.{}", *rc::gen::inRange(10, 99))});
  RC_ASSERT(s.plan.ranks() == tp * pp * dp);
  RC_ASSERT(to_yaml(parse(to_yaml(s))) == to_yaml(s));
}

void expect_same(const Training& a, const Training& b) {
  RC_ASSERT(a.sequence_length == b.sequence_length);
  RC_ASSERT(a.global_batch == b.global_batch);
  RC_ASSERT(a.microbatch == b.microbatch);
  RC_ASSERT(a.precision == b.precision);
  RC_ASSERT(a.fp8_recipe == b.fp8_recipe);
  RC_ASSERT(a.gradients == b.gradients);
  RC_ASSERT(a.recompute == b.recompute);
  RC_ASSERT(a.recompute_modules == b.recompute_modules);
  RC_ASSERT(a.recompute_method == b.recompute_method);
  RC_ASSERT(a.recompute_layers == b.recompute_layers);
  RC_ASSERT(a.attention == b.attention);
  RC_ASSERT(a.stack == b.stack);
  RC_ASSERT(a.loss == b.loss);
  RC_ASSERT(a.moments == b.moments);
  RC_ASSERT(a.compiled == b.compiled);
}

void expect_same(const Plan& a, const Plan& b) {
  RC_ASSERT(std::tie(a.tp, a.cp, a.pp, a.dp, a.ep, a.etp) == std::tie(b.tp, b.cp, b.pp, b.dp, b.ep, b.etp));
  RC_ASSERT(a.sequence_parallel == b.sequence_parallel);
  RC_ASSERT(a.zero == b.zero);
  RC_ASSERT(a.hsdp_shard == b.hsdp_shard);
  RC_ASSERT(a.sharding == b.sharding);
  RC_ASSERT(a.gradient_sync == b.gradient_sync);
  RC_ASSERT(a.context == b.context);
  RC_ASSERT(a.experts == b.experts);
  RC_ASSERT(a.expert_imbalance == b.expert_imbalance);
  RC_ASSERT(a.expert_capacity == b.expert_capacity);
  RC_ASSERT(a.schedule.kind == b.schedule.kind);
  RC_ASSERT(a.schedule.virtual_stages == b.schedule.virtual_stages);
  RC_ASSERT(a.schedule.microbatch_group == b.schedule.microbatch_group);
  RC_ASSERT(a.stage_layers == b.stage_layers);
  RC_ASSERT(a.order == b.order);
  RC_ASSERT(a.overlap.dp == b.overlap.dp && a.overlap.tp == b.overlap.tp);
  RC_ASSERT(a.overlap.pp == b.overlap.pp && a.overlap.ep == b.overlap.ep);
  RC_ASSERT(a.bucket_parameters == b.bucket_parameters);
}

RC_GTEST_PROP(Canonical, AnyPlanOfEveryKindLoadsBack, ()) {
  test::Drawn d = test::any_drawn();
  d.plan.expert_imbalance = *rc::gen::element(1.0, 1.25);
  d.plan.expert_capacity = *rc::gen::element(0.0, 1.5);
  d.training.loss = *rc::gen::elementOf(std::vector(std::begin(all_loss_kernels), std::end(all_loss_kernels)));
  d.training.moments = *rc::gen::element(Precision::fp32, Precision::bf16);
  d.training.compiled = test::coin();
  if (test::coin()) d.plan.stage_layers = layers_by_stage(d.model, d.plan);
  if (test::coin() && runs_in_groups(d.plan.schedule.kind))
    d.plan.schedule.microbatch_group = microbatches(d.plan, d.training);
  RC_PRE(d.plan.ranks() < 8 || d.plan.ranks() % 8 == 0);  // whole nodes
  Scenario s = parse(good);
  s.model = d.model;
  s.plan = d.plan;
  s.training = d.training;
  s.gpus = d.plan.ranks();
  const Scenario again = parse(to_yaml(s));
  expect_same(again.training, s.training);
  expect_same(again.plan, s.plan);
  RC_ASSERT(again.model.experts == s.model.experts);
  RC_ASSERT(again.model.latent == s.model.latent);
  RC_ASSERT(again.model.window == s.model.window);
  RC_ASSERT(again.model.mtp_layers == s.model.mtp_layers);
  RC_ASSERT(to_yaml(again) == to_yaml(s));
}

}  // namespace
}  // namespace foretrain
