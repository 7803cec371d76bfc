#include "workloads/memory/loss.h"

namespace foretrain {

LogitBytes logit_bytes(LossKernel loss) {
  switch (loss) {
    case LossKernel::fused:
      return {.kept = 2, .forward = 2, .backward = 2};
    case LossKernel::unfused:
      return {.kept = 4, .forward = 10, .backward = 6};  // backward: in place on the softmax, then its half copy
    case LossKernel::eager:
      return {.kept = 4, .forward = 14, .backward = 14};
    case LossKernel::parallel:
      return {.kept = 4, .forward = 18, .backward = 18};
  }
  return {};
}

}  // namespace foretrain
