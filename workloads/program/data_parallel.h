// DataParallelWriter: what data parallelism adds to a stage's program: gradients reduced, parameters gathered, by ZeRO
// stage, beside the compute or behind it. The stage's writer tells it where it is. Internal to `generate`.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "workloads/program/stage.h"
#include "workloads/program/track.h"

namespace foretrain {

class DataParallelWriter {
 public:
  DataParallelWriter(const Stage& stage, Track& track);

  void begin_step();
  /// Before the first kernel of a chunk's forward.
  void before_forward(std::int32_t chunk);
  /// A layer of the chunk has all its gradients of this step.
  void after_layer_gradients(std::int32_t chunk);
  /// The whole chunk has.
  void after_chunk_gradients(std::int32_t chunk);
  /// Gradients not yet reduced are, and all are waited for.
  void finish_gradients();
  /// Behind the optimizer.
  void after_update();

 private:
  struct Gather {
    std::int32_t chunk;
    Event done;
  };
  [[nodiscard]] bool gathers_ahead() const;
  /// Megatron-Core cuts buckets on the first pipeline rank's first chunk only: elsewhere the traffic sits in the
  /// bubble.
  [[nodiscard]] bool cuts_buckets(std::int32_t chunk) const;
  [[nodiscard]] std::int64_t parameters_of(std::int32_t chunk) const;
  [[nodiscard]] std::int64_t layer_share(std::int32_t chunk) const;
  [[nodiscard]] std::int64_t end_parameters(std::int32_t chunk) const;
  [[nodiscard]] Bytes parameter_message(std::int32_t chunk) const;
  void reduce(std::int64_t parameters, std::int32_t chunk);

  const Stage& stage_;
  Track& track_;
  std::vector<Event> reductions_;
  std::vector<Gather> gathers_;
  std::vector<std::pair<std::int64_t, std::int32_t>> late_;  ///< parameters and chunk, reduced after the last backward
  std::int64_t pending_ = 0, reduced_ = 0;                   ///< parameters of the current chunk
};

}  // namespace foretrain
