// Message sizes as nccl-tests writes them: "8", "1K", "64M", "1G", powers of 1024; and as all of ours: "64MiB".
#pragma once

#include <string_view>

#include "topology/units.h"

namespace foretrain {

/// Requires a positive whole number of bytes; the error is one sentence.
[[nodiscard]] Parsed<Bytes> parse_size(std::string_view text);

}  // namespace foretrain
