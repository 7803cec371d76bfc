// The matrix work of a layer on one rank, as shapes without a GPU: what `layer_cost` times and `flops.h` counts.
#pragma once

#include <optional>
#include <vector>

#include "workloads/cost/operators.h"
#include "workloads/shard.h"

namespace foretrain {

/// y[tokens, out] = x[tokens, in] W[in, out] on one rank; `count` of them, each with a matrix of its own, in one
/// grouped kernel.
struct Linear {
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t count = 1;
  [[nodiscard]] double flops() const;  ///< of the forward, and of either gradient
};

/// Attention proper as the kernels that context parallelism makes of it, which all do the same work: the steps of a
/// ring; two behind an all-gather, one for each chunk of the zig-zag; one with heads exchanged against sequence.
struct CoreShape {
  Attention kernel;
  std::int64_t kernels = 1;
  bool sums = false;                   ///< the output of every kernel but the first is added to that of the others
  [[nodiscard]] double flops() const;  ///< of the forward
};

/// Keys that a kernel works on for a query, on average: what mask and window leave. Unfused all of the square, and with
/// attention sinks what the mask leaves: fits to GPT-OSS show no saving of its windows.
[[nodiscard]] double keys_worked(const Model& model, const Training& training, LayerKind kind);

struct AttentionShape {
  std::vector<Linear> down;  ///< MLA's products into latents, on the sequence shard
  std::vector<Linear> qkv;   ///< one, or MLA's from its latents
  CoreShape core;
  Linear projection;
};

struct MlpShape {
  Linear in, out;
};

struct ExpertShape {
  Linear router;
  std::optional<Linear> gate;  ///< of the shared experts
  MlpShape routed;             ///< grouped, as many as experts on the rank
  std::optional<MlpShape> shared;
};

struct LayerShape {
  AttentionShape attention;
  std::optional<MlpShape> mlp;
  std::optional<ExpertShape> experts;  ///< instead of it
};
[[nodiscard]] LayerShape layer_shape(const Model& model, const Plan& plan, const Training& training, LayerKind kind);

/// The output layer, and the projection of an MTP module's two inputs, split by columns.
[[nodiscard]] Linear output_shape(const Model& model, const Shard& shard);
[[nodiscard]] Linear mtp_projection_shape(const Model& model, const Plan& plan, const Shard& shard);

/// Products that `matmul` plays again before the backward of either half: every second one in the order of a forward
/// that keeps Q, K and V, and gate and up, apart (torchtitan's per-operator policy); not the layer's last, whose output
/// nobody needs. Outside the count: the router, always again, and the grouped products, which are kept.
struct EverySecond {
  std::vector<Linear> attention, mlp;
};
[[nodiscard]] EverySecond every_second_product(const Model& model, const Plan& plan, const Training& training,
                                               LayerKind kind);

}  // namespace foretrain
