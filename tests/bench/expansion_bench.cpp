// How much CPU and memory does it take to lay out a large job: to build the fabric, route every ring and all-to-all,
// and reduce their links to resources?
//
//   foretrain_bench --benchmark_filter=expand_ecmp/32768
#include <benchmark/benchmark.h>

#include "tests/bench/expansion_cases.h"
#include "tests/bench/peak.h"

namespace foretrain::bench {
namespace {

void expand_job(benchmark::State& state, Routing routing) {
  const auto gpus = static_cast<std::uint32_t>(state.range(0));
  const Job job = expert_job(gpus);
  for (auto _ : state) {
    const Fabric fabric = servers_on_fat_tree(gpus);
    const Expanded expanded = expand_expert_job(fabric, job, routing);
    state.counters["calls"] = static_cast<double>(expanded.calls);
    state.counters["resources"] = static_cast<double>(expanded.resources);
    state.counters["peak_MB"] = peak_megabytes();
  }
}

void expand_ecmp(benchmark::State& state) { expand_job(state, Routing::ecmp); }
void expand_spread(benchmark::State& state) { expand_job(state, Routing::spread); }

BENCHMARK(expand_ecmp)->Name("expand_ecmp")->Arg(16)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);
BENCHMARK(expand_spread)->Name("expand_spread")->Arg(16)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrain::bench
