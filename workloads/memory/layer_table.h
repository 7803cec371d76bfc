// LayerTable: what one layer keeps of a microbatch, row by row (docs/memory.md). Internal to workloads/memory.
#pragma once

#include "workloads/plan.h"

namespace foretrain {

/// Bytes.
struct LayerTable {
  std::int64_t attention_norm_input = 0;   ///< the layer's input
  std::int64_t attention_norm_output = 0;  ///< input of QKV
  std::int64_t latents = 0;                ///< MLA: compressed Q and KV, before and behind their norms
  std::int64_t qkv = 0;                    ///< with norms of their heads: also before these
  std::int64_t attention_output = 0;       ///< input of the projection
  std::int64_t attention_core = 0;         ///< softmax, mask, dropout of the square; flash: one log-sum-exp a row
  std::int64_t post_norm_inputs = 0;       ///< of norms behind attention and MLP
  std::int64_t dropout_masks = 0;
  std::int64_t mlp_norm_input = 0;
  std::int64_t mlp_norm_output = 0;    ///< input of FC1, or of router and shared experts
  std::int64_t activation_input = 0;   ///< gate and up, of the dense MLP or the routed experts
  std::int64_t activation_output = 0;  ///< input of FC2
  std::int64_t router = 0;             ///< scores, and the map of tokens to experts
  std::int64_t permuted = 0;           ///< tokens in the order of their experts: input of their first product
  std::int64_t shared = 0;             ///< shared experts: activation's input and output

  [[nodiscard]] std::int64_t total() const {
    return attention_norm_input + attention_norm_output + latents + qkv + attention_output + attention_core +
           post_norm_inputs + dropout_masks + mlp_norm_input + mlp_norm_output + activation_input + activation_output +
           router + permuted + shared;
  }
};

/// With nothing recomputed.
[[nodiscard]] LayerTable whole_table(const Model& model, const Plan& plan, const Training& training, LayerKind kind);
/// What is left of it with selective recompute.
[[nodiscard]] LayerTable kept_table(const Model& model, const Plan& plan, const Training& training, LayerKind kind);

/// Inputs of a layer's matrices and the gradients of their outputs: what its weight gradients are made of. Bytes.
[[nodiscard]] std::int64_t weight_operands(const Model& model, const Plan& plan, const Training& training,
                                           LayerKind kind);

/// Bytes of elements that are kept only as the input of a matrix product: fp8 and fp4 keep the cast copy.
[[nodiscard]] std::int64_t product_input(Precision precision, std::int64_t elements);

/// The widths of attention on one rank, elements a token.
struct AttentionWidths {
  std::int64_t query = 0, key = 0, value = 0, output = 0;
  [[nodiscard]] std::int64_t qkv() const { return query + key + value; }
};
[[nodiscard]] AttentionWidths attention_widths(const Model& model, const Plan& plan);

/// Tokens that the busiest rank's experts work on: balanced T topk ETP / TP, times the imbalance or the capacity.
/// Expert parallelism does not divide them: the all-to-all trades tokens (Megatron-LM pull 6782).
[[nodiscard]] std::int64_t expert_tokens(const Model& model, const Plan& plan, const Training& training);

/// Whether gate, its activation and up are separate kernels, each of which keeps its input.
[[nodiscard]] bool unfused_gate(const Training& training);

}  // namespace foretrain
