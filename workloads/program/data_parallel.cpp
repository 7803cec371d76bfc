#include "workloads/program/data_parallel.h"

#include "workloads/memory.h"

namespace foretrain {

DataParallelWriter::DataParallelWriter(const Stage& stage, Track& track) : stage_(stage), track_(track) {}

bool DataParallelWriter::gathers_ahead() const {
  return stage_.data_parallel() && stage_.in.plan.zero >= 1 && stage_.in.plan.overlap.dp;
}

bool DataParallelWriter::cuts_buckets(std::int32_t chunk) const {
  return stage_.in.plan.overlap.dp && stage_.rank == 0 && chunk == 0;
}

std::int64_t DataParallelWriter::parameters_of(std::int32_t chunk) const {
  return stage_parameters(stage_.in.model, stage_.in.plan, stage_.stage_of(chunk));
}

/// Parameters of one transformer layer on this rank: those of its chunk, evenly, the ends left to the rest.
std::int64_t DataParallelWriter::layer_share(std::int32_t chunk) const {
  const std::int64_t layers = stage_.layers_of(chunk);
  return layers == 0 ? 0 : (parameters_of(chunk) - end_parameters(chunk)) / layers;
}

std::int64_t DataParallelWriter::end_parameters(std::int32_t chunk) const {
  const bool first = stage_.is_first(chunk);
  const bool output = stage_.is_last(chunk) && !(first && stage_.in.model.tied_embeddings);
  const std::int64_t tables = (first ? 1 : 0) + (output ? 1 : 0);
  return tables * padded_vocabulary(stage_.in.model, stage_.in.plan) / stage_.in.plan.tp * stage_.in.model.hidden;
}

Bytes DataParallelWriter::parameter_message(std::int32_t chunk) const {
  return bytes(activation_bytes(stage_.in.training.precision) * parameters_of(chunk));
}

void DataParallelWriter::reduce(std::int64_t parameters, std::int32_t chunk) {
  if (!stage_.data_parallel() || parameters == 0) return;
  const Collective op = stage_.in.plan.zero >= 1 ? Collective::reduce_scatter : Collective::all_reduce;
  const Bytes size = bytes(gradient_bytes(stage_.in.training) * parameters);
  reductions_.push_back(track_.call(Slot::dp, "gradients", op, size, Stage::place(chunk)));
}

void DataParallelWriter::begin_step() {
  if (!gathers_ahead()) return;
  for (std::int32_t chunk = 0; chunk < stage_.chunks(); ++chunk) {
    const Bytes size = parameter_message(chunk);
    if (size == Bytes{}) continue;
    gathers_.push_back({chunk, track_.post(Slot::dp, "parameters", Collective::all_gather, size, Stage::place(chunk))});
  }
}

void DataParallelWriter::before_forward(std::int32_t chunk) {
  std::erase_if(gathers_, [&](const Gather& g) {
    if (g.chunk == chunk) track_.hold(g.done);
    return g.chunk == chunk;
  });
}

void DataParallelWriter::after_layer_gradients(std::int32_t chunk) {
  pending_ += layer_share(chunk);
  if (!cuts_buckets(chunk) || pending_ < stage_.in.plan.bucket_parameters) return;
  reduce(pending_, chunk);
  reduced_ += pending_;
  pending_ = 0;
}

void DataParallelWriter::after_chunk_gradients(std::int32_t chunk) {
  const std::int64_t rest = parameters_of(chunk) - reduced_;
  reduced_ = 0;
  pending_ = 0;
  if (stage_.in.plan.overlap.dp)
    reduce(rest, chunk);
  else
    late_.emplace_back(rest, chunk);
}

void DataParallelWriter::finish_gradients() {
  for (const auto& [parameters, chunk] : late_) reduce(parameters, chunk);
  for (const Event e : reductions_) track_.hold(e);
}

void DataParallelWriter::after_update() {
  if (!stage_.data_parallel() || stage_.in.plan.zero == 0 || stage_.in.plan.overlap.dp) return;
  for (std::int32_t chunk = 0; chunk < stage_.chunks(); ++chunk) {
    const Bytes size = parameter_message(chunk);
    if (size == Bytes{}) continue;
    track_.hold(track_.call(Slot::dp, "parameters", Collective::all_gather, size, Stage::place(chunk)));
  }
}

}  // namespace foretrain
