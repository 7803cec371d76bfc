// The attention core: softmax(Q K^T) V of one microbatch on one rank.
//
// Flash (Dao 2022, 2023): one kernel, causal half only, nothing of the square in memory. Unfused (Megatron-LM before
// 2023): two batched products over the whole square, and softmax and dropout as passes over it.
#include <algorithm>

#include "workloads/cost/constants.h"
#include "workloads/cost/operators.h"

namespace foretrain {
namespace {

constexpr double short_sequence = 1150;    ///< tokens at which flash attention runs at half its rate (fitted)
constexpr double narrow_head_rate = 0.82;  ///< head size up to 64 (fitted on MPT and GPT-OSS)
constexpr double wide_head_rate = 0.8;     ///< head size above 128 (assumed)
constexpr double backward_flops = 2.5;     ///< five products for the forward's two (Dao 2023, section 4.1)
constexpr double backward_rate = 0.5;      ///< of the forward's (fitted)

constexpr double unfused_rate = 0.5;         ///< of large GEMMs': K of the products is only the head size (fitted)
constexpr double score_bytes_forward = 8;    ///< scores written and read, probabilities written and read
constexpr double score_bytes_backward = 12;  ///< four reads and two writes
constexpr double dropout_bytes = 4;          ///< more, in either pass; 12 and 16 are the fit, on stacks with dropout
constexpr int unfused_kernels_forward = 3;   ///< scores, softmax, values
constexpr int unfused_kernels_backward = 5;  ///< two products each for values and scores, softmax

double head_rate(std::int64_t head_dim) {
  if (head_dim <= 64) return narrow_head_rate;
  return head_dim > 128 ? wide_head_rate : 1;
}

/// Elements of the square of scores, all heads.
double scores(const Attention& a) {
  return static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.query_length) *
         static_cast<double>(a.key_length);
}

/// Bytes of Q, K, V and the output.
double operands(const Attention& a) {
  const auto queries = static_cast<double>(a.query_length * a.heads);
  const auto keys = static_cast<double>(a.key_length * a.kv_heads);
  return 2.0 * static_cast<double>(a.batch * a.head_dim) * (2 * queries + 2 * keys);
}

double memory_seconds(const Gpu& gpu, double traffic_bytes) {
  return traffic_bytes / static_cast<double>(gpu.memory_achieved.bytes_per_s());
}

Duration flash_time(const Gpu& gpu, const Attention& a, double flops_factor, double rate_factor, double passes) {
  const double causal_flops = 2 * scores(a) * static_cast<double>(a.head_dim);  // half of 4 a score and head element
  const double rate = gpu.flash_attention.per_second() * head_rate(a.head_dim) /
                      (1 + short_sequence / static_cast<double>(a.key_length));
  return seconds(
             std::max(flops_factor * causal_flops / (rate_factor * rate), memory_seconds(gpu, passes * operands(a)))) +
         launch_gap();
}

Duration unfused_time(const Gpu& gpu, const Attention& a, double products, double score_bytes, std::int64_t kernels) {
  const double flops = 2 * products * scores(a) * static_cast<double>(a.head_dim);
  const double traffic = scores(a) * (score_bytes + (a.dropout ? dropout_bytes : 0));
  return seconds(flops / (unfused_rate * gpu.matmul.per_second()) + memory_seconds(gpu, traffic)) +
         (kernels + (a.dropout ? 1 : 0)) * launch_gap();
}

}  // namespace

Duration attention_forward_time(const Gpu& gpu, const Attention& a) {
  if (a.kernel == AttentionKernel::flash) return flash_time(gpu, a, 1, 1, 1);
  return unfused_time(gpu, a, 2, score_bytes_forward, unfused_kernels_forward);
}

Duration attention_backward_time(const Gpu& gpu, const Attention& a) {
  // Backward reads the forward's operands and writes and reads their gradients.
  if (a.kernel == AttentionKernel::flash) return flash_time(gpu, a, backward_flops, backward_rate, 2);
  return unfused_time(gpu, a, 4, score_bytes_backward, unfused_kernels_backward);
}

}  // namespace foretrain
