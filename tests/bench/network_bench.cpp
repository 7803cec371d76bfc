// How much CPU and memory does the fluid network take under heavy contention?
//
//   foretrain_bench --benchmark_filter=all_to_all/1024
#include <benchmark/benchmark.h>

#include "tests/bench/network_cases.h"
#include "tests/bench/peak.h"

namespace foretrain::bench {
namespace {

constexpr std::uint64_t seed = 1;

void report(benchmark::State& state, const FluidNetwork& network, const Outcome& outcome) {
  state.counters["flows"] = static_cast<double>(outcome.flows);
  state.counters["resolves"] = static_cast<double>(network.resolves());
  state.counters["rerated"] = static_cast<double>(network.rerated());
  state.counters["peak_MB"] = peak_megabytes();
}

/// From the routes to the network: reduce_links and the shapes.
void reduce(benchmark::State& state) {
  const Fabric fabric = fat_tree(static_cast<std::uint32_t>(state.range(0)));
  const Traffic traffic = all_to_all(fabric, megabyte, 1, seed);
  for (auto _ : state) {
    state.PauseTiming();
    Traffic copy = traffic;
    state.ResumeTiming();
    benchmark::DoNotOptimize(network_of(fabric, copy));
  }
}

void play_all_to_all(benchmark::State& state, double spread) {
  const Fabric fabric = fat_tree(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    Traffic traffic = all_to_all(fabric, megabyte, spread, seed);
    const auto network = network_of(fabric, traffic);
    state.ResumeTiming();
    report(state, *network, play_at_once(*network, traffic.bytes));
  }
}

void all_to_all_alike(benchmark::State& state) { play_all_to_all(state, 1); }
void all_to_all_uneven(benchmark::State& state) { play_all_to_all(state, 10); }  // the largest 100 times the smallest

void play_cycle(benchmark::State& state, double bytes, std::uint32_t steps) {
  const Fabric fabric = fat_tree(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    Traffic traffic = permutation(fabric, bytes, seed);
    const auto network = network_of(fabric, traffic);
    state.ResumeTiming();
    report(state, *network, play_ring(*network, traffic.bytes, steps));
  }
}

void cycle_once(benchmark::State& state) { play_cycle(state, 64 * megabyte, 1); }
/// An all-reduce of 1 GB.
void ring_at_random(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  play_cycle(state, 1000 * megabyte / n, 2 * (n - 1));
}

BENCHMARK(reduce)->Name("reduce")->Arg(16)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_alike)->Name("all_to_all")->Arg(16)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_uneven)->Name("all_to_all_uneven")->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(cycle_once)->Name("permutation")->Arg(16)->Arg(4096)->Arg(65536)->Unit(benchmark::kMillisecond);
BENCHMARK(ring_at_random)->Name("ring")->Arg(16)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrain::bench

BENCHMARK_MAIN();
