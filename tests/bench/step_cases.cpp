#include "tests/bench/step_cases.h"

#include <algorithm>
#include <span>
#include <vector>

#include "tests/bench/groups.h"

namespace foretrain::bench {
namespace {

enum Dimension : std::uint8_t { tensor, data, pipeline };

/// Slots in the order in which gpipe_step adds groups: tensor, data, then both directions of every boundary.
struct Slots {
  static constexpr std::uint16_t tensor = 0;
  static constexpr std::uint16_t data = 1;
  static constexpr std::uint16_t forward_in = 2;
  static constexpr std::uint16_t backward_out = 3;
  std::uint16_t forward_out = 4;
  std::uint16_t backward_in = 5;
};

class StageWriter {
 public:
  StageWriter(const StepShape& shape, const StepSizes& sizes, std::uint32_t stage)
      : shape_(shape), sizes_(sizes), first_(stage == 0), last_(stage + 1 == shape.pp) {
    if (first_) slots_ = {.forward_out = Slots::forward_in, .backward_in = Slots::backward_out};
  }

  Program write() && {
    for (std::uint32_t m = 0; m < shape_.microbatches; ++m) forward();
    for (std::uint32_t m = 0; m < shape_.microbatches; ++m) backward(m + 1 == shape_.microbatches);
    b_.compute(main_stream, {.label = "optimizer", .duration = sizes_.optimizer, .after = reduced_});
    return std::move(b_).build();
  }

 private:
  void forward() {
    std::vector<Event> ready;
    if (!first_) ready.push_back(exchange("forward in", Slots::forward_in, {}));
    Event done{};
    for (std::uint32_t l = 0; l < shape_.layers_per_stage(); ++l) {
      done = layer("F", sizes_.half_forward, ready);
      ready.clear();
    }
    if (!last_) exchange("forward out", slots_.forward_out, {&done, 1});
  }

  void backward(bool last_microbatch) {
    std::vector<Event> ready;
    if (!last_) ready.push_back(exchange("backward in", slots_.backward_in, {}));
    Event done{};
    for (std::uint32_t l = 0; l < shape_.layers_per_stage(); ++l) {
      done = layer("B", sizes_.half_backward, ready);
      ready.clear();
      if (last_microbatch) reduced_.push_back(reduce_gradients(done));
    }
    if (!first_) exchange("backward out", Slots::backward_out, {&done, 1});
  }

  Event layer(std::string_view label, Duration half, std::span<const Event> after) {
    Event done{};
    for (int i = 0; i < 2; ++i) {
      b_.compute(main_stream, {.label = label, .duration = half, .after = i == 0 ? after : std::span<const Event>()});
      done = b_.communicate(
          main_stream,
          {.label = "activations", .op = Collective::all_reduce, .size = sizes_.activations, .slot = Slots::tensor});
    }
    return done;
  }

  Event exchange(std::string_view stream, std::uint16_t slot, std::span<const Event> after) {
    return b_.communicate(
        b_.stream(stream),
        {.label = stream, .op = Collective::send_recv, .size = sizes_.boundary, .slot = slot, .after = after});
  }

  Event reduce_gradients(const Event& done) {
    return b_.communicate(b_.stream("data"), {.label = "gradients",
                                              .op = Collective::all_reduce,
                                              .size = sizes_.gradients,
                                              .slot = Slots::data,
                                              .after = {&done, 1}});
  }

  const StepShape& shape_;
  const StepSizes& sizes_;
  bool first_;
  bool last_;
  Slots slots_;
  ProgramBuilder b_;
  std::vector<Event> reduced_;
};

/// Both directions between every rank of a stage and its like in the next.
void add_boundary(Job& job, std::uint32_t first, std::uint32_t ranks) {
  for (std::uint32_t r = first; r < first + ranks; ++r) {
    add_group(job, pipeline, {RankId{r}, RankId{r + ranks}});
    add_group(job, pipeline, {RankId{r + ranks}, RankId{r}});
  }
}

}  // namespace

StepShape step_on(std::uint32_t ranks) {
  StepShape shape;
  shape.pp = std::min(shape.pp, ranks / shape.tp);
  shape.dp = ranks / (shape.tp * shape.pp);
  return shape;
}

Job gpipe_step(const StepShape& shape, const StepSizes& sizes) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{"tp", false}, {"dp", false}, {"pp", true}};
  add_ranks(job, shape.ranks());
  const std::uint32_t in_stage = shape.tp * shape.dp;
  for (std::uint32_t p = 0; p < shape.pp; ++p) {
    job.programs.push_back(StageWriter(shape, sizes, p).write());
    for (std::uint32_t r = 0; r < in_stage; ++r) job.ranks[p * in_stage + r].program = p;
  }
  for (std::uint32_t r = 0; r < shape.ranks(); r += shape.tp) add_group(job, tensor, every(r, 1, shape.tp));
  for (std::uint32_t p = 0; p < shape.pp; ++p)
    for (std::uint32_t t = 0; t < shape.tp; ++t) add_group(job, data, every(p * in_stage + t, shape.tp, shape.dp));
  for (std::uint32_t p = 0; p + 1 < shape.pp; ++p) add_boundary(job, p * in_stage, in_stage);
  return job;
}

}  // namespace foretrain::bench
