#include "workloads/program/stage.h"

#include <numeric>

namespace foretrain {

std::int64_t Stage::first_layer(std::int32_t chunk) const {
  return std::accumulate(in.layers.begin(), in.layers.begin() + stage_of(chunk), std::int64_t{0});
}

std::vector<RankParameters> Stage::units(std::int32_t chunk) const {
  std::vector<RankParameters> units;
  if (is_first(chunk)) units.push_back(embedding_rank_parameters(in.model, in.plan));
  for (std::int64_t l = 0; l < layers_of(chunk); ++l)
    units.push_back(layer_rank_parameters(in.model, in.plan, kind_of(first_layer(chunk) + l)));
  if (is_last(chunk)) {
    units.push_back(output_rank_parameters(in.model, in.plan));
    units.back() += mtp_rank_parameters(in.model, in.plan);
  }
  return units;
}

std::size_t Stage::unit_of_layer(std::int32_t chunk, std::int64_t layer_in_chunk) const {
  return static_cast<std::size_t>(layer_in_chunk) + (is_first(chunk) ? 1 : 0);
}

std::size_t Stage::unit_of_output(std::int32_t chunk) const { return unit_of_layer(chunk, layers_of(chunk)); }

}  // namespace foretrain
