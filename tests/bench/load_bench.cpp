// What does it take before the first event: to read a scenario with all that it names, and to build its fabric?
//
//   foretrain_bench --benchmark_filter='load|fabric'
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "scenarios/scenario.h"

namespace foretrain::bench {
namespace {

/// Llama 3 8B, TP 2, from two servers to the size of Llama 3's own cluster.
Scenario load(std::int64_t gpus) {
  const std::string text = fmt::format(
      "model: llama3-8b\n"
      "cluster: {{use: h100-roce-clos, gpus: {0}}}\n"
      "training: {{sequence_length: 8192, global_batch: {0}}}\n"
      "parallelism: {{tp: 2, sequence_parallel: true, zero: 1}}\n",
      gpus);
  return parse_scenario(text, "bench.yaml", {}, std::filesystem::path(FORETRAIN_SOURCE_DIR) / "scenarios");
}

void load_scenario(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load(state.range(0)));
}

void make_fabric(benchmark::State& state) {
  const Scenario scenario = load(state.range(0));
  for (auto _ : state) {
    const Fabric fabric = build_fabric(scenario);
    state.counters["links"] = static_cast<double>(fabric.link_count());
  }
}

BENCHMARK(load_scenario)->Name("load")->Arg(16)->Arg(16384)->Unit(benchmark::kMillisecond);
BENCHMARK(make_fabric)->Name("fabric")->Arg(16)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrain::bench
