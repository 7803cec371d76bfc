#include "scenarios/published/predict.h"

#include <fmt/format.h>

#include "scenarios/result.h"

namespace foretrain {
namespace {

/// Seconds that the published rate of a step's FLOPs means; 0 where none is published, or with recomputation counted.
double step_from_flops(const PublishedRun& run, const Scenario& s) {
  const std::optional<double> mfu = run.number("mfu_pct");
  const std::optional<double> tflops = run.number("tflops_per_gpu");
  const double rate = tflops ? *tflops * 1e12 : mfu.value_or(0) / 100 * s.cluster.gpu.peak.per_second();
  if (rate <= 0 || !run.text("flops_convention").starts_with("model")) return 0;
  const double flops =
      step_flops(s.model, s.training.sequence_length, s.training.global_batch, s.training.attention_flops);
  return flops / (rate * static_cast<double>(s.gpus));
}

double published_step(const PublishedRun& run, const Scenario& s) {
  if (const auto step = run.number("step_time_s")) return *step;
  const double tokens = static_cast<double>(s.training.global_batch) * static_cast<double>(s.training.sequence_length);
  if (const auto rate = run.number("tokens_per_s_per_gpu")) return tokens / (*rate * static_cast<double>(s.gpus));
  return step_from_flops(run, s);
}

double read_memory(const PartBytes& parts, MemoryReading reading, const Training& training) {
  std::int64_t all = 0;
  for (const std::int64_t part : parts) all += part;
  if (reading == MemoryReading::device) return static_cast<double>(all);
  const Bytes allocated = bytes(all - parts[static_cast<std::size_t>(MemoryPart::overhead)]);
  const Bytes slack = reading == MemoryReading::reserved ? allocator_slack(allocated, training) : Bytes{};
  return static_cast<double>((allocated + slack).count());
}

}  // namespace

PublishedCase case_of(const PublishedRun& run, const PublishedRules& rules, const std::vector<std::string>& sets,
                      const std::filesystem::path& catalogue) {
  PublishedCase c{.published = scenario_of(run, rules), .scenario = {}, .memory_bytes = {}};
  if (!c.published.skipped.empty()) return c;
  try {
    c.scenario = parse_scenario(c.published.yaml, run.id(), sets, catalogue);
  } catch (const InputError& error) {
    c.published.skipped = fmt::format("no legal scenario: {}", error.what());
    return c;
  }
  c.step_s = published_step(c.published.run, *c.scenario);
  if (c.step_s <= 0) {
    c.published.skipped = "missing step time";
    c.scenario.reset();
  }
  const auto memory = run.number("mem_gb");
  if (memory && c.published.memory) c.memory_bytes = *memory * c.published.memory->unit;
  return c;
}

Prediction predict(const PublishedCase& of) {
  const Result result = rehearse(*of.scenario);
  Prediction p{.step_s = result.step_time_s, .memory_bytes = {}};
  if (!of.memory_bytes) return p;
  const PublishedMemory& reading = *of.published.memory;
  const std::int64_t fullest = result.memory.peak_stage;
  const std::int64_t stage = std::min(reading.stage.value_or(fullest), of.scenario->plan.pp - 1);
  const PartBytes& parts =
      stage == fullest ? result.memory.parts_bytes : result.stages[static_cast<std::size_t>(stage)].parts_bytes;
  p.memory_bytes = read_memory(parts, reading.reading, of.scenario->training);
  return p;
}

}  // namespace foretrain
