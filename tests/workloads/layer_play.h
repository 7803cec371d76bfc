// One layer played by itself: its program, and what happens when all ranks of a plan run it.
#pragma once

#include <functional>

#include "sim/simulate.h"
#include "tests/support/small_fabric.h"
#include "workloads/expert_routing.h"
#include "workloads/program/layer_writer.h"

namespace foretrain::test {

struct Setting {
  Model model;
  Plan plan;
  Training training;
  StageCost cost;
  Gpu gpu = {};
};

inline Model some_model(bool experts) {
  Model m{.name = "small",
          .layers = 2,
          .hidden = 96,
          .ffn_hidden = 256,
          .heads = 16,
          .kv_heads = 8,
          .head_dim = 6,
          .vocabulary = 512};
  if (experts) m.experts = Experts{.count = 16, .topk = 2, .ffn_hidden = 64};
  return m;
}

using Steps = std::function<void(LayerWriter&)>;
inline constexpr Place here{0, 0, 0};
inline constexpr Place there{1, 1, 1};  // another microbatch's

inline Program play_on_track(const Setting& s, const Steps& steps) {
  const std::vector<std::int64_t> layers{s.model.layers};
  const StageInput in{s.model, s.plan, s.training, s.gpu, s.cost, layers};
  const Stage stage{in};
  Track track;
  LayerWriter writer(stage, track);
  steps(writer);
  return std::move(track).finish();
}

/// A network of `rate` bytes a second without latencies.
inline constexpr std::int64_t rate = 1'000'000'000;
inline Transport bare_transport() {
  Transport t;
  t.node.launch = t.node.ll128_step = t.node.ring_step = t.node.nvls_fill = {};
  t.network.ll_step = t.network.ll128_step = t.network.ring_step = t.network.tree_step = {};
  t.network.efficiency = t.node.p2p_efficiency = 1;
  t.node.ring_rate = bytes_per_second(rate * 1000);
  return t;
}

inline void bind_slot(Job& job, Slot slot, std::uint8_t dimension, const RankGroups& all) {
  for (const auto& group : all) {
    job.communicators.push_back({.members = group, .dimension = dimension});
    for (const RankId r : group)
      job.ranks[r.index()].slots[static_cast<std::size_t>(slot)] = id_at<CommunicatorId>(job.communicators.size() - 1);
  }
}

inline Fabric fabric_of(const Setting& s, std::uint32_t gpus_a_node = 1) {
  return build({.nodes = static_cast<std::uint32_t>(s.plan.ranks()) / gpus_a_node,
                .gpus = gpus_a_node,
                .nic = bytes_per_second(rate)});
}

/// All ranks of a plan without pipeline do the same.
inline Job job_of(const Setting& s, const Steps& steps, const Fabric& fabric) {
  Job job;
  job.programs.push_back(play_on_track(s, steps));
  job.activities = {"compute", "recompute", "optimizer", "other"};
  job.dimensions = {{"tp", false}, {"cp", false}, {"ep", false}};
  std::vector<std::uint32_t> node_of;
  for (std::int64_t r = 0; r < s.plan.ranks(); ++r) {
    job.ranks.push_back({0, std::vector<CommunicatorId>(4)});
    job.placement.push_back(id_at<GpuId>(static_cast<std::size_t>(r)));
    node_of.push_back(fabric.node_of(job.placement.back()).value);
  }
  bind_slot(job, Slot::tp, 0, groups(s.plan, Axis::tp));
  bind_slot(job, Slot::cp, 1, groups(s.plan, Axis::cp));
  bind_slot(job, Slot::ep, 2, expert_groups(s.plan, Axis::ep));
  bind_slot(job, Slot::etp, 2, expert_groups(s.plan, Axis::tp));
  set_expert_exchanges(s.model, s.plan, node_of, job);
  return job;
}

inline Measured measure(const Setting& s, const Steps& steps, std::uint32_t gpus_a_node = 1) {
  const Fabric fabric = fabric_of(s, gpus_a_node);
  return simulate(fabric, bare_transport(), job_of(s, steps, fabric), {.forced = {Algorithm::ring, Protocol::simple}});
}

}  // namespace foretrain::test
