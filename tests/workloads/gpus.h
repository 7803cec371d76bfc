// GPUs and models for the tests of this layer, built by hand: tests must not depend on the catalogue above it.
#pragma once

#include "workloads/gpu.h"
#include "workloads/model.h"

namespace foretrain {

inline Gpu a100_80gb() {
  return {.name = "a100-80gb",
          .peak = teraflops(312),
          .peak_fp8 = teraflops(0),
          .matmul = teraflops(268),
          .matmul_fp8 = teraflops(0),
          .flash_attention = teraflops(149),
          .memory = gigabytes_per_second(2039),
          .memory_achieved = gigabytes_per_second(1670),
          .memory_size = gibibytes(80),
          .memory_usable = gibibytes(79),
          .multiprocessors = 108};
}

inline Gpu h100_80gb() {
  return {.name = "h100-80gb",
          .peak = teraflops(989),
          .peak_fp8 = teraflops(1979),
          .matmul = teraflops(736),
          .matmul_fp8 = teraflops(1450),
          .flash_attention = teraflops(512),
          .memory = gigabytes_per_second(3350),
          .memory_achieved = gigabytes_per_second(2740),
          .memory_size = gibibytes(80),
          .memory_usable = gibibytes(79),
          .multiprocessors = 132};
}

/// A GPT: layer norms, GELU of 4h, learned positions, biases, dropout, tied embeddings.
inline Model gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary = 51200) {
  return {.name = "gpt",
          .layers = layers,
          .hidden = hidden,
          .ffn_hidden = 4 * hidden,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = hidden / heads,
          .vocabulary = vocabulary,
          .max_positions = 2048};
}

struct LlamaShape {
  std::int64_t layers = 0, hidden = 0, ffn_hidden = 0, heads = 0, kv_heads = 0, vocabulary = 0;
};

/// A Llama: RMS norms, SwiGLU, rotary positions, no biases, no dropout, untied output layer.
inline Model llama(const LlamaShape& shape) {
  return {.name = "llama",
          .layers = shape.layers,
          .hidden = shape.hidden,
          .ffn_hidden = shape.ffn_hidden,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.hidden / shape.heads,
          .vocabulary = shape.vocabulary,
          .max_positions = 0,
          .norm = Norm::rmsnorm,
          .activation = Activation::swiglu,
          .positions = Positions::rotary,
          .biases = {},
          .dropout = false,
          .tied_embeddings = false};
}

inline Model llama3_405b() { return llama({126, 16384, 53248, 128, 8, 128256}); }
inline Model llama3_8b() { return llama({32, 4096, 14336, 32, 8, 128256}); }

/// DeepSeek-V3 (arXiv 2412.19437, section 4.2).
inline Model deepseek_v3() {
  Model m = llama({61, 7168, 18432, 128, 128, 129280});
  m.biases = {.router = true};
  m.latent = LatentAttention{.query_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  m.experts = Experts{
      .count = 256, .topk = 8, .ffn_hidden = 2048, .shared_ffn_hidden = 2048, .first_dense = 3, .group_limit = 4};
  m.mtp_layers = 1;
  return m;
}

}  // namespace foretrain
