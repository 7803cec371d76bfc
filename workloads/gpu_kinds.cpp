#include "workloads/gpu_kinds.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace foretrain {

void take_programs(Workload& workload, Workload other, const std::vector<bool>& theirs) {
  Job& job = workload.job;
  if (job.ranks.size() != other.job.ranks.size() || job.ranks.size() != theirs.size()) {
    throw std::invalid_argument("a job of other GPUs has other ranks");
  }
  const auto first = static_cast<std::uint32_t>(job.programs.size());
  std::move(other.job.programs.begin(), other.job.programs.end(), std::back_inserter(job.programs));
  for (std::size_t r = 0; r < theirs.size(); ++r) {
    if (theirs[r]) job.ranks[r].program = first + other.job.ranks[r].program;
  }
}

}  // namespace foretrain
