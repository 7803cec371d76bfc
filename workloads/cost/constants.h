// Constants that several operators share. All of the cost model's constants that belong to no GPU were fitted in 2026
// to some 550 published training runs (Megatron, NeMo, torchtitan, MPT, MLPerf...; docs/cost-model.md says how well).
#pragma once

#include "topology/units.h"

namespace foretrain {

/// Between two kernels of a stream: launch, ramp up and drain of the grid. Microseconds, the same fit.
[[nodiscard]] inline Duration launch_gap() { return microseconds(4.6); }

}  // namespace foretrain
