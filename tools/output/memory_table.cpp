#include "tools/output/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/output/human.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

std::string human(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(gibibytes(1).count()));
}

/// "activations 42.6 GiB (59.9 %), gradients 11.9 GiB (16.7 %), overhead 9.00 GiB (12.7 %)"
std::string largest_parts(const MemoryResult& memory) {
  constexpr std::size_t most = 3;
  std::vector<MemoryPart> parts(std::begin(all_memory_parts), std::end(all_memory_parts));
  const auto size = [&](MemoryPart part) { return memory.parts_bytes.at(static_cast<std::size_t>(part)); };
  std::stable_sort(parts.begin(), parts.end(), [&](MemoryPart a, MemoryPart b) { return size(a) > size(b); });
  std::string text;
  for (std::size_t i = 0; i < most && size(parts[i]) > 0; ++i) {
    const double share = static_cast<double>(size(parts[i])) / static_cast<double>(memory.peak_bytes);
    text +=
        fmt::format("{}{} {} ({})", i == 0 ? "" : ", ", to_text(parts[i]), human(size(parts[i])), human_percent(share));
  }
  return text;
}

/// What the figures rest on where a scenario need not say it.
std::string assumptions(const Scenario& s) {
  std::string text = fmt::format("stack {}, {} loss, {} gradients, {} attention, ZeRO {}, recompute {}",
                                 s.training.stack.name, to_text(s.training.loss), to_text(s.training.gradients),
                                 to_text(s.training.attention), s.plan.zero, to_text(s.training.recompute));
  if (s.model.experts && s.plan.expert_capacity == 0)
    text += fmt::format(", dropless experts at {:.2f} of the mean load", expert_load(s.plan));
  return text;
}

std::string meaning_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "1 of 100 published runs that were predicted as free of risk went out of memory";
    case Verdict::at_risk:
      return "within the error of the prediction: measure before relying on it";
    case Verdict::does_not_fit:
      return "no published run that was predicted as this full has run";
  }
  return "";
}

}  // namespace

std::string verdict_text(const MemoryResult& m) {
  const std::int64_t free = m.capacity_bytes - m.peak_bytes;
  std::string gap = free >= 0 ? human(free) + " free" : human(-free) + " over";
  switch (m.verdict) {
    case Verdict::fits:
      return "fits, " + gap;
    case Verdict::at_risk:
      return fmt::format("AT RISK ({:.0f} %), {}", 100 * m.pressure, gap);
    case Verdict::does_not_fit:
      return fmt::format("DOES NOT FIT ({:.0f} %), {}", 100 * m.pressure, gap);
  }
  return gap;
}

std::string memory_text(const Result& r) {
  const Scenario& s = r.scenario;
  const MemoryResult& m = r.memory;
  std::string text = fmt::format("{} on {} x {}: {}\n", s.name, grouped(s.gpus), s.cluster.gpu.name, verdict_text(m));
  text += fmt::format("  peak {} of {} on stage {} at {} of the step\n", human(m.peak_bytes), human(m.capacity_bytes),
                      m.peak_stage, human_seconds(m.peak_at_s));
  text += fmt::format("  largest: {}\n", largest_parts(m));
  text += fmt::format("  {}\n", meaning_of(m.verdict));
  text += fmt::format("  assumed: {}\n\n", assumptions(s));
  text += fmt::format("{:<8}{:>7}", "GiB", "layers");
  for (const MemoryPart part : all_memory_parts) text += fmt::format("{:>12}", to_text(part));
  text += fmt::format("{:>8}{:>8}{:>12}\n", "peak", "margin", "at");
  for (const StageResult& stage : r.stages) {
    text += fmt::format("{:<8}{:>7}", fmt::format("stage {}", stage.stage), stage.layers);
    for (const std::int64_t part : stage.parts_bytes) text += fmt::format("{:>12}", gib(part));
    text += fmt::format("{:>8}{:>8}{:>12}\n", gib(stage.peak_memory_bytes),
                        gib(m.capacity_bytes - stage.peak_memory_bytes), human_seconds(stage.peak_at_s));
  }
  return text;
}

}  // namespace foretrain
