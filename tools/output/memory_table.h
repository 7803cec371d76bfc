// What `foretrain memory` shows: the verdict, what weighs most, and a line a stage.
#pragma once

#include <string>

#include "scenarios/result.h"

namespace foretrain {

/// "fits, 8.03 GiB free", "AT RISK, 0.94 of the memory, 4.75 GiB free", "DOES NOT FIT, 1.41 of the memory, 32.4 GiB
/// over"
[[nodiscard]] std::string verdict_text(const MemoryResult& memory);

[[nodiscard]] std::string memory_text(const Result& result);

}  // namespace foretrain
