// Verdict: whether a predicted peak fits, with the error of the prediction in mind.
#pragma once

#include <string_view>

#include "workloads/memory/parts.h"
#include "workloads/plan.h"

namespace foretrain {

/// Of 131 published peaks (docs/memory.md): nothing that ran came out above 1.01 of the usable memory, and one run of
/// a hundred below 0.85 went out of memory.
enum class Verdict : std::uint8_t { fits, at_risk, does_not_fit };
inline constexpr Verdict all_verdicts[] = {Verdict::fits, Verdict::at_risk, Verdict::does_not_fit};
[[nodiscard]] std::string_view to_text(Verdict verdict);

/// Predicted bytes, overhead included, over usable ones.
[[nodiscard]] double memory_pressure(Bytes peak, Bytes usable);

/// `fits` up to 0.85, `at_risk` up to 1.075. Dropless mixtures of experts are at risk from 0.8 on: their hottest rank
/// holds more tokens than the mean.
[[nodiscard]] Verdict verdict_of(double pressure, const Model& model, const Plan& plan);

}  // namespace foretrain
