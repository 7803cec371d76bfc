// Figures that papers and introductions to parallel training work out by hand, each from its formula. (Bubbles are in
// generate_test, memory of ZeRO and of activations in memory/.)
#include <gtest/gtest.h>

#include <map>

#include "tests/workloads/gpus.h"
#include "workloads/generate.h"
#include "workloads/parameters.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// Bytes of the calls on one slot, by collective, in a step of a one-stage plan on its only program.
std::map<Collective, double> sent(const Model& model, const Plan& plan, const Training& training, Slot slot) {
  std::map<Collective, double> sums;
  const Workload w = generate(model, plan, training, h100_80gb(), StageCost{}, true);
  for (const Program& p : w.job.programs)
    for (const Stream& s : p.streams)
      for (const Operation& o : s.operations)
        if (o.kind == OperationKind::communicate && o.slot == static_cast<std::uint16_t>(slot))
          sums[o.op] += static_cast<double>(o.amount);
  return sums;
}

/// What a rank of a large group sends, in whole messages: an all-reduce is a reduce-scatter and an all-gather.
double elements_moved(const std::map<Collective, double>& sums, double bytes_an_element) {
  double moved = 0;
  for (const auto& [op, size] : sums) moved += (op == Collective::all_reduce ? 2 : 1) * size / bytes_an_element;
  return moved;
}

/// Nothing but matrices.
Model gpt_of(std::int64_t layers, std::int64_t hidden) {
  Model m = gpt(layers, hidden, 16, 1024);
  m.norm = Norm::layernorm_plain;
  m.biases = {};
  return m;
}

/// Rajbhandari 2020 (arXiv 1910.02054), section 7: ZeRO 0, 1 and 2 move 2 N elements a step, ZeRO 3 3 N. DeepSpeed's
/// own ZeRO 1 and 2 all-reduce and gather, 3 N; PyTorch keeps the root's parameters from forward to backward.
TEST(WorkedNumbers, TrafficOfZero) {
  const Model model = gpt_of(4, 256);
  const auto moved = [&](int zero, Framework framework) {
    const Plan plan{.dp = 64, .zero = zero};
    const Training training{
        .sequence_length = 64, .global_batch = 64, .gradients = Precision::bf16, .stack = {.framework = framework}};
    const double parameters = static_cast<double>(stage_parameters(model, plan, 0));
    return elements_moved(sent(model, plan, training, Slot::dp), 2) / parameters;
  };
  EXPECT_DOUBLE_EQ(moved(0, Framework::megatron), 2);
  EXPECT_DOUBLE_EQ(moved(1, Framework::megatron), 2);
  EXPECT_DOUBLE_EQ(moved(2, Framework::megatron), 2);
  EXPECT_DOUBLE_EQ(moved(3, Framework::megatron), 3);
  EXPECT_DOUBLE_EQ(moved(0, Framework::deepspeed), 2);
  EXPECT_DOUBLE_EQ(moved(1, Framework::deepspeed), 3);
  EXPECT_DOUBLE_EQ(moved(2, Framework::deepspeed), 3);
  EXPECT_DOUBLE_EQ(moved(3, Framework::deepspeed), 3);
  const double root = static_cast<double>(model.embedding_parameters()) / static_cast<double>(model.parameters());
  EXPECT_DOUBLE_EQ(moved(3, Framework::fsdp), 3 - root);
}

/// Microbatch 4, sequence 8,192, hidden 8,192, bf16, 8 ranks. TP: four all-reduces of b s h a layer, each moving
/// 2 (n-1)/n of it: 3.76 GB. PP: one activation to the next stage: 0.54 GB.
TEST(WorkedNumbers, TensorAgainstPipelineParallelism) {
  const Training training{.sequence_length = 8192, .global_batch = 4, .microbatch = 4};
  const auto reduced = [&](std::int64_t layers) {
    return sent(gpt_of(layers, 8192), {.tp = 8}, training, Slot::tp)[Collective::all_reduce];
  };
  const double a_layer = (reduced(3) - reduced(2)) * 2 * 7 / 8;
  EXPECT_NEAR(a_layer / 1e9, 3.76, 0.005);
  const Plan stages{.pp = 8};
  EXPECT_NEAR(static_cast<double>(pipeline_message(gpt_of(8, 8192), stages, training).count()) / 1e9, 0.54, 0.005);
}

/// The fp32 gradients of 7 billion parameters are 28 GB; at 400 GB/s that is 70 ms.
TEST(WorkedNumbers, GradientsOfSevenBillionParameters) {
  const Bytes gradients = bytes(7'000'000'000 * gradient_bytes({}));
  EXPECT_EQ(gradients, bytes(28'000'000'000));
  EXPECT_EQ(transfer_time(gradients, gigabytes_per_second(400)), milliseconds(70));
}

/// Of N parameters behind matrices a step computes 6 N FLOPs a token and reduces g N bytes: how much of either there is
/// for the other depends on the tokens of a rank, not on N.
TEST(WorkedNumbers, ComputeOverCommunicationDoesNotDependOnTheModel) {
  constexpr std::int64_t sequence = 2048;
  const Training training{.sequence_length = sequence, .global_batch = 8};
  const Plan plan{.dp = 8};
  for (const std::int64_t hidden : {256, 1024, 4096})
    for (const std::int64_t layers : {1, 2, 5}) {
      const auto of_layers = [&](const auto& count) {
        return count(gpt_of(layers + 1, hidden)) - count(gpt_of(1, hidden));
      };
      const double reduced =
          of_layers([&](const Model& m) { return sent(m, plan, training, Slot::dp)[Collective::all_reduce]; });
      const double flops =
          of_layers([&](const Model& m) { return 3 * forward_flops(m, sequence, AttentionFlops::full).linear; });
      EXPECT_DOUBLE_EQ(flops / reduced, 6.0 * sequence / 4) << hidden << " x " << layers;
    }
}

}  // namespace
}  // namespace foretrain
