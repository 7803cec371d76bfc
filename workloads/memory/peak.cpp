#include "workloads/memory/peak.h"

#include <algorithm>

#include "workloads/memory/buffers.h"
#include "workloads/memory/overhead.h"
#include "workloads/memory/split_backward.h"
#include "workloads/memory/states.h"
#include "workloads/memory/transients.h"
#include "workloads/schedules/schedule.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// Walks a rank's schedule and keeps the largest sum it meets.
class Walk {
 public:
  Walk(const Model& model, const Plan& plan, const Training& training, std::int64_t rank)
      : model_(model), plan_(plan), training_(training), shape_(pipeline_shape(plan, training)) {
    const std::vector<std::int64_t> layers = layers_by_stage(model, plan);
    for (std::int32_t chunk = 0; chunk < shape_.chunks; ++chunk) {
      const std::int64_t stage = stage_of(shape_, rank, chunk);
      add_chunk(stage, chunk_span(layers, stage));
    }
    const StateBytes states = state_bytes(parameters_, plan, training);
    held_[MemoryPart::parameters] = states.parameters;
    held_[MemoryPart::gradients] = states.gradients;
    held_[MemoryPart::optimizer] = states.optimizer;
    held_[MemoryPart::buffers] += throw_away_gradients(model, plan, training);
  }

  PeakMemory peak(std::int64_t rank) && {
    for (const Action& a : actions(plan_.schedule, shape_, rank)) play(a);
    held_[MemoryPart::activations] -= late_;
    meet(PeakInstant::update, step_temporaries(parameters_, plan_, training_));
    peak_.parts[MemoryPart::overhead] = overhead_bytes(peak_.parts.total(), model_, plan_, training_);
    return peak_;
  }

 private:
  struct Chunk {
    ChunkSpan span;
    Bytes kept;            ///< from forward to backward, the output aside
    Bytes waiting;         ///< between the gradient of the input and those of the weights
    Bytes transient;       ///< of its layers' backward
    Bytes gathered;        ///< ZeRO 3 without pipeline: parameters of its layers while they are in use
    Bytes gathered_ahead;  ///< and those of the units prefetched, with the gradients of one
  };

  void add_chunk(std::int64_t stage, const ChunkSpan& span) {
    parameters_ += stage_rank_parameters(model_, plan_, stage);
    Chunk& chunk = chunks_.emplace_back(Chunk{.span = span,
                                              .kept = chunk_activations(model_, plan_, training_, span),
                                              .waiting = waiting_for_weight_gradients(model_, plan_, training_, span),
                                              .transient = chunk_transient(model_, plan_, training_, span),
                                              .gathered = {},
                                              .gathered_ahead = {}});
    if (span.is_last) chunk.kept -= output_kept();
    if (plan_.zero < 2) return;
    held_[MemoryPart::buffers] += pipelined_shard_bytes(model_, plan_, training_, stage);
    if (plan_.stages() > 1 && plan_.zero == 3) return;
    const auto summed = [&](const RankParameters& p) {  // whole gradients, from microbatch to microbatch
      const bool waits = plan_.gradient_sync == GradientSync::last && shape_.microbatches > 1;
      return waits ? bytes(gradient_bytes(training_) * p.total()) : Bytes{};
    };
    held_[MemoryPart::buffers] += summed(stage_rank_parameters(model_, plan_, stage));
    Bytes unit;
    Bytes all;
    for (std::int64_t l = 0; l < span.layers; ++l) {
      const LayerKind kind = model_.kind_of(span.first_layer + l);
      const Bytes one = plan_.zero < 3 ? Bytes{} : gathered_unit_bytes(model_, plan_, training_, kind);
      all += one;
      unit = std::max(unit, one);
      const Bytes made = unit_gradient_bytes(model_, plan_, training_, kind);
      chunk.gathered_ahead = std::max(chunk.gathered_ahead, made - summed(layer_rank_parameters(model_, plan_, kind)));
    }
    if (plan_.zero == 3) held_[MemoryPart::buffers] += gathered_ends_bytes(model_, plan_, training_, stage);
    const bool stays = !plan_.sharding.reshard_after_forward;
    chunk.gathered = stays ? all : unit;
    chunk.gathered_ahead += stays ? Bytes{} : std::min(plan_.sharding.prefetch, span.layers - 1) * unit;
  }

  [[nodiscard]] Bytes output_kept() const {
    return output_activations(model_, plan_, training_) + mtp_activations(model_, plan_, training_);
  }

  void forward(const Action& a) {
    const Chunk& c = chunks_[static_cast<std::size_t>(a.chunk)];
    held_[MemoryPart::activations] += c.kept;
    meet(PeakInstant::forward, c.gathered);
    if (!c.span.is_last) return;
    held_[MemoryPart::activations] += output_kept();
    meet(PeakInstant::loss, loss_transient(model_, plan_, training_) + c.gathered);
  }

  void play(const Action& a) {
    const Chunk& c = chunks_[static_cast<std::size_t>(a.chunk)];
    switch (a.pass) {
      case Pass::forward:
        forward(a);
        break;
      case Pass::backward:
        backward(c);
        held_[MemoryPart::activations] -= c.kept;
        break;
      case Pass::backward_input:
        backward(c);
        held_[MemoryPart::activations] += c.waiting - c.kept;
        break;
      case Pass::backward_weight:
        held_[MemoryPart::activations] -= c.waiting;
        break;
    }
  }

  void backward(const Chunk& c) {
    if (c.span.is_last) {
      meet(PeakInstant::output_backward, output_backward_transient(model_, plan_, training_) + c.gathered);
      held_[MemoryPart::activations] -= output_kept();
      if (has_late_output_gradient(plan_, training_)) wait_for_output_gradient();
    }
    meet(PeakInstant::backward, c.transient + c.gathered + c.gathered_ahead);
  }

  /// Of each of the output's logits.
  void wait_for_output_gradient() {
    const Bytes operands = (1 + model_.mtp_layers) * waiting_for_output_gradient(model_, plan_, training_);
    held_[MemoryPart::activations] += operands;
    late_ += operands;
  }

  /// `extra`: buffers on top of what is held.
  void meet(PeakInstant instant, Bytes extra) {
    MemoryParts now = held_;
    now[MemoryPart::buffers] += extra;
    if (now.total() > peak_.parts.total()) peak_ = {.parts = now, .instant = instant};
  }

  const Model& model_;
  const Plan& plan_;
  const Training& training_;
  PipelineShape shape_;
  std::vector<Chunk> chunks_;
  RankParameters parameters_;
  MemoryParts held_;
  Bytes late_;  ///< of that, what gradients of the output's weights wait for
  PeakMemory peak_;
};

}  // namespace

std::string_view to_text(PeakInstant instant) {
  switch (instant) {
    case PeakInstant::forward:
      return "forward";
    case PeakInstant::loss:
      return "loss";
    case PeakInstant::output_backward:
      return "backward of the output";
    case PeakInstant::backward:
      return "backward of a layer";
    case PeakInstant::update:
      return "optimizer step";
  }
  return "";
}

PeakMemory peak_memory(const Model& model, const Plan& plan, const Training& training, std::int64_t pipeline_rank) {
  return Walk(model, plan, training, pipeline_rank).peak(pipeline_rank);
}

}  // namespace foretrain
