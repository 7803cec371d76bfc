// Host: the CPU launches kernels; where a layer's kernels are short, a pass of the layer takes what launching takes.
#pragma once

#include "workloads/cost/layer.h"

namespace foretrain {

/// What launching one pass (a forward or a backward) of a layer takes on the host: the stack's, for experts times
/// sqrt(experts / 128), doubled by fp8 and fp4 (fitted: their scales and casts are kernels of their own, for each
/// expert), over the GPU's host. Nothing where a compiler fuses the layer.
[[nodiscard]] Duration host_time(const Gpu& gpu, const Model& model, const Training& training, LayerKind kind);

/// How much longer a pass lasts than its kernels: (device^4 + host^4)^(1/4) over device. The longer of both, and where
/// they are near, both show somewhere in the pass (the power is assumed).
[[nodiscard]] double host_stretch(Duration device, Duration host);

/// Every part of the forward, and every part of the backward, stretched alike. What selective recompute plays again
/// comes on top, as long as in the forward.
void stretch_for_host(LayerCost& cost, Duration host);

}  // namespace foretrain
