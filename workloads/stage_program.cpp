#include "workloads/stage_program.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace foretrain {
namespace {

template <class Enum>
constexpr std::uint8_t number(Enum e) {
  return static_cast<std::uint8_t>(e);
}
constexpr std::uint16_t number(Slot slot) { return static_cast<std::uint16_t>(slot); }

/// Appends to one program. Consecutive compute of one kind becomes one operation: what stands between two
/// communications is one block of kernels on the GPU too.
class Track {
 public:
  Track()
      : tp_(builder_.stream("tp")),
        dp_(builder_.stream("dp")),
        forward_out_(builder_.stream("pp forward out")),
        forward_in_(builder_.stream("pp forward in")),
        backward_out_(builder_.stream("pp backward out")),
        backward_in_(builder_.stream("pp backward in")) {}

  void compute(Work work, std::string_view label, Duration duration, Place place) {
    if (duration == Duration{}) return;
    if (pending_ > Duration{} && (work != work_ || label != label_)) flush();
    work_ = work;
    label_ = label;
    place_ = place;
    pending_ += duration;
  }
  /// The next compute starts only after `e`; what is pending belongs before it.
  void hold(Event e) {
    flush();
    holds_.push_back(e);
  }
  /// A communication that starts when all compute so far has ended.
  Event call(Slot slot, std::string_view label, Collective op, Bytes size, Place place) {
    std::vector<Event> after = after_now();
    return builder_.communicate(stream_of(slot), {label, op, size, number(slot), place, after});
  }
  /// One that waits for nothing but its turn on its stream.
  Event post(Slot slot, std::string_view label, Collective op, Bytes size, Place place) {
    return builder_.communicate(stream_of(slot), {label, op, size, number(slot), place, {}});
  }
  void memory(std::string_view label, MemoryPart part, Bytes change, Place place = {}) {
    if (change == Bytes{}) return;
    flush();
    builder_.memory({label, change, number(part), place});
  }
  [[nodiscard]] Program finish() && {
    flush();
    if (!holds_.empty())
      builder_.compute(main_stream, {.label = "end", .duration = {}, .activity = number(Work::other), .after = holds_});
    return std::move(builder_).build();
  }

 private:
  void flush() {
    if (pending_ == Duration{}) return;
    last_ = builder_.compute(main_stream, {label_, pending_, number(work_), place_, holds_});
    holds_.clear();
    pending_ = {};
  }
  /// What a call of now must wait for: the last compute, and whatever the next compute would have waited for.
  std::vector<Event> after_now() {
    flush();
    std::vector<Event> after = holds_;
    if (last_) after.push_back(*last_);
    return after;
  }
  [[nodiscard]] StreamId stream_of(Slot slot) const {
    switch (slot) {
      case Slot::tp:
        return tp_;
      case Slot::dp:
        return dp_;
      case Slot::forward_out:
        return forward_out_;
      case Slot::forward_in:
        return forward_in_;
      case Slot::backward_out:
        return backward_out_;
      case Slot::backward_in:
        return backward_in_;
      case Slot::embedding:
      case Slot::model:
        return dp_;
    }
    return dp_;
  }

  ProgramBuilder builder_;
  StreamId tp_, dp_, forward_out_, forward_in_, backward_out_, backward_in_;
  std::vector<Event> holds_;
  std::optional<Event> last_;
  Duration pending_;
  Work work_{};
  std::string_view label_;
  Place place_;
};

/// Writes the whole step of one pipeline rank.
class StageWriter {
 public:
  StageWriter(const StageInput& in, std::int64_t rank)
      : in_(in),
        rank_(rank),
        message_(activation_message(in.model, in.plan, in.training)),
        pipe_message_(pipeline_message(in.model, in.plan, in.training)) {}

  Program write() && {
    const PipelineShape shape{in_.plan.pp, in_.plan.schedule.virtual_stages, microbatches(in_.plan, in_.training)};
    const auto list = actions(in_.plan.schedule.kind, shape, rank_);
    take_states();
    if (in_.optimizer && gathers_ahead()) gather_parameters(true);
    for (const Action& a : list) last_backward_[chunk_index(a)] = a;  // the last one of each chunk stays
    for (const Action& a : list) a.pass == Pass::forward ? forward(a) : backward(a);
    if (in_.optimizer) end_of_step();
    return std::move(track_).finish();
  }

 private:
  using Blocks = std::pair<const LayerCost::Block*, std::string_view>;

  static std::size_t chunk_index(const Action& a) { return static_cast<std::size_t>(a.chunk); }
  [[nodiscard]] std::int64_t stage_of(std::int32_t chunk) const { return chunk * in_.plan.pp + rank_; }
  [[nodiscard]] std::int64_t layers_of(std::int32_t chunk) const {
    return in_.layers[static_cast<std::size_t>(stage_of(chunk))];
  }
  [[nodiscard]] std::int64_t first_layer(std::int32_t chunk) const {
    return std::accumulate(in_.layers.begin(), in_.layers.begin() + stage_of(chunk), std::int64_t{0});
  }
  [[nodiscard]] bool is_first(std::int32_t chunk) const { return stage_of(chunk) == 0; }
  [[nodiscard]] bool is_last(std::int32_t chunk) const { return stage_of(chunk) == in_.plan.stages() - 1; }
  [[nodiscard]] bool tensor_parallel() const { return in_.plan.tp > 1; }
  [[nodiscard]] bool sequence_parallel() const { return tensor_parallel() && in_.plan.sequence_parallel; }
  [[nodiscard]] static Place place(const Action& a, std::int64_t layer) {
    return {static_cast<std::int16_t>(a.microbatch), static_cast<std::int16_t>(a.chunk),
            static_cast<std::int16_t>(layer)};
  }
  [[nodiscard]] static Place place(const Action& a) {
    return {static_cast<std::int16_t>(a.microbatch), static_cast<std::int16_t>(a.chunk), Place::unset};
  }

  // ---- forward ----

  void forward(const Action& a) {
    hold_for_gather(a.chunk);
    if (!is_first(a.chunk)) receive(Slot::forward_in, "recv F", a);
    track_.memory("activations", MemoryPart::activations, kept_by(a.chunk), place(a));
    if (is_first(a.chunk)) embed(a);
    for (std::int64_t l = 0; l < layers_of(a.chunk); ++l)
      layer_forward(Work::compute, "F", place(a, first_layer(a.chunk) + l));
    if (is_last(a.chunk))
      output_forward(a);
    else
      send(Slot::forward_out, "send F", a);
  }

  void layer_forward(Work work, std::string_view label, Place where) {
    for (const LayerCost::Block* block : {&in_.cost.layer.attention, &in_.cost.layer.mlp}) {
      track_.compute(work, label, block->forward_before, where);
      if (sequence_parallel()) tp_wait(Collective::all_gather, where);
      track_.compute(work, label, block->forward, where);
      if (tensor_parallel()) tp_wait(sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, where);
      track_.compute(work, label, block->forward_after, where);
    }
  }

  void embed(const Action& a) {
    track_.compute(Work::compute, "F", in_.cost.end.embedding_forward, place(a));
    if (tensor_parallel()) tp_wait(sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, place(a));
  }

  /// Logits are split by vocabulary; the loss needs three reductions of one number a token (maximum, own logit, sum).
  void output_forward(const Action& a) {
    if (sequence_parallel()) tp_wait(Collective::all_gather, place(a));
    track_.compute(Work::compute, "F", in_.cost.end.output_forward, place(a));
    if (!tensor_parallel()) return;
    const Bytes a_number_a_token = bytes(4 * in_.training.microbatch * in_.training.sequence_length / in_.plan.cp);
    for (int i = 0; i < 3; ++i)
      track_.hold(track_.call(Slot::tp, "loss all_reduce", Collective::all_reduce, a_number_a_token, place(a)));
  }

  // ---- backward ----

  void backward(const Action& a) {
    if (!is_last(a.chunk)) receive(Slot::backward_in, "recv B", a);
    const Bytes transient = transient_of(a.chunk);
    track_.memory("backward", MemoryPart::buffers, transient, place(a));
    if (is_last(a.chunk)) output_backward(a);
    for (std::int64_t l = layers_of(a.chunk); l-- > 0;) {
      const Place where = place(a, first_layer(a.chunk) + l);
      if (in_.training.recompute == Recompute::full) layer_forward(Work::recompute, "recompute", where);
      layer_backward(where);
      if (a == last_backward_[chunk_index(a)]) reduce_after_layer(a.chunk, l);
    }
    if (is_first(a.chunk)) embedding_backward(a);
    if (a == last_backward_[chunk_index(a)]) reduce_rest(a.chunk);
    if (!is_first(a.chunk)) send(Slot::backward_out, "send B", a);
    track_.memory("backward", MemoryPart::buffers, -transient, place(a));
    track_.memory("activations", MemoryPart::activations, -kept_by(a.chunk), place(a));
  }

  /// MLP, then attention. With sequence parallelism the output gradient is gathered first, the saved input is gathered
  /// again under the input-gradient GEMMs, and the scatter of the input gradient runs under the last weight gradient
  /// (Megatron-Core; Korthikanti 2022, section 4.2.2).
  void layer_backward(Place where) {
    for (const LayerCost::Block* block : {&in_.cost.layer.mlp, &in_.cost.layer.attention}) {
      track_.compute(Work::recompute, "recompute", block->recompute, where);
      track_.compute(Work::compute, "B", block->backward_before, where);
      std::optional<Event> saved_input;
      if (sequence_parallel()) {
        tp_wait(Collective::all_gather, where);
        saved_input = tp_call(Collective::all_gather, where);
      }
      track_.compute(Work::compute, "B", block->backward_weight_out + block->backward_input, where);
      std::optional<Event> input_gradient;
      if (tensor_parallel())
        input_gradient = tp_call(sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, where);
      if (saved_input) track_.hold(*saved_input);
      track_.compute(Work::compute, "B", block->backward_weight_in, where);
      if (input_gradient) track_.hold(*input_gradient);
      track_.compute(Work::compute, "B", block->backward_after, where);
    }
  }

  void output_backward(const Action& a) {
    track_.compute(Work::compute, "B", in_.cost.end.output_backward, place(a));
    if (tensor_parallel()) tp_wait(sequence_parallel() ? Collective::reduce_scatter : Collective::all_reduce, place(a));
  }

  void embedding_backward(const Action& a) {
    if (sequence_parallel()) tp_wait(Collective::all_gather, place(a));
    track_.compute(Work::compute, "B", in_.cost.end.embedding_backward, place(a));
  }

  // ---- communication ----

  Event tp_call(Collective op, Place where) { return track_.call(Slot::tp, label_of(op), op, message_, where); }
  void tp_wait(Collective op, Place where) { track_.hold(tp_call(op, where)); }

  static std::string_view label_of(Collective op) { return to_text(op); }

  void receive(Slot slot, std::string_view label, const Action& a) {
    track_.hold(track_.post(slot, label, Collective::send_recv, pipe_message_, place(a)));
    if (tensor_parallel() && !sequence_parallel()) tp_wait(Collective::all_gather, place(a));
  }

  void send(Slot slot, std::string_view label, const Action& a) {
    const Event sent = track_.call(slot, label, Collective::send_recv, pipe_message_, place(a));
    if (!in_.plan.overlap.pp) track_.hold(sent);
  }

  // ---- data parallel ----

  [[nodiscard]] bool data_parallel() const { return in_.plan.dp * in_.plan.cp > 1; }
  [[nodiscard]] std::int64_t parameters_of(std::int32_t chunk) const {
    return stage_parameters(in_.model, in_.plan, stage_of(chunk));
  }
  [[nodiscard]] std::int64_t gradient_bytes() const { return in_.training.gradients == Precision::fp32 ? 4 : 2; }
  [[nodiscard]] bool gathers_ahead() const { return data_parallel() && in_.plan.zero >= 1 && in_.plan.overlap.dp; }

  void reduce_gradients(std::int64_t parameters, std::int32_t chunk) {
    if (!in_.optimizer || !data_parallel() || parameters == 0) return;
    const Place where{Place::unset, static_cast<std::int16_t>(chunk), Place::unset};
    const Collective op = in_.plan.zero >= 1 ? Collective::reduce_scatter : Collective::all_reduce;
    reductions_.push_back(track_.call(Slot::dp, "gradients", op, bytes(gradient_bytes() * parameters), where));
  }

  /// Parameters of one transformer layer on this rank: those of its chunk, evenly, the ends left to the rest.
  [[nodiscard]] std::int64_t layer_share(std::int32_t chunk) const {
    if (layers_of(chunk) == 0) return 0;
    const std::int64_t ends = (is_first(chunk) || is_last(chunk)) ? end_parameters(chunk) : 0;
    return (parameters_of(chunk) - ends) / layers_of(chunk);
  }
  [[nodiscard]] std::int64_t end_parameters(std::int32_t chunk) const {
    const std::int64_t tables =
        (is_first(chunk) ? 1 : 0) + (is_last(chunk) && !(is_first(chunk) && in_.model.tied_embeddings) ? 1 : 0);
    return tables * padded_vocabulary(in_.model, in_.plan) / in_.plan.tp * in_.model.hidden;
  }

  /// Megatron-Core cuts buckets on the first pipeline rank's first chunk only: elsewhere the traffic sits in the
  /// bubble.
  [[nodiscard]] bool cuts_buckets(std::int32_t chunk) const { return in_.plan.overlap.dp && rank_ == 0 && chunk == 0; }

  void reduce_after_layer(std::int32_t chunk, std::int64_t layer) {
    static_cast<void>(layer);
    pending_gradients_ += layer_share(chunk);
    if (!cuts_buckets(chunk) || pending_gradients_ < in_.plan.bucket_parameters) return;
    reduce_gradients(pending_gradients_, chunk);
    reduced_ += pending_gradients_;
    pending_gradients_ = 0;
  }

  void reduce_rest(std::int32_t chunk) {
    const std::int64_t rest = parameters_of(chunk) - reduced_;
    reduced_ = 0;
    pending_gradients_ = 0;
    if (in_.plan.overlap.dp)
      reduce_gradients(rest, chunk);
    else
      late_gradients_.push_back({rest, chunk});
  }

  void gather_parameters(bool ahead) {
    for (std::int32_t chunk = 0; chunk < in_.plan.schedule.virtual_stages; ++chunk) {
      const Place where{Place::unset, static_cast<std::int16_t>(chunk), Place::unset};
      const Bytes size = bytes(activation_bytes(in_.training.precision) * parameters_of(chunk));
      if (size == Bytes{}) continue;
      if (ahead)
        gathers_.push_back(track_.post(Slot::dp, "parameters", Collective::all_gather, size, where));
      else
        track_.hold(track_.call(Slot::dp, "parameters", Collective::all_gather, size, where));
      if (ahead) gather_of_chunk_.push_back(chunk);
    }
  }

  void hold_for_gather(std::int32_t chunk) {
    for (std::size_t i = 0; i < gathers_.size(); ++i) {
      if (gather_of_chunk_[i] != chunk) continue;
      track_.hold(gathers_[i]);
      gather_of_chunk_[i] = -1;
    }
  }

  void end_of_step() {
    for (const auto& [parameters, chunk] : late_gradients_) reduce_gradients(parameters, chunk);
    for (Event e : reductions_) track_.hold(e);
    if (sequence_parallel())  // every rank saw other tokens: norm gradients are summed over the group
      track_.hold(track_.call(Slot::tp, "norm gradients", Collective::all_reduce, norm_gradients(), {}));
    if (shares_embedding())
      track_.hold(track_.call(
          Slot::embedding, "tied embedding", Collective::all_reduce,
          bytes(gradient_bytes() * padded_vocabulary(in_.model, in_.plan) / in_.plan.tp * in_.model.hidden), {}));
    if (in_.plan.tp * in_.plan.pp > 1)
      track_.hold(track_.call(Slot::model, "gradient norm", Collective::all_reduce, bytes(4), {}));
    const std::int64_t held = all_parameters();
    const std::int64_t shards = in_.plan.zero >= 1 ? in_.plan.dp * in_.plan.cp : 1;
    track_.compute(Work::optimizer, "optimizer", optimizer_time(in_.gpu, (held + shards - 1) / shards, held), {});
    if (data_parallel() && in_.plan.zero >= 1 && !in_.plan.overlap.dp) gather_parameters(false);
  }

  [[nodiscard]] Bytes norm_gradients() const {
    std::int64_t layers = 0;
    for (std::int32_t c = 0; c < in_.plan.schedule.virtual_stages; ++c) layers += layers_of(c);
    const std::int64_t vectors = in_.model.norm == Norm::layernorm ? 2 : 1;
    return bytes(gradient_bytes() * 2 * vectors * layers * in_.model.hidden);
  }
  [[nodiscard]] bool shares_embedding() const {
    return in_.model.tied_embeddings && in_.plan.pp > 1 && (rank_ == 0 || rank_ == in_.plan.pp - 1);
  }

  // ---- memory ----

  [[nodiscard]] std::int64_t all_parameters() const {
    std::int64_t sum = 0;
    for (std::int32_t c = 0; c < in_.plan.schedule.virtual_stages; ++c) sum += parameters_of(c);
    return sum;
  }
  void take_states() {
    const StateBytes states = state_bytes(all_parameters(), in_.plan, in_.training);
    track_.memory("parameters", MemoryPart::parameters, states.parameters);
    track_.memory("gradients", MemoryPart::gradients, states.gradients);
    track_.memory("optimizer", MemoryPart::optimizer, states.optimizer);
  }
  [[nodiscard]] Bytes kept_by(std::int32_t chunk) const {
    Bytes sum = layer_activations(in_.model, in_.plan, in_.training) * layers_of(chunk);
    if (is_first(chunk)) sum += embedding_activations(in_.model, in_.plan, in_.training);
    if (is_last(chunk)) sum += output_activations(in_.model, in_.plan, in_.training);
    return sum;
  }
  [[nodiscard]] Bytes transient_of(std::int32_t chunk) const {
    if (layers_of(chunk) == 0) return {};
    return backward_transient(in_.model, in_.plan, in_.training) +
           recompute_transient(in_.model, in_.plan, in_.training);
  }

  const StageInput& in_;
  std::int64_t rank_;
  Bytes message_, pipe_message_;
  Track track_;
  std::vector<Action> last_backward_ = std::vector<Action>(static_cast<std::size_t>(in_.plan.schedule.virtual_stages));
  std::vector<Event> reductions_, gathers_;
  std::vector<std::int32_t> gather_of_chunk_;
  std::vector<std::pair<std::int64_t, std::int32_t>> late_gradients_;
  std::int64_t pending_gradients_ = 0, reduced_ = 0;
};

}  // namespace

Program stage_program(const StageInput& in, std::int64_t pipeline_rank) {
  return StageWriter(in, pipeline_rank).write();
}

}  // namespace foretrain
