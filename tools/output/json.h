// The result as JSON, schema "foretrain.result/1", and its memory alone, schema "foretrain.memory/1".
#pragma once

#include <string>

#include "scenarios/result.h"

namespace foretrain {

/// Two-space indented, keys in the schema's order, a newline at the end. Only engine.wall_s and engine.peak_rss_bytes
/// differ between two runs of one scenario.
[[nodiscard]] std::string result_json(const Result& result);
/// What `foretrain memory --json` writes: the verdict, and the parts of every stage at its peak.
[[nodiscard]] std::string memory_json(const Result& result);

}  // namespace foretrain
