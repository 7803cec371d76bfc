// in_parallel: many independent things at the same time, with progress.
#pragma once

#include <cstddef>
#include <functional>

namespace foretrain {

/// Calls `run(i)` for every i below `count`, `jobs` at the same time (0, or more than there are cores: one a core).
/// `progress`, where there is one, is told the part done, by one thread at a time.
void in_parallel(std::size_t jobs, std::size_t count, const std::function<void(std::size_t)>& run,
                 const std::function<void(double)>& progress);

}  // namespace foretrain
