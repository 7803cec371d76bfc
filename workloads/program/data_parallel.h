// DataParallelWriter: what data parallelism adds to a stage's program, by ZeRO stage and training software: gradients
// reduced in buckets or unit by unit, parameters gathered ahead of their use, beside the compute or behind it. Experts
// have a group of their own, beside the dense parameters'. The stage's writer says where it is; docs/parallelism.md has
// the rules and their sources. Internal to `generate`.
//
//   data.begin(a);
//   data.before_forward(a, unit);  ...kernels of the unit...  data.after_forward(a, unit);
//   data.before_backward(a, unit); ...                        data.after_backward(a, unit);
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "workloads/program/stage.h"
#include "workloads/program/track.h"

namespace foretrain {

class DataParallelWriter {
 public:
  /// `list` is the stage's whole order of actions; both references and it outlive the writer.
  DataParallelWriter(const Stage& stage, Track& track, std::span<const Action> list);

  void begin_step();
  /// The next action of the list.
  void begin(const Action& a);
  void before_forward(const Action& a, std::size_t unit);
  void after_forward(const Action& a, std::size_t unit);
  /// Before and after a unit's part of a backward, of the input or of the weights alone.
  void before_backward(const Action& a, std::size_t unit);
  void after_backward(const Action& a, std::size_t unit);
  /// All gradients are reduced and waited for.
  void finish_gradients();

  /// What the optimizer of this rank works on: parameters that it owns, gradients that it holds.
  struct Update {
    std::int64_t owned = 0, held = 0;
  };
  [[nodiscard]] Update update() const;
  void after_update();

 private:
  struct Unit {
    RankParameters parameters;
    std::vector<Event> gathered;  ///< waited for at the next use
    bool here = false;            ///< fully sharded: gathered, or being so
    Bytes gradients;              ///< fully sharded and ZeRO 2: whole ones alive
  };
  /// Ranks with the same parameters: `shards` of them share a set, which HSDP has several of.
  struct Holders {
    Slot inside{}, across{};
    std::int64_t shards = 1, replicas = 1;
  };
  struct Chunk {
    std::vector<Unit> units;
    std::optional<Action> last_weights;  ///< the action that completes the chunk's gradients
    RankParameters pending;              ///< with complete gradients, not yet reduced
  };

  [[nodiscard]] Chunk& chunk_of(const Action& a) { return chunks_[static_cast<std::size_t>(a.chunk)]; }
  [[nodiscard]] const Plan& plan() const { return stage_.in.plan; }
  [[nodiscard]] bool fully_sharded() const { return plan().zero == 3; }
  [[nodiscard]] bool in_pipeline() const { return plan().pp * stage_.chunks() > 1; }
  [[nodiscard]] bool frees_gradients() const { return plan().zero >= 2; }
  [[nodiscard]] bool held_twice() const { return stage_.shape.placement == Placement::bidirectional; }
  [[nodiscard]] std::vector<std::int32_t> chunks_by_stage() const;
  [[nodiscard]] bool cuts_buckets(std::int32_t chunk) const;
  [[nodiscard]] bool reduces_after(const Action& a);
  [[nodiscard]] bool broadcasts_parameters() const {
    return stage_.in.training.stack.owner_broadcast > Duration{} && !fully_sharded();
  }
  [[nodiscard]] bool completes_late(const Action& a) const;
  [[nodiscard]] bool stays_after_forward(const Action& a, std::size_t unit);
  [[nodiscard]] Bytes parameter_bytes(const RankParameters& p) const;
  [[nodiscard]] Bytes made_gradient_bytes(const RankParameters& p) const;
  [[nodiscard]] Bytes accumulated_gradient_bytes(const RankParameters& p) const;

  std::vector<Event> gather_calls(const RankParameters& p, Place where, std::span<const Event> after);
  void gather(Unit& unit, Place where);
  void gather_from(const Action& a, std::size_t unit, int direction);
  void release(Unit& unit, Place where);
  void use(Unit& unit);
  void hold_gradients(Unit& unit, Bytes held, Place where);
  void keep_window();

  std::vector<Event> reduce(const RankParameters& p, Place where);
  std::optional<Event> reduce_over(const Holders& holders, std::int64_t parameters, Place where);
  void reduce_unit(const Action& a, std::size_t unit);
  void reduce_bucket(const Action& a, std::size_t unit);

  const Stage& stage_;
  Track& track_;
  std::span<const Action> list_;
  std::size_t next_ = 0;  ///< into `list_`
  std::vector<Chunk> chunks_;
  std::vector<Event> reductions_;       ///< of this step, waited for at its end
  std::vector<Event> unit_reductions_;  ///< of the last unit, waited for before the next one's: one is in flight
  std::vector<std::pair<RankParameters, std::int32_t>> late_;  ///< with their chunk: reduced after the last backward
};

}  // namespace foretrain
