// The breakdown as a list, in the order of the result's schema: one place for JSON, summary and tests.
#pragma once

#include <array>
#include <string_view>

#include "scenarios/result.h"

namespace foretrain {

struct BreakdownPart {
  std::string_view key;   ///< of the JSON: "tp"
  std::string_view name;  ///< for people: "tensor parallel"
  double seconds = 0;
};
[[nodiscard]] std::array<BreakdownPart, 10> parts_of(const Breakdown& breakdown);

}  // namespace foretrain
