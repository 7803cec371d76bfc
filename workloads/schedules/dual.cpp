#include "workloads/schedules/dual.h"

#include <deque>

#include "workloads/schedules/order.h"

namespace foretrain {
namespace {

class Writer {
 public:
  explicit Writer(const DualShape& shape) : shape_(shape) {}

  void forward(std::size_t direction) { list_.push_back(next(Pass::forward, direction, forwards_)); }
  void backward(std::size_t direction) { list_.push_back(next(Pass::backward, direction, backwards_)); }
  /// The input gradient; its weight gradient joins the queue.
  void backward_input(std::size_t direction) {
    list_.push_back(next(Pass::backward_input, direction, backwards_));
    weights_.push_back(action(Pass::backward_weight, list_.back().chunk, list_.back().microbatch));
  }
  void weight() {
    list_.push_back(weights_.front());
    weights_.pop_front();
  }
  void block(std::size_t forward_direction) {
    forward(forward_direction);
    list_.back().with_next = true;
    backward(1 - forward_direction);
  }
  [[nodiscard]] std::vector<Action> finish() && { return std::move(list_); }

 private:
  using Counts = std::array<std::int64_t, 2>;  // by direction

  Action next(Pass pass, std::size_t direction, Counts& counts) {
    const Direction& d = shape_.directions[direction];
    return action(pass, d.chunk, d.first + counts[direction]++);
  }

  const DualShape& shape_;
  Counts forwards_{}, backwards_{};
  std::deque<Action> weights_;
  std::vector<Action> list_;
};

/// The last backwards in turns; from half way on they leave their weight gradients for the end.
void alternate_backwards(Writer& out, std::int64_t place) {
  const std::int64_t half = (place + 1) / 2;
  const bool odd = place % 2 == 1;
  const auto add = [&](std::size_t direction, bool split) {
    split ? out.backward_input(direction) : out.backward(direction);
  };
  for (std::int64_t n = 0; n <= place; ++n) {
    add(1, n > half || (n == half && odd));
    add(0, n >= half);
  }
}

}  // namespace

std::vector<Action> dual_list(const DualShape& shape) {
  const std::int64_t to_turn = shape.turn - 1 - shape.place;
  Writer out(shape);
  for (std::int64_t n = 0; n < 2 * to_turn; ++n) out.forward(0);
  for (std::int64_t n = 0; n <= shape.place; ++n) {
    out.forward(0);
    out.forward(1);
  }
  for (std::int64_t n = 0; n < to_turn; ++n) {
    out.backward_input(1);
    out.weight();
    out.forward(1);
  }
  for (std::int64_t n = 0; n < shape.microbatches - 2 * shape.turn + shape.place + 1; ++n) {
    if (n == 0 && to_turn == 0) {  // the backward waits for that very forward, a step further on
      out.forward(0);
      out.backward(1);
    } else {
      out.block(0);
    }
    out.block(1);
  }
  for (std::int64_t n = 0; n < to_turn; ++n) {
    out.backward(1);
    out.block(1);
  }
  alternate_backwards(out, shape.place);
  for (std::int64_t n = 0; n < to_turn; ++n) {
    out.weight();
    out.backward_input(0);
  }
  for (std::int64_t n = 0; n <= shape.place; ++n) out.weight();
  return std::move(out).finish();
}

}  // namespace foretrain
