#include "workloads/schedules/delayed_weights.h"

#include <algorithm>

#include "workloads/schedules/order.h"

namespace foretrain {

std::vector<Action> with_delayed_weights(const PipelineShape& shape, const WeightDelay& rule) {
  const auto forwards = forward_order(shape);
  const auto inputs = backward_order(shape, Pass::backward_input);
  const auto weights = backward_order(shape, Pass::backward_weight);
  const std::size_t total = forwards.size();
  const std::size_t warm_up = std::min(total, static_cast<std::size_t>(rule.warm_up));
  const std::size_t delay = std::min(total, static_cast<std::size_t>(rule.delay));
  std::vector<Action> list(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t k = 0; k < total; ++k) {
    if (warm_up + k < total) list.push_back(forwards[warm_up + k]);
    list.push_back(inputs[k]);
    if (k >= delay) list.push_back(weights[k - delay]);
  }
  list.insert(list.end(), weights.end() - static_cast<std::ptrdiff_t>(delay), weights.end());
  return list;
}

}  // namespace foretrain
