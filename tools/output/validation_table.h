// A validation as text for people, as CSV, and as JSON of the schema in docs/validation.md.
#pragma once

#include <string>

#include "tools/validate/validation.h"

namespace foretrain {

/// A line a row, those furthest off, why rows were skipped, and the summaries.
[[nodiscard]] std::string validation_text(const Validation& validation);
[[nodiscard]] std::string validation_csv(const Validation& validation);
[[nodiscard]] std::string validation_json(const Validation& validation);

}  // namespace foretrain
