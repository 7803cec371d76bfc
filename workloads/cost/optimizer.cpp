// Adam in mixed precision is memory-bound: a pass over the state it owns, and passes over the gradients it holds.
#include "workloads/cost/layer.h"

namespace foretrain {
namespace {

/// Bytes an owned parameter: fp32 gradient read (4); master weight, first and second moment read and written (24);
/// bf16 parameter written (2); gradient unscaled or copied (4).
constexpr double owned_bytes = 34;
/// Bytes a held gradient: read for the norm, and cleared for the next step, in fp32.
constexpr double held_bytes = 8;
constexpr double many_kernels = 1.8;  ///< over the traffic alone: many small launches and host work (fitted)

}  // namespace

Duration optimizer_time(const Gpu& gpu, std::int64_t owned, std::int64_t held) {
  const double traffic = owned_bytes * static_cast<double>(owned) + held_bytes * static_cast<double>(held);
  return memory_bound_time(gpu, many_kernels * traffic);
}

}  // namespace foretrain
