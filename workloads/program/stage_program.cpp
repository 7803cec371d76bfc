#include "workloads/program/stage_program.h"

#include "workloads/memory.h"
#include "workloads/program/data_parallel.h"
#include "workloads/program/layer_writer.h"
#include "workloads/program/track.h"

namespace foretrain {
namespace {

/// Writes the whole step of one pipeline rank.
class StageWriter {
 public:
  StageWriter(const StageInput& in, std::int64_t rank)
      : stage_{in, rank},
        layers_(stage_, track_),
        data_(stage_, track_),
        pipe_message_(pipeline_message(in.model, in.plan, in.training)) {}

  Program write() && {
    const StageInput& in = stage_.in;
    const PipelineShape shape{in.plan.pp, stage_.chunks(), microbatches(in.plan, in.training)};
    const auto list = actions(in.plan.schedule.kind, shape, stage_.rank);
    take_states();
    if (in.optimizer) data_.begin_step();
    for (const Action& a : list) last_backward_[chunk_index(a)] = a;  // the last one of each chunk stays
    for (const Action& a : list) a.pass == Pass::forward ? forward(a) : backward(a);
    if (in.optimizer) end_of_step();
    return std::move(track_).finish();
  }

 private:
  static std::size_t chunk_index(const Action& a) { return static_cast<std::size_t>(a.chunk); }

  // ---- forward ----

  void forward(const Action& a) {
    data_.before_forward(a.chunk);
    if (!stage_.is_first(a.chunk)) receive(Slot::forward_from_previous, "recv F", a);
    track_.memory("activations", MemoryPart::activations, kept_by(a.chunk), Stage::place(a));
    if (stage_.is_first(a.chunk)) embed(a);
    for (std::int64_t l = 0; l < stage_.layers_of(a.chunk); ++l)
      layers_.forward(Work::compute, "F", Stage::place(a, stage_.first_layer(a.chunk) + l));
    if (stage_.is_last(a.chunk))
      output_forward(a);
    else
      send(Slot::forward_to_next, "send F", a);
  }

  void embed(const Action& a) {
    track_.compute(Work::compute, "F", stage_.in.cost.end.embedding.forward, Stage::place(a));
    reduce_over_tp(a);
  }

  /// Logits are split by vocabulary; the loss needs three reductions of one number a token (maximum, own logit, sum).
  void output_forward(const Action& a) {
    if (stage_.sequence_parallel()) layers_.exchange(Collective::all_gather, Stage::place(a));
    track_.compute(Work::compute, "F", stage_.in.cost.end.output.forward, Stage::place(a));
    if (!stage_.tensor_parallel()) return;
    const Training& t = stage_.in.training;
    const Bytes a_number_a_token = bytes(4 * t.microbatch * t.sequence_length / stage_.in.plan.cp);
    for (int i = 0; i < 3; ++i)
      track_.hold(track_.call(Slot::tp, "loss all_reduce", Collective::all_reduce, a_number_a_token, Stage::place(a)));
  }

  // ---- backward ----

  void backward(const Action& a) {
    if (!stage_.is_last(a.chunk)) receive(Slot::backward_from_next, "recv B", a);
    const Bytes transient = transient_of(a.chunk);
    track_.memory("backward", MemoryPart::buffers, transient, Stage::place(a));
    if (stage_.is_last(a.chunk)) output_backward(a);
    const bool last = stage_.in.optimizer && a == last_backward_[chunk_index(a)];
    for (std::int64_t l = stage_.layers_of(a.chunk); l-- > 0;) {
      const Place where = Stage::place(a, stage_.first_layer(a.chunk) + l);
      if (stage_.in.training.recompute == Recompute::full) layers_.forward(Work::recompute, "recompute", where);
      layers_.backward(where);
      if (last) data_.after_layer_gradients(a.chunk);
    }
    if (stage_.is_first(a.chunk)) embedding_backward(a);
    if (last) data_.after_chunk_gradients(a.chunk);
    if (!stage_.is_first(a.chunk)) send(Slot::backward_to_previous, "send B", a);
    track_.memory("backward", MemoryPart::buffers, -transient, Stage::place(a));
    track_.memory("activations", MemoryPart::activations, -kept_by(a.chunk), Stage::place(a));
  }

  void output_backward(const Action& a) {
    track_.compute(Work::compute, "B", stage_.in.cost.end.output.backward(), Stage::place(a));
    reduce_over_tp(a);
  }

  void embedding_backward(const Action& a) {
    if (stage_.sequence_parallel()) layers_.exchange(Collective::all_gather, Stage::place(a));
    track_.compute(Work::compute, "B", stage_.in.cost.end.embedding.backward(), Stage::place(a));
  }

  // ---- communication ----

  /// Partial sums of a split by vocabulary.
  void reduce_over_tp(const Action& a) {
    if (!stage_.tensor_parallel()) return;
    layers_.exchange(stage_.sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, Stage::place(a));
  }

  void receive(Slot slot, std::string_view label, const Action& a) {
    track_.hold(track_.post(slot, label, Collective::send_recv, pipe_message_, Stage::place(a)));
    if (stage_.tensor_parallel() && !stage_.sequence_parallel())
      layers_.exchange(Collective::all_gather, Stage::place(a));
  }

  void send(Slot slot, std::string_view label, const Action& a) {
    const Event sent = track_.call(slot, label, Collective::send_recv, pipe_message_, Stage::place(a));
    if (!stage_.in.plan.overlap.pp) track_.hold(sent);
  }

  // ---- end ----

  void end_of_step() {
    const StageInput& in = stage_.in;
    data_.finish_gradients();
    if (stage_.sequence_parallel())  // every rank saw other tokens: norm gradients are summed over the group
      track_.hold(track_.call(Slot::tp, "norm gradients", Collective::all_reduce, norm_gradients(), {}));
    if (shares_embedding())
      track_.hold(track_.call(
          Slot::embedding, "tied embedding", Collective::all_reduce,
          bytes(gradient_bytes(in.training) * padded_vocabulary(in.model, in.plan) / in.plan.tp * in.model.hidden),
          {}));
    if (in.plan.tp * in.plan.pp > 1)
      track_.hold(track_.call(Slot::model, "gradient norm", Collective::all_reduce, bytes(4), {}));
    const std::int64_t held = all_parameters();
    const std::int64_t shards = in.plan.zero >= 1 ? in.plan.replicas() : 1;
    track_.compute(Work::optimizer, "optimizer", optimizer_time(in.gpu, (held + shards - 1) / shards, held), {});
    data_.after_update();
  }

  [[nodiscard]] Bytes norm_gradients() const {
    std::int64_t layers = 0;
    for (std::int32_t c = 0; c < stage_.chunks(); ++c) layers += stage_.layers_of(c);
    const std::int64_t vectors = stage_.in.model.norm == Norm::layernorm ? 2 : 1;
    return bytes(gradient_bytes(stage_.in.training) * 2 * vectors * layers * stage_.in.model.hidden);
  }
  [[nodiscard]] bool shares_embedding() const {
    const std::int64_t pp = stage_.in.plan.pp;
    return stage_.in.model.tied_embeddings && pp > 1 && (stage_.rank == 0 || stage_.rank == pp - 1);
  }

  // ---- memory ----

  [[nodiscard]] std::int64_t all_parameters() const {
    std::int64_t sum = 0;
    for (std::int32_t c = 0; c < stage_.chunks(); ++c)
      sum += stage_parameters(stage_.in.model, stage_.in.plan, stage_.stage_of(c));
    return sum;
  }
  void take_states() {
    const StateBytes states = state_bytes(all_parameters(), stage_.in.plan, stage_.in.training);
    track_.memory("parameters", MemoryPart::parameters, states.parameters);
    track_.memory("gradients", MemoryPart::gradients, states.gradients);
    track_.memory("optimizer", MemoryPart::optimizer, states.optimizer);
  }
  [[nodiscard]] Bytes kept_by(std::int32_t chunk) const {
    const StageInput& in = stage_.in;
    Bytes sum = layer_activations(in.model, in.plan, in.training) * stage_.layers_of(chunk);
    if (stage_.is_first(chunk)) sum += embedding_activations(in.model, in.plan, in.training);
    if (stage_.is_last(chunk)) sum += output_activations(in.model, in.plan, in.training);
    return sum;
  }
  [[nodiscard]] Bytes transient_of(std::int32_t chunk) const {
    const StageInput& in = stage_.in;
    if (stage_.layers_of(chunk) == 0) return {};
    return backward_transient(in.model, in.plan, in.training) + recompute_transient(in.model, in.plan, in.training);
  }

  Stage stage_;
  Track track_;
  LayerWriter layers_;
  DataParallelWriter data_;
  Bytes pipe_message_;
  std::vector<Action> last_backward_ = std::vector<Action>(static_cast<std::size_t>(stage_.chunks()));
};

}  // namespace

Program stage_program(const StageInput& in, std::int64_t pipeline_rank) {
  return StageWriter(in, pipeline_rank).write();
}

}  // namespace foretrain
