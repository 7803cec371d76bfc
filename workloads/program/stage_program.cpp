#include "workloads/program/stage_program.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "workloads/memory.h"
#include "workloads/memory/split_backward.h"
#include "workloads/program/data_parallel.h"
#include "workloads/program/layer_writer.h"
#include "workloads/program/pipeline.h"
#include "workloads/program/track.h"

namespace foretrain {
namespace {

/// One layer of a chunk's backward, and how many layers, it the last of them, are played again before it.
struct BackwardStep {
  std::int64_t layer = 0;  ///< within the chunk
  std::int64_t again = 0;
};

/// From the last layer to the first. With full recompute the inputs of groups of layers are kept (`uniform`), or those
/// of each of the first layers (`block`).
std::vector<BackwardStep> backward_steps(const Training& training, std::int64_t layers) {
  const bool uniform = training.recompute_method == RecomputeMethod::uniform;
  const std::int64_t group = uniform ? training.recompute_layers : 1;
  std::vector<BackwardStep> steps;
  for (std::int64_t l = layers; l-- > 0;) {
    const std::int64_t within = l % group;
    const bool last = within == group - 1 || l == layers - 1;
    steps.push_back({.layer = l, .again = last && recomputes_layer(training, l) ? within + 1 : 0});
  }
  return steps;
}

bool makes_input(const Action& a) { return a.pass != Pass::backward_weight; }

/// Writes the whole step of one pipeline rank.
class StageWriter {
 public:
  StageWriter(const StageInput& in, const ActionLists& lists, std::int64_t rank)
      : stage_{in, pipeline_shape(in.plan, in.training), rank},
        lists_(lists),
        track_(rate_share(in.gpu.contention)),
        layers_(stage_, track_),
        data_(stage_, track_, list()),
        pipe_message_(pipeline_message(in.model, in.plan, in.training)) {}

  Program write() && {
    take_states();
    data_.begin_step();
    post_receives();
    for (auto a = list().begin(); a != list().end(); ++a) {
      data_.begin(*a);
      if (a->with_next && a + 1 != list().end() && makes_block(*a, *(a + 1))) {
        data_.begin(*(a + 1));
        const bool forward_first = a->pass == Pass::forward;
        block(forward_first ? *a : *(a + 1), forward_first ? *(a + 1) : *a);
        ++a;
      } else {
        a->pass == Pass::forward ? forward(*a) : backward(*a);
      }
    }
    late_output_gradients();
    if (stage_.in.optimizer) end_of_step();
    take_throw_away_gradients(-1);
    return std::move(track_).finish();
  }

 private:
  [[nodiscard]] const std::vector<Action>& list() const { return lists_[static_cast<std::size_t>(stage_.rank)]; }

  // ---- forward ----

  void forward(const Action& a) {
    begin_forward(a);
    for (std::int64_t l = 0; l < stage_.layers_of(a.chunk); ++l) forward_layer(a, l);
    end_forward(a);
  }

  void begin_forward(const Action& a) {
    receive(a);
    track_.memory("activations", MemoryPart::activations, kept_by(a.chunk), Stage::place(a));
    if (!stage_.is_first(a.chunk)) return;
    data_.before_forward(a, Stage::unit_of_embedding);
    track_.compute(Work::compute, "F", stage_.in.cost.end.embedding.forward, Stage::place(a));
    reduce_over_tp(a);
    data_.after_forward(a, Stage::unit_of_embedding);
  }

  void forward_layer(const Action& a, std::int64_t l) {
    const std::size_t unit = stage_.unit_of_layer(a.chunk, l);
    data_.before_forward(a, unit);
    layers_.forward(Work::compute, "F", layer_place(a, l));
    data_.after_forward(a, unit);
  }

  void end_forward(const Action& a) {
    if (stage_.is_last(a.chunk)) {
      const std::size_t unit = stage_.unit_of_output(a.chunk);
      data_.before_forward(a, unit);
      output_forward(a);
      data_.after_forward(a, unit);
    }
    send("send F", a);
  }

  void output_forward(const Action& a) {
    const StageInput& in = stage_.in;
    const Bytes logits = loss_transient(in.model, in.plan, in.training);
    track_.memory("output", MemoryPart::activations, output_kept(), Stage::place(a));
    track_.memory("loss", MemoryPart::buffers, logits, Stage::place(a));
    compute_loss(a);
    for (std::int64_t k = 0; k < in.model.mtp_layers; ++k) {  // inputs joined, a layer, logits and loss of its own
      track_.compute(Work::compute, "F", in.cost.end.mtp.forward, Stage::place(a));
      layers_.forward(Work::compute, "F", Stage::place(a, in.model.layers + k));
      compute_loss(a);
    }
    track_.memory("loss", MemoryPart::buffers, -logits, Stage::place(a));
  }

  /// Logits are split by vocabulary; the loss needs three reductions of one number a token (maximum, own logit, sum).
  void compute_loss(const Action& a) {
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
    begin_backward(a);
    for (const BackwardStep& step : backward_steps(stage_.in.training, stage_.layers_of(a.chunk))) {
      before_layer_backward(a, step);
      layer_backward(a, layer_place(a, step.layer));
      data_.after_backward(a, stage_.unit_of_layer(a.chunk, step.layer));
    }
    end_backward(a);
  }

  void begin_backward(const Action& a) {
    receive(a);
    if (stage_.is_last(a.chunk)) {
      const std::size_t unit = stage_.unit_of_output(a.chunk);
      data_.before_backward(a, unit);
      if (makes_input(a)) output_backward(a);
      data_.after_backward(a, unit);
    }
    if (makes_input(a)) track_.memory("backward", MemoryPart::buffers, transient_of(a.chunk), Stage::place(a));
  }

  /// What a layer needs before its backward: gathered parameters; its kept group played again.
  void before_layer_backward(const Action& a, const BackwardStep& step) {
    data_.before_backward(a, stage_.unit_of_layer(a.chunk, step.layer));
    if (!makes_input(a)) return;
    for (std::int64_t l = step.layer + 1 - step.again; l <= step.layer; ++l)
      layers_.forward(Work::recompute, "recompute", layer_place(a, l));
  }

  void layer_backward(const Action& a, Place where) {
    if (a.pass == Pass::backward_input)
      layers_.backward_input(where);
    else if (a.pass == Pass::backward_weight)
      layers_.backward_weight(where);
    else
      layers_.backward(where);
  }

  void end_backward(const Action& a) {
    if (stage_.is_first(a.chunk)) {
      data_.before_backward(a, Stage::unit_of_embedding);
      if (makes_input(a)) {
        if (stage_.sequence_parallel()) layers_.exchange(Collective::all_gather, Stage::place(a));
        track_.compute(Work::compute, "B", stage_.in.cost.end.embedding.backward(), Stage::place(a));
      }
      data_.after_backward(a, Stage::unit_of_embedding);
    }
    send("send B", a);
    if (makes_input(a)) track_.memory("backward", MemoryPart::buffers, -transient_of(a.chunk), Stage::place(a));
    track_.memory("activations", MemoryPart::activations, -released_by(a), Stage::place(a));
  }

  /// The ends are not split: what waits for gradients of weights are layers.
  void output_backward(const Action& a) {
    const StageInput& in = stage_.in;
    const Bytes transient = output_backward_transient(in.model, in.plan, in.training);
    track_.memory("backward", MemoryPart::buffers, transient, Stage::place(a));
    for (std::int64_t k = in.model.mtp_layers; k-- > 0;) {
      logits_backward(a);
      const Place where = Stage::place(a, in.model.layers + k);
      if (recomputes_mtp(in.training)) layers_.forward(Work::recompute, "recompute", where);
      layers_.backward(where);
      track_.compute(Work::compute, "B", in.cost.end.mtp.backward(), Stage::place(a));
    }
    logits_backward(a);
    track_.memory("backward", MemoryPart::buffers, -transient, Stage::place(a));
    track_.memory("output", MemoryPart::activations, -output_kept(), Stage::place(a));
    if (has_late_output_gradient(in.plan, in.training))
      track_.memory("late gradient", MemoryPart::activations, (1 + in.model.mtp_layers) * late_operands(),
                    Stage::place(a));
  }

  void logits_backward(const Action& a) {
    const PartCost& output = stage_.in.cost.end.output;
    const bool late = has_late_output_gradient(stage_.in.plan, stage_.in.training);
    track_.compute(Work::compute, "B", late ? output.backward_input : output.backward(), Stage::place(a));
    reduce_over_tp(a);
    if (late) ++late_gradients_;
  }

  /// Of the output layer's weights, in the bubble behind the rank's last backward: the stages before still compute.
  void late_output_gradients() {
    for (; late_gradients_ > 0; --late_gradients_) {
      track_.compute(Work::compute, "W", stage_.in.cost.end.output.backward_weight, {});
      track_.memory("late gradient", MemoryPart::activations, -late_operands());
    }
  }

  // ---- a forward and a backward at once ----

  [[nodiscard]] static bool makes_block(const Action& a, const Action& b) {
    return (a.pass == Pass::forward && b.pass == Pass::backward) ||
           (a.pass == Pass::backward && b.pass == Pass::forward);
  }

  /// Layer by layer: the forward's first beside the backward's last. What one has more than the other runs alone.
  void block(const Action& f, const Action& b) {
    begin_forward(f);
    begin_backward(b);
    const std::vector<BackwardStep> steps = backward_steps(stage_.in.training, stage_.layers_of(b.chunk));
    const std::int64_t forwards = stage_.layers_of(f.chunk);
    const auto pairs = std::min(forwards, static_cast<std::int64_t>(steps.size()));
    for (std::int64_t l = 0; l < pairs; ++l) layer_block(f, l, b, steps[static_cast<std::size_t>(l)]);
    for (std::int64_t l = pairs; l < forwards; ++l) forward_layer(f, l);
    end_forward(f);
    for (auto step = steps.begin() + pairs; step != steps.end(); ++step) {
      before_layer_backward(b, *step);
      layers_.backward(layer_place(b, step->layer));
      data_.after_backward(b, stage_.unit_of_layer(b.chunk, step->layer));
    }
    end_backward(b);
  }

  void layer_block(const Action& f, std::int64_t l, const Action& b, const BackwardStep& step) {
    const std::size_t unit = stage_.unit_of_layer(f.chunk, l);
    data_.before_forward(f, unit);
    before_layer_backward(b, step);
    if (stage_.in.plan.overlap.ep) {
      layers_.forward_and_backward(layer_place(f, l), layer_place(b, step.layer));
    } else {
      layers_.forward(Work::compute, "F", layer_place(f, l));
      layers_.backward(layer_place(b, step.layer));
    }
    data_.after_forward(f, unit);
    data_.after_backward(b, stage_.unit_of_layer(b.chunk, step.layer));
  }

  [[nodiscard]] Place layer_place(const Action& a, std::int64_t l) const {
    return Stage::place(a, stage_.first_layer(a.chunk) + l);
  }

  // ---- communication ----

  /// Partial sums of a split by vocabulary.
  void reduce_over_tp(const Action& a) {
    if (!stage_.tensor_parallel()) return;
    layers_.exchange(stage_.sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, Stage::place(a));
  }

  /// Receives wait for nothing but their turn. The turns are those of the sender's list: where both ends order their
  /// messages differently, a receive ahead of its time would otherwise wait for one behind it.
  void post_receives() {
    for (std::int64_t from = 0; from < stage_.shape.ranks; ++from)
      for (const Action& sent : lists_[static_cast<std::size_t>(from)]) {
        const auto message = message_of(stage_.shape, from, sent);
        if (!message || message->to != stage_.rank) continue;
        Action here = sent;
        here.chunk = receiver_of(stage_.shape, from, sent)->chunk;
        const bool forward = sent.pass == Pass::forward;
        received_[key_of(here)] = track_.post(message->in, forward ? "recv F" : "recv B", Collective::send_recv,
                                              pipe_message_, Stage::place(here));
      }
  }

  struct Key {
    bool forward = false;
    std::int32_t chunk = 0, microbatch = 0;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const Action& a) { return {a.pass == Pass::forward, a.chunk, a.microbatch}; }

  void receive(const Action& a) {
    if (!makes_input(a)) return;
    const auto here = received_.find(key_of(a));
    if (here == received_.end()) return;
    track_.hold(here->second);
    if (stage_.tensor_parallel() && !stage_.sequence_parallel() && stage_.in.training.stack.scattered_messages)
      layers_.exchange(Collective::all_gather, Stage::place(a));
  }

  void send(std::string_view label, const Action& a) {
    const auto message = message_of(stage_.shape, stage_.rank, a);
    if (!message) return;
    const Event sent = track_.call(message->out, label, Collective::send_recv, pipe_message_, Stage::place(a));
    if (!stage_.in.plan.overlap.pp) track_.hold(sent);
  }

  // ---- end ----

  void end_of_step() {
    const StageInput& in = stage_.in;
    data_.finish_gradients();
    if (const Bytes whole = whole_gradients(); stage_.sequence_parallel() && whole > Bytes{})
      track_.hold(track_.call(Slot::tp, "norm gradients", Collective::all_reduce, whole, {}));
    if (shares_embedding())
      track_.hold(track_.call(
          Slot::embedding, "tied embedding", Collective::all_reduce,
          bytes(gradient_bytes(in.training) * padded_vocabulary(in.model, in.plan) / in.plan.tp * in.model.hidden),
          {}));
    if (in.plan.tp * in.plan.pp > 1)
      track_.hold(track_.call(Slot::model, "gradient norm", Collective::all_reduce, bytes(4), {}));
    const DataParallelWriter::Update update = data_.update();
    const Bytes temporaries = step_temporaries(all_parameters(), in.plan, in.training);
    track_.memory("update", MemoryPart::buffers, temporaries);
    const Duration time = optimizer_time(in.gpu, update.owned, update.held);
    track_.compute(Work::optimizer, "optimizer",
                   picoseconds(std::llround(static_cast<double>(time.ps()) * in.cost.slowdown)), {});
    track_.memory("update", MemoryPart::buffers, -temporaries);
    data_.after_update();
  }

  /// Of norms and what else is whole on every rank of a tensor-parallel group: with sequence parallelism each saw other
  /// tokens, so they are summed over it (Megatron-Core, `_allreduce_non_tensor_model_parallel_grads`).
  [[nodiscard]] Bytes whole_gradients() const {
    const Model& model = stage_.in.model;
    std::int64_t whole = 0;
    for (std::int32_t c = 0; c < stage_.chunks(); ++c) {
      for (std::int64_t l = 0; l < stage_.layers_of(c); ++l)
        whole += whole_layer_parameters(model, model.kind_of(stage_.first_layer(c) + l));
      if (stage_.is_last(c)) whole += model.norm_parameters(model.hidden);
    }
    return bytes(gradient_bytes(stage_.in.training) * whole);
  }
  /// The ends of the model lie on different ranks and hold a copy of one table each.
  [[nodiscard]] bool shares_embedding() const {
    if (!stage_.in.model.tied_embeddings || ends_on_one_rank(stage_.in.plan)) return false;
    const std::vector<std::int64_t> ends = end_holders(stage_.shape);
    return ends.size() > 1 && std::find(ends.begin(), ends.end(), stage_.rank) != ends.end();
  }

  // ---- memory ----

  [[nodiscard]] RankParameters all_parameters() const {
    RankParameters sum;
    for (std::int32_t c = 0; c < stage_.chunks(); ++c)
      sum += stage_rank_parameters(stage_.in.model, stage_.in.plan, stage_.stage_of(c));
    return sum;
  }
  void take_states() {
    const StageInput& in = stage_.in;
    const StateBytes states = state_bytes(all_parameters(), in.plan, in.training);
    track_.memory("parameters", MemoryPart::parameters, states.parameters);
    track_.memory("gradients", MemoryPart::gradients, states.gradients);
    track_.memory("optimizer", MemoryPart::optimizer, states.optimizer);
    take_throw_away_gradients(1);
  }
  /// They stay for the next step; one step by itself ends with its states, as it began.
  void take_throw_away_gradients(std::int64_t sign) {
    const StageInput& in = stage_.in;
    const Bytes held = throw_away_gradients(in.model, in.plan, in.training);
    track_.memory("throw-away gradients", MemoryPart::buffers, sign * held);
  }
  [[nodiscard]] ChunkSpan span_of(std::int32_t chunk) const {
    return chunk_span(stage_.in.layers, stage_.stage_of(chunk));
  }
  /// From forward to backward; the output's part comes and goes with the loss.
  [[nodiscard]] Bytes kept_by(std::int32_t chunk) const {
    const StageInput& in = stage_.in;
    const Bytes kept = chunk_activations(in.model, in.plan, in.training, span_of(chunk));
    return stage_.is_last(chunk) ? kept - output_kept() : kept;
  }
  [[nodiscard]] Bytes output_kept() const {
    const StageInput& in = stage_.in;
    return output_activations(in.model, in.plan, in.training) + mtp_activations(in.model, in.plan, in.training);
  }
  [[nodiscard]] Bytes late_operands() const {
    return waiting_for_output_gradient(stage_.in.model, stage_.in.plan, stage_.in.training);
  }
  /// Of what a chunk kept, the part that is free after `a`.
  [[nodiscard]] Bytes released_by(const Action& a) const {
    const StageInput& in = stage_.in;
    if (a.pass == Pass::backward) return kept_by(a.chunk);
    const Bytes waits = waiting_for_weight_gradients(in.model, in.plan, in.training, span_of(a.chunk));
    return a.pass == Pass::backward_input ? kept_by(a.chunk) - waits : waits;
  }
  [[nodiscard]] Bytes transient_of(std::int32_t chunk) const {
    return chunk_transient(stage_.in.model, stage_.in.plan, stage_.in.training, span_of(chunk));
  }

  Stage stage_;
  const ActionLists& lists_;
  Track track_;
  LayerWriter layers_;
  DataParallelWriter data_;
  Bytes pipe_message_;
  std::map<Key, Event> received_;
  int late_gradients_ = 0;  ///< of the output layer, to be computed behind the last backward
};

}  // namespace

Program stage_program(const StageInput& in, const ActionLists& lists, std::int64_t pipeline_rank) {
  return StageWriter(in, lists, pipeline_rank).write();
}

}  // namespace foretrain
