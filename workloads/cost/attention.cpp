// The attention core: softmax(Q K^T) V of one microbatch on one rank.
//
// Flash (Dao 2022, 2023): one kernel, only the part of the square that the mask leaves, nothing of it in memory.
// Unfused (Megatron-LM before 2023): two batched products over the whole square, and softmax and dropout as passes over
// it.
#include <algorithm>

#include "workloads/cost/operators.h"

namespace foretrain {
namespace {

/// Keys a query at which flash attention runs at half its rate: of a causal sequence of 1150 tokens (fitted).
constexpr double few_keys = 1150 / 2.0;
constexpr double narrow_head_rate = 0.82;  ///< head size up to 64 (fitted on MPT and GPT-OSS)
constexpr double wide_head_rate = 0.8;     ///< head size above 128 (assumed)
/// Elements of a head that fill a systolic array, also one of 256: published steps of Llama 3 on TPU v6e leave no room
/// for heads of 128 at half the rate.
constexpr std::int64_t head_block = 128;
constexpr double backward_rate = 0.5;  ///< of the forward's (fitted)

constexpr double unfused_rate = 0.5;         ///< of large GEMMs': K of the products is only the head size (fitted)
constexpr double score_bytes_forward = 8;    ///< scores written and read, probabilities written and read
constexpr double score_bytes_backward = 12;  ///< four reads and two writes
constexpr double dropout_bytes = 4;          ///< more, in either pass; 12 and 16 are the fit, on stacks with dropout
constexpr int unfused_kernels_forward = 3;   ///< scores, softmax, values
constexpr int unfused_kernels_backward = 5;  ///< two products each for values and scores, softmax

double head_rate(const Gpu& gpu, std::int64_t head_dim) {
  if (gpu.matrix_unit > 0) {  // a head is the width of both products' blocks
    const std::int64_t block = std::min(gpu.matrix_unit, head_block);
    const std::int64_t blocks = (head_dim + block - 1) / block;
    return static_cast<double>(head_dim) / static_cast<double>(blocks * block);
  }
  if (head_dim <= 64) return narrow_head_rate;
  return head_dim > 128 ? wide_head_rate : 1;
}

double heads_and_queries(const Attention& a) {
  return static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.query_length);
}

/// Elements of the square of scores, all heads.
double scores(const Attention& a) { return heads_and_queries(a) * static_cast<double>(a.key_length); }

/// Scores that the kernel works on.
double worked_scores(const Attention& a) {
  return a.kernel == AttentionKernel::flash ? heads_and_queries(a) * a.keys_met : scores(a);
}

/// FLOPs of products over the scores: as many as `qk` along Q and K, as many as `value` along V and the output.
double products(const Attention& a, double qk, double value) {
  return 2 * worked_scores(a) * (qk * static_cast<double>(a.qk_dim) + value * static_cast<double>(a.value_dim));
}

/// Bytes of Q, K, V and the output.
double operands(const Attention& a) {
  const std::int64_t queries = a.query_length * a.heads;
  const std::int64_t keys = a.key_length * a.kv_heads;
  return 2.0 * static_cast<double>(a.batch * (queries + keys) * (a.qk_dim + a.value_dim));
}

double memory_seconds(const Gpu& gpu, double traffic_bytes) {
  return traffic_bytes / static_cast<double>(gpu.memory_achieved.bytes_per_s());
}

Duration flash_time(const Gpu& gpu, const Attention& a, double flops, double rate_factor, double passes) {
  const double rate =
      a.rate * gpu.flash_attention.per_second() * head_rate(gpu, a.qk_dim) / (1 + few_keys / a.keys_met);
  return seconds(std::max(flops / (rate_factor * rate), memory_seconds(gpu, passes * operands(a)))) + gpu.launch_gap;
}

Duration unfused_time(const Gpu& gpu, const Attention& a, double flops, double score_bytes, std::int64_t kernels) {
  const double traffic = scores(a) * (score_bytes + (a.dropout ? dropout_bytes : 0));
  return seconds(flops / (unfused_rate * gpu.matmul.per_second()) + memory_seconds(gpu, traffic)) +
         (kernels + (a.dropout ? 1 : 0)) * gpu.launch_gap;
}

}  // namespace

double Attention::flops() const { return products(*this, 1, 1); }

Duration attention_forward_time(const Gpu& gpu, const Attention& a) {
  if (a.kernel == AttentionKernel::flash) return flash_time(gpu, a, a.flops(), 1, 1);
  return unfused_time(gpu, a, a.flops(), score_bytes_forward, unfused_kernels_forward);
}

/// Two gradients of either product; flash makes the scores again first (Dao 2023, section 4.1). It reads the forward's
/// operands, and writes and reads their gradients.
Duration attention_backward_time(const Gpu& gpu, const Attention& a) {
  if (a.kernel == AttentionKernel::flash) return flash_time(gpu, a, products(a, 3, 2), backward_rate, 2);
  return unfused_time(gpu, a, products(a, 2, 2), score_bytes_backward, unfused_kernels_backward);
}

}  // namespace foretrain
