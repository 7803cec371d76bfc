// Published runs whose peak memory is known, as model, plan and training: what a row of training_runs.csv says, and
// what its family's software does where the row is silent.
#pragma once

#include <optional>

#include "tests/workloads/reference.h"
#include "workloads/memory.h"

namespace foretrain {

/// What a source read: PyTorch's allocated or reserved bytes, or those of the device (nvidia-smi).
enum class Reading : std::uint8_t { allocated, reserved, device };

struct PublishedRun {
  std::string id, family;
  Model model;
  Plan plan;
  Training training;
  Reading reading = Reading::allocated;
  double published = 0;               ///< bytes
  std::optional<std::int64_t> stage;  ///< whose peak it is; none: the fullest one's
  Bytes usable = gibibytes(79);       ///< of the GPU; most have 80 GB
};

/// Nothing for rows without a peak, a sequence length or a batch, and for architectures that we do not have.
[[nodiscard]] std::optional<PublishedRun> published_run(const ReferenceRow& row);

/// Runs of all rows, one for each distinct layout and figure: sources measured once and printed the figure for several
/// batch sizes.
[[nodiscard]] std::vector<PublishedRun> published_runs();

/// A run of BigScience's (Megatron-DeepSpeed of 2022): GPT of 250,000 words, 2,048 tokens, full recompute; `bf16` with
/// fp32 accumulation, else fp16.
[[nodiscard]] PublishedRun bigscience_run(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                                          const Plan& plan, std::int64_t microbatch, bool bf16);

/// The fullest stage's peak, or that of the run's stage.
[[nodiscard]] PeakMemory peak_of(const PublishedRun& run);
/// The bytes of `peak` that the run's source would have read.
[[nodiscard]] double read_as(const PublishedRun& run, const PeakMemory& peak);

}  // namespace foretrain
