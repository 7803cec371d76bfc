#include "workloads/cost/operators.h"

namespace foretrain {

Duration memory_bound_time(const Gpu& gpu, double traffic_bytes) {
  return seconds(traffic_bytes / static_cast<double>(gpu.memory_achieved.bytes_per_s())) + gpu.launch_gap;
}

}  // namespace foretrain
