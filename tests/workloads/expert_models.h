// Models with experts for the tests of this layer, built by hand.
#pragma once

#include "tests/workloads/gpus.h"

namespace foretrain {

/// Mixtral 8x7B (arXiv 2401.04088, table 1).
inline Model mixtral() {
  Model m = llama({32, 4096, 14336, 32, 8, 32000});
  m.experts = Experts{.count = 8, .topk = 2, .ffn_hidden = 14336};
  return m;
}

}  // namespace foretrain
