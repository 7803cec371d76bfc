// The result on one screen: at most 40 lines of 100 columns. The answer first, then where the time goes, memory,
// communication, links, and how it was played.
#pragma once

#include <string>

#include "scenarios/result.h"
#include "tools/console.h"

namespace foretrain {

inline constexpr std::size_t summary_lines_max = 40;
inline constexpr std::size_t summary_columns_max = 100;

[[nodiscard]] std::string summary(const Result& result, const Look& look);

}  // namespace foretrain
