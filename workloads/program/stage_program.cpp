#include "workloads/program/stage_program.h"

#include <algorithm>
#include <map>

#include "workloads/memory.h"
#include "workloads/program/data_parallel.h"
#include "workloads/program/layer_writer.h"
#include "workloads/program/pipeline.h"
#include "workloads/program/track.h"

namespace foretrain {
namespace {

/// Layers of a chunk whose inputs are kept as one, and whether the rest of them is made again in backward.
struct KeptGroup {
  std::int64_t first = 0, count = 0;  ///< within the chunk
  bool again = false;
};

std::vector<KeptGroup> kept_groups(const Training& training, std::int64_t layers) {
  const bool full = training.recompute == Recompute::full;
  const bool uniform = full && training.recompute_method == RecomputeMethod::uniform;
  std::vector<KeptGroup> groups;
  for (std::int64_t l = 0; l < layers; l += groups.back().count)
    groups.push_back({.first = l,
                      .count = uniform ? std::min(training.recompute_layers, layers - l) : 1,
                      .again = uniform || (full && l < training.recompute_layers)});
  return groups;
}

bool makes_input(const Action& a) { return a.pass != Pass::backward_weight; }
bool makes_weights(const Action& a) { return a.pass != Pass::backward_input; }

/// Writes the whole step of one pipeline rank.
class StageWriter {
 public:
  StageWriter(const StageInput& in, const ActionLists& lists, std::int64_t rank)
      : stage_{in, pipeline_shape(in.plan, in.training), rank},
        lists_(lists),
        layers_(stage_, track_),
        data_(stage_, track_, list()),
        pipe_message_(pipeline_message(in.model, in.plan, in.training)) {}

  Program write() && {
    take_states();
    data_.begin_step();
    post_receives();
    for (const Action& a : list()) {
      data_.begin(a);
      a.pass == Pass::forward ? forward(a) : backward(a);
    }
    if (stage_.in.optimizer) end_of_step();
    return std::move(track_).finish();
  }

 private:
  [[nodiscard]] const std::vector<Action>& list() const { return lists_[static_cast<std::size_t>(stage_.rank)]; }

  // ---- forward ----

  void forward(const Action& a) {
    receive(a);
    track_.memory("activations", MemoryPart::activations, kept_by(a.chunk), Stage::place(a));
    if (stage_.is_first(a.chunk)) {
      data_.before_forward(a, Stage::unit_of_embedding);
      embed(a);
      data_.after_forward(a, Stage::unit_of_embedding);
    }
    for (std::int64_t l = 0; l < stage_.layers_of(a.chunk); ++l) {
      const std::size_t unit = stage_.unit_of_layer(a.chunk, l);
      data_.before_forward(a, unit);
      layers_.forward(Work::compute, "F", Stage::place(a, stage_.first_layer(a.chunk) + l));
      data_.after_forward(a, unit);
    }
    if (stage_.is_last(a.chunk)) {
      const std::size_t unit = stage_.unit_of_output(a.chunk);
      data_.before_forward(a, unit);
      output_forward(a);
      for (std::int64_t k = 0; k < stage_.in.model.mtp_layers; ++k) further_forward(a, k);
      data_.after_forward(a, unit);
    }
    send("send F", a);
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

  /// Module k of multi-token prediction: its inputs joined, a layer, and logits and loss of its own.
  void further_forward(const Action& a, std::int64_t k) {
    track_.compute(Work::compute, "F", stage_.in.cost.end.mtp.forward, Stage::place(a));
    layers_.forward(Work::compute, "F", Stage::place(a, stage_.in.model.layers + k));
    output_forward(a);
  }

  // ---- backward ----

  void backward(const Action& a) {
    receive(a);
    const Bytes transient = transient_of(a.chunk);
    track_.memory("backward", MemoryPart::buffers, transient, Stage::place(a));
    if (stage_.is_last(a.chunk)) {
      const std::size_t unit = stage_.unit_of_output(a.chunk);
      data_.before_backward(a, unit);
      for (std::int64_t k = stage_.in.model.mtp_layers; k-- > 0;) further_backward(a, k);
      output_backward(a);
      data_.after_backward(a, unit);
    }
    const std::vector<KeptGroup> groups = kept_groups(stage_.in.training, stage_.layers_of(a.chunk));
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) backward(a, *group);
    if (stage_.is_first(a.chunk)) {
      data_.before_backward(a, Stage::unit_of_embedding);
      if (makes_weights(a)) embedding_backward(a);
      data_.after_backward(a, Stage::unit_of_embedding);
    }
    send("send B", a);
    track_.memory("backward", MemoryPart::buffers, -transient, Stage::place(a));
    if (makes_weights(a)) track_.memory("activations", MemoryPart::activations, -kept_by(a.chunk), Stage::place(a));
  }

  void backward(const Action& a, const KeptGroup& group) {
    const std::int64_t first = stage_.first_layer(a.chunk) + group.first;
    for (std::int64_t l = group.count; l-- > 0;) {
      const std::size_t unit = stage_.unit_of_layer(a.chunk, group.first + l);
      data_.before_backward(a, unit);
      if (group.again && makes_input(a) && l + 1 == group.count)
        for (std::int64_t again = 0; again < group.count; ++again)
          layers_.forward(Work::recompute, "recompute", Stage::place(a, first + again));
      layer_backward(a, Stage::place(a, first + l));
      data_.after_backward(a, unit);
    }
  }

  void layer_backward(const Action& a, Place where) {
    switch (a.pass) {
      case Pass::backward_input:
        layers_.backward_input(where);
        break;
      case Pass::backward_weight:
        layers_.backward_weight(where);
        break;
      case Pass::backward:
      case Pass::forward:
        layers_.backward(where);
        break;
    }
  }

  /// The part of a backward that `a` plays.
  [[nodiscard]] static Duration backward_of(const Action& a, const PartCost& part) {
    return (makes_input(a) ? part.backward_input : Duration{}) + (makes_weights(a) ? part.backward_weight : Duration{});
  }

  void further_backward(const Action& a, std::int64_t k) {
    output_backward(a);
    layer_backward(a, Stage::place(a, stage_.in.model.layers + k));
    track_.compute(Work::compute, "B", backward_of(a, stage_.in.cost.end.mtp), Stage::place(a));
  }

  void output_backward(const Action& a) {
    track_.compute(Work::compute, "B", backward_of(a, stage_.in.cost.end.output), Stage::place(a));
    if (makes_input(a)) reduce_over_tp(a);
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
    if (stage_.tensor_parallel() && !stage_.sequence_parallel())
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
    if (stage_.sequence_parallel())  // every rank saw other tokens: norm gradients are summed over the group
      track_.hold(track_.call(Slot::tp, "norm gradients", Collective::all_reduce, norm_gradients(), {}));
    if (shares_embedding())
      track_.hold(track_.call(
          Slot::embedding, "tied embedding", Collective::all_reduce,
          bytes(gradient_bytes(in.training) * padded_vocabulary(in.model, in.plan) / in.plan.tp * in.model.hidden),
          {}));
    if (in.plan.tp * in.plan.pp > 1)
      track_.hold(track_.call(Slot::model, "gradient norm", Collective::all_reduce, bytes(4), {}));
    const DataParallelWriter::Update update = data_.update();
    track_.compute(Work::optimizer, "optimizer", optimizer_time(in.gpu, update.owned, update.held), {});
    data_.after_update();
  }

  [[nodiscard]] Bytes norm_gradients() const {
    std::int64_t layers = 0;
    for (std::int32_t c = 0; c < stage_.chunks(); ++c) layers += stage_.layers_of(c);
    const std::int64_t vectors = stage_.in.model.norm == Norm::layernorm ? 2 : 1;
    return bytes(gradient_bytes(stage_.in.training) * 2 * vectors * layers * stage_.in.model.hidden);
  }
  /// The ends of the model lie on different ranks and hold a copy of one table each.
  [[nodiscard]] bool shares_embedding() const {
    if (!stage_.in.model.tied_embeddings) return false;
    const std::vector<std::int64_t> ends = end_holders(stage_.shape);
    return ends.size() > 1 && std::find(ends.begin(), ends.end(), stage_.rank) != ends.end();
  }

  // ---- memory ----

  void take_states() {
    const StageInput& in = stage_.in;
    std::int64_t parameters = 0;
    for (std::int32_t c = 0; c < stage_.chunks(); ++c)
      parameters += stage_parameters(in.model, in.plan, stage_.stage_of(c));
    const StateBytes states = state_bytes(parameters, in.plan, in.training);
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
  const ActionLists& lists_;
  Track track_;
  LayerWriter layers_;
  DataParallelWriter data_;
  Bytes pipe_message_;
  std::map<Key, Event> received_;
};

}  // namespace

Program stage_program(const StageInput& in, const ActionLists& lists, std::int64_t pipeline_rank) {
  return StageWriter(in, lists, pipeline_rank).write();
}

}  // namespace foretrain
