#include "tools/validate/in_parallel.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <mutex>

namespace foretrain {

void in_parallel(std::size_t jobs, std::size_t count, const std::function<void(std::size_t)>& run,
                 const std::function<void(double)>& progress) {
  std::mutex counting;
  std::size_t done = 0;
  const auto one = [&](std::size_t i) {
    run(i);
    const std::lock_guard<std::mutex> lock(counting);
    ++done;
    if (progress) progress(static_cast<double>(done) / static_cast<double>(count));
  };
  const int cores = tbb::info::default_concurrency();
  const int threads = jobs == 0 ? cores : static_cast<int>(std::min(jobs, static_cast<std::size_t>(cores)));
  tbb::task_arena(threads).execute([&] { tbb::parallel_for(std::size_t{0}, count, one); });
}

}  // namespace foretrain
