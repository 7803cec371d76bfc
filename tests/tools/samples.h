// Results made by hand, with values that are easy to recognise in what is printed.
#pragma once

#include "scenarios/result.h"

namespace foretrain {

/// A pipeline of two on 16,384 GPUs whose step of 10 s divides into all ten parts; without timeline.
[[nodiscard]] Result sample_result();

/// Two ranks, one a stage: stage 0 computes 2 us and sends 1000 bytes during [2, 3] us; stage 1 has waited for them
/// since 0, and then computes 4 us. Stage 0 also holds 100 bytes from 0 to 2 us, 7 bytes of overhead on top.
[[nodiscard]] Result sample_traced_result();

}  // namespace foretrain
