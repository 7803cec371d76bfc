// Memory of a benchmark.
#pragma once

#include <sys/resource.h>

namespace foretrain::bench {

inline constexpr double megabyte = 1e6;

/// Peak of the process: run one case at a time to read it.
inline double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / megabyte;  // Linux counts in KiB
}

}  // namespace foretrain::bench
