// Models with experts and latent attention for the tests of this layer, built by hand.
#pragma once

#include "tests/workloads/gpus.h"

namespace foretrain {

/// Mixtral 8x7B (arXiv 2401.04088, table 1).
inline Model mixtral() {
  Model m = llama({32, 4096, 14336, 32, 8, 32000});
  m.experts = Experts{.count = 8, .topk = 2, .ffn_hidden = 14336};
  return m;
}

/// DeepSeek-V3 (arXiv 2412.19437, section 4.2).
inline Model deepseek_v3() {
  Model m = llama({61, 7168, 18432, 128, 128, 129280});
  m.latent = LatentAttention{.query_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  m.experts = Experts{
      .count = 256, .topk = 8, .ffn_hidden = 2048, .shared_ffn_hidden = 2048, .first_dense = 3, .group_limit = 4};
  m.mtp_layers = 1;
  return m;
}

}  // namespace foretrain
