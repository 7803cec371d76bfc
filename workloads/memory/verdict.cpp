#include "workloads/memory/verdict.h"

namespace foretrain {

std::string_view to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::at_risk:
      return "at_risk";
    case Verdict::does_not_fit:
      return "does_not_fit";
  }
  return "";
}

double memory_pressure(Bytes peak, Bytes usable) { return peak / usable; }

Verdict verdict_of(double pressure, const Model& model, const Plan& plan) {
  // Published over predicted: 5 % of the rows lie below 0.93, 5 % above 1.08.
  const bool dropless = model.experts.has_value() && plan.expert_capacity == 0;
  const double fits = dropless ? 0.8 : 0.85;
  constexpr double at_risk = 1.075;
  if (pressure <= fits) return Verdict::fits;
  return pressure <= at_risk ? Verdict::at_risk : Verdict::does_not_fit;
}

}  // namespace foretrain
