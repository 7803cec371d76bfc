// How fast does the player run a step, what does folding cost, and what does it save?
//
//   foretrain_bench --benchmark_filter=gpipe
#include <benchmark/benchmark.h>

#include "sim/expansion.h"
#include "sim/fold.h"
#include "sim/player.h"
#include "sim/quotient.h"
#include "tests/bench/expansion_cases.h"
#include "tests/bench/peak.h"
#include "tests/bench/step_cases.h"

namespace foretrain::bench {
namespace {

/// A step, laid out.
struct LaidOut {
  Fabric fabric;
  Job job;
  SimulateOptions options;
  Expansion expansion;
};

LaidOut lay_out(const benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  LaidOut it{.fabric = servers_on_fat_tree(ranks), .job = gpipe_step(step_on(ranks)), .options = {}, .expansion = {}};
  it.expansion = expand(it.fabric, Transport{}, it.job, it.options);
  return it;
}

/// The player alone, every rank.
void play_each(benchmark::State& state) {
  const LaidOut it = lay_out(state);
  const Fold each = unfolded(it.job, it.expansion);
  double events = 0;
  double operations = 0;
  for (auto _ : state) {
    state.PauseTiming();
    Quotient all = quotient(it.job, it.expansion, each);
    state.ResumeTiming();
    const Measured m = Player(it.fabric, it.job, it.options, it.expansion, each, std::move(all)).play();
    events += static_cast<double>(m.engine.events);
    operations += static_cast<double>(m.engine.operations);
  }
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
  state.counters["operations/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
}

/// Refinement and quotient alone.
void fold_ranks(benchmark::State& state) {
  const LaidOut it = lay_out(state);
  for (auto _ : state) {
    const Fold classes = fold(it.job, it.expansion, true);
    benchmark::DoNotOptimize(quotient(it.job, it.expansion, classes));
    state.counters["rank_classes"] = static_cast<double>(classes.ranks.size());
  }
  state.counters["peak_MB"] = peak_megabytes();
}

/// The whole of `simulate`.
void gpipe(benchmark::State& state, bool fold) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const Fabric fabric = servers_on_fat_tree(ranks);
  const Job job = gpipe_step(step_on(ranks));
  for (auto _ : state) {
    const Measured m = simulate(fabric, Transport{}, job, {.fold = fold});
    state.counters["events"] = static_cast<double>(m.engine.events);
    state.counters["step_ms"] = m.step.seconds() * 1e3;
  }
}

void gpipe_folded(benchmark::State& state) { gpipe(state, true); }
void gpipe_each(benchmark::State& state) { gpipe(state, false); }

BENCHMARK(play_each)->Name("player")->Arg(16)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(fold_ranks)->Name("fold")->Arg(16)->Arg(1024)->Arg(16384)->Arg(65536)->Unit(benchmark::kMillisecond);
BENCHMARK(gpipe_folded)->Name("gpipe_folded")->Arg(16)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK(gpipe_each)->Name("gpipe_unfolded")->Arg(16)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrain::bench
