// The canonical text of a Scenario: every value written out, nothing taken from the catalogue.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

template <class E>
std::string list(const E& values) {
  std::vector<std::string_view> words;
  words.reserve(values.size());
  for (const auto value : values) words.push_back(to_text(value));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::string write_gpu(const Gpu& g) {
  const auto quantised = [](std::string_view width, FlopRate peak, FlopRate achieved) {
    if (peak == FlopRate{}) return std::string();
    return fmt::format("    peak_{0}: {1}\n    matmul_{0}: {2}\n", width, to_text(peak), to_text(achieved));
  };
  const std::string products = quantised("fp8", g.peak_fp8, g.matmul_fp8) + quantised("fp4", g.peak_fp4, g.matmul_fp4);
  const std::string units = g.matrix_unit > 0 ? fmt::format("matrix_unit: {}", g.matrix_unit)
                                              : fmt::format("multiprocessors: {}", g.multiprocessors);
  return fmt::format(
      "  gpu:\n    name: {}\n    peak: {}\n    matmul: {}\n{}    flash_attention: {}\n    memory: {}\n"
      "    memory_achieved: {}\n    memory_size: {}\n    memory_usable: {}\n    {}\n"
      "    launch_gap: {}\n    host_time: {}\n    contention: {}\n",
      word(g.name), to_text(g.peak), to_text(g.matmul), products, to_text(g.flash_attention), to_text(g.memory),
      to_text(g.memory_achieved), to_text(g.memory_size), to_text(g.memory_usable), units, to_text(g.launch_gap),
      g.host_time, g.contention);
}

/// Every line of `text` with four blanks before it.
std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    out += fmt::format("    {}", text.substr(at, end - at));
    at = end;
  }
  return out;
}

struct FirstNode {
  template <class Spec>
  const NodeSpec* operator()(const Spec& spec) const {
    if constexpr (requires { spec.node; }) return &spec.node;
    return nullptr;
  }
  const NodeSpec* operator()(const SitesSpec& spec) const { return &node_of(spec); }
};

std::string write_groups(const Cluster& cluster) {
  const NodeSpec* const nodes = std::visit(FirstNode{}, cluster.fabric);
  if (cluster.groups.empty() || nodes == nullptr) return {};
  std::string text = "  groups:\n";
  std::int64_t before = 0;
  for (const NodeGroup& group : cluster.groups) {
    const NodeSpec& node = make_of(*nodes, static_cast<std::uint32_t>(before / nodes->gpus));
    text += fmt::format("    - gpus: {}\n{}{}", group.gpus, indented(write_gpu(group.gpu)), indented(write_node(node)));
    before += group.gpus;
  }
  return text;
}

std::string write_transport(const Transport& t) {
  const NodeTransport& n = t.node;
  const NetworkTransport& w = t.network;
  return fmt::format(
             "  transport:\n    node:\n      generation: {}\n      line: {}\n      launch: {}\n      ll_rate: {}\n"
             "      ll128_step: {}\n      ll128_rate: {}\n      ring_step: {}\n      ring_rate: {}\n"
             "      ring_rate_across: {}\n      nvls_efficiency: {}\n      nvls_fill: {}\n      p2p_efficiency: {}\n"
             "      measured: {}\n",
             word_for(generation_words(), n.generation), to_text(n.line), to_text(n.launch), to_text(n.ll_rate),
             to_text(n.ll128_step), to_text(n.ll128_rate), to_text(n.ring_step), to_text(n.ring_rate),
             to_text(n.ring_rate_across.value_or(n.ring_rate)), n.nvls_efficiency, to_text(n.nvls_fill),
             n.p2p_efficiency, to_text(n.measured)) +
         fmt::format(
             "    network:\n      ll_step: {}\n      ll_rate: {}\n      ll128_step: {}\n      ll128_part: {}\n"
             "      ring_step: {}\n      tree_step: {}\n      efficiency: {}\n      tree_allowed: {}\n"
             "      ring_all_reduce_allowed: {}\n      measured: {}\n      in_network_reduction: {}\n",
             to_text(w.ll_step), to_text(w.ll_rate), to_text(w.ll128_step), w.ll128_part, to_text(w.ring_step),
             to_text(w.tree_step), w.efficiency, w.tree_allowed, w.ring_all_reduce_allowed, to_text(w.measured),
             w.in_network_reduction);
}

std::string write_stack(const Stack& s) {
  return fmt::format(
      "  stack:\n    name: {}\n    framework: {}\n    attention_rate: {}\n    memory_traffic: {}\n"
      "    expert_traffic: {}\n    overhead: {}\n    tp_time: {}\n    ep_time: {}\n    host_layer: {}\n"
      "    host_expert_layer: {}\n    late_output_gradient: {}\n    prunes_recompute: {}\n    scattered_messages: {}\n"
      "    owner_broadcast: {}\n    data_channels: {}\n",
      word(s.name), to_text(s.framework), s.attention_rate, s.memory_traffic, s.expert_traffic, s.overhead, s.tp_time,
      s.ep_time, to_text(s.host_layer), to_text(s.host_expert_layer), s.late_output_gradient, s.prunes_recompute,
      s.scattered_messages, to_text(s.owner_broadcast), s.data_channels);
}

std::string write_training(const Training& t) {
  const std::string recipe =
      t.precision == Precision::fp8 ? fmt::format("  fp8_recipe: {}\n", to_text(t.fp8_recipe)) : "";
  return fmt::format(
      "training:\n  sequence_length: {}\n  global_batch: {}\n  microbatch: {}\n  precision: {}\n{}  gradients: {}\n"
      "  recompute: {}\n  recompute_modules: {}\n  recompute_method: {}\n  recompute_layers: {}\n  attention: {}\n"
      "{}  loss: {}\n  moments: {}\n  compiled: {}\n  attention_flops: {}\n",
      t.sequence_length, t.global_batch, t.microbatch, to_text(t.precision), recipe, to_text(t.gradients),
      to_text(t.recompute), list(t.recompute_modules), to_text(t.recompute_method), t.recompute_layers,
      to_text(t.attention), write_stack(t.stack), to_text(t.loss), to_text(t.moments), t.compiled,
      word_for(attention_flops_words(), t.attention_flops));
}

std::string write_plan(const Plan& p) {
  const std::string hsdp = p.hsdp_shard > 0 ? fmt::format("  hsdp: {{shard: {}}}\n", p.hsdp_shard) : "";
  const std::string stages =
      p.stage_layers.empty() ? "" : fmt::format("  stage_layers: [{}]\n", fmt::join(p.stage_layers, ", "));
  return fmt::format(
             "parallelism:\n  tp: {}\n  cp: {}\n  pp: {}\n  dp: {}\n  ep: {}\n  etp: {}\n  sequence_parallel: {}\n"
             "  zero: {}\n{}  sharding: {{prefetch: {}, reshard_after_forward: {}}}\n  gradient_sync: {}\n"
             "  context: {}\n  experts: {{exchange: {}, imbalance: {}, capacity: {}}}\n",
             p.tp, p.cp, p.pp, p.dp, p.ep, p.etp, p.sequence_parallel, p.zero, hsdp, p.sharding.prefetch,
             p.sharding.reshard_after_forward, to_text(p.gradient_sync), to_text(p.context), to_text(p.experts),
             p.expert_imbalance, p.expert_capacity) +
         fmt::format(
             "  schedule: {}\n{}  order: {}\n"
             "  overlap: {{dp: {}, tp: {}, pp: {}, ep: {}}}\n  bucket_parameters: {}\n",
             write_schedule(p.schedule), stages, list(p.order), p.overlap.dp, p.overlap.tp, p.overlap.pp, p.overlap.ep,
             p.bucket_parameters);
}

/// The shortest b with 1 - b == remaining, so that 0.3 does not come back as 0.30000000000000004.
std::string background_of(double remaining) {
  for (int digits = 1; digits < 17; ++digits) {
    const double background = std::stod(fmt::format("{:.{}f}", 1 - remaining, digits));
    if (1 - background == remaining) return fmt::format("{}", background);
  }
  return fmt::format("{}", 1 - remaining);
}

std::string write_faults(const Faults& f) {
  if (f == Faults{}) return {};
  std::string text = "faults:\n";
  for (const FabricFault& fault : f.fabric) {
    const bool down = fault.remaining == 0;
    if (fault.kind == FabricFault::Kind::tier) {
      text += fmt::format("  - {{tier: {}, background: {}}}\n", word(fault.name), background_of(fault.remaining));
    } else {
      text += fmt::format("  - {{{}: {}, {}}}\n", fault.kind == FabricFault::Kind::nic ? "nic" : "link",
                          word(fault.name), down ? "state: down" : fmt::format("bandwidth: {}", fault.remaining));
    }
  }
  for (const GpuSlowdown& it : f.gpus) {
    text += fmt::format("  - {{gpu: {}, slowdown: {}}}\n", word(it.gpu), it.factor);
  }
  if (f.jitter > 0) text += fmt::format("  - {{jitter: {}, seed: {}}}\n", f.jitter, f.jitter_seed);
  return text;
}

}  // namespace

std::string to_yaml(const Scenario& s) {
  return fmt::format("name: {}\n", word(s.name)) + "model:\n" + write_model(s.model, "  ") +
         fmt::format("cluster:\n  name: {}\n  gpus: {}\n", word(s.cluster.name), s.gpus) + write_gpu(s.cluster.gpu) +
         write_groups(s.cluster) + write_fabric(s.cluster.fabric) + write_transport(s.cluster.transport) +
         fmt::format("  jitter: {}\n  max_gpus: {}\n", s.cluster.jitter, s.cluster.max_gpus) +
         write_training(s.training) + write_plan(s.plan) +
         fmt::format("network: {{routing: {}, fidelity: {}, seed: {}, flows_per_pair: {}}}\n",
                     to_text(s.network.routing), to_text(s.network.fidelity), s.network.seed,
                     s.network.flows_per_pair) +
         write_faults(s.faults);
}

}  // namespace foretrain
