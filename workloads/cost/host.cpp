#include "workloads/cost/host.h"

#include <cmath>

namespace foretrain {
namespace {

constexpr double usual_experts = 128;     ///< of which `Stack::host_expert_layer` is said
constexpr double quantised_launches = 2;  ///< over half precision's, for experts (fitted in fp8, assumed in fp4)

Duration times(Duration d, double factor) { return picoseconds(std::llround(static_cast<double>(d.ps()) * factor)); }

}  // namespace

Duration host_time(const Gpu& gpu, const Model& model, const Training& training, LayerKind kind) {
  if (training.compiled) return {};
  const Stack& stack = training.stack;
  if (!kind.experts) return times(stack.host_layer, gpu.host_time);
  const double experts = std::sqrt(static_cast<double>(model.experts->count) / usual_experts);
  const double launches = quantised(training.precision) ? quantised_launches : 1;
  return times(stack.host_expert_layer, experts * launches * gpu.host_time);
}

double host_stretch(Duration device, Duration host) {
  if (device <= Duration{} || host <= Duration{}) return 1;
  return std::pow(1 + std::pow(host / device, 4), 0.25);
}

void stretch_for_host(LayerCost& cost, Duration host) {
  const double forward = host_stretch(cost.forward(), host);
  const double backward = host_stretch(cost.backward(), host);
  for_each_part(cost, [&](PartCost& p) {
    p.forward = times(p.forward, forward);
    p.backward_input = times(p.backward_input, backward);
    p.backward_weight = times(p.backward_weight, backward);
  });
  cost.attention_recompute = times(cost.attention_recompute, forward);
  cost.mlp_recompute = times(cost.mlp_recompute, forward);
}

}  // namespace foretrain
