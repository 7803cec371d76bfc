// What does one ring all-reduce of 1 GiB cost, as one fluid transfer and as its single sends?
//
//   foretrain_bench --benchmark_filter=ring_all_reduce
#include <benchmark/benchmark.h>

#include "tests/bench/network_cases.h"
#include "tests/bench/peak.h"
#include "tests/bench/ring_cases.h"

namespace foretrain::bench {
namespace {

void ring_all_reduce(benchmark::State& state, Fidelity fidelity) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const Fabric fabric = fat_tree(ranks);
  const Job job = one_all_reduce(ranks, gibibytes(1));
  for (auto _ : state) {
    const Measured m = play_ring_all_reduce(fabric, job, fidelity);
    state.counters["sends"] = static_cast<double>(m.engine.sends);
    state.counters["call_ms"] = m.step.seconds() * 1e3;
  }
  state.counters["peak_MB"] = peak_megabytes();
}

void in_fluid(benchmark::State& state) { ring_all_reduce(state, Fidelity::fluid); }
void in_flows(benchmark::State& state) { ring_all_reduce(state, Fidelity::flows); }

BENCHMARK(in_fluid)->Name("ring_all_reduce_fluid")->Arg(16)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK(in_flows)->Name("ring_all_reduce_flows")->Arg(16)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrain::bench
