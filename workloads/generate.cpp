#include "workloads/generate.h"

#include <algorithm>
#include <cmath>

#include "workloads/program/pipeline.h"
#include "workloads/program/stage_program.h"

namespace foretrain {

std::string_view to_text(Work work) {
  switch (work) {
    case Work::compute:
      return "compute";
    case Work::recompute:
      return "recompute";
    case Work::optimizer:
      return "optimizer";
    case Work::other:
      return "other";
  }
  return "?";
}

std::string_view to_text(Traffic traffic) {
  switch (traffic) {
    case Traffic::tp:
      return "tp";
    case Traffic::cp:
      return "cp";
    case Traffic::ep:
      return "ep";
    case Traffic::dp:
      return "dp";
    case Traffic::pp:
      return "pp";
    case Traffic::other:
      return "other";
  }
  return "?";
}

namespace {

constexpr Work all_work[] = {Work::compute, Work::recompute, Work::optimizer, Work::other};
constexpr Traffic all_traffic[] = {Traffic::tp, Traffic::cp, Traffic::ep, Traffic::dp, Traffic::pp, Traffic::other};

/// Makes the communicators of a plan and binds them to every rank's slots.
class Binder {
 public:
  Binder(const Model& model, const Plan& plan, const Stack& stack, const PipelineShape& shape, Job& job)
      : plan_(plan),
        stack_(stack),
        has_experts_(model.experts.has_value()),
        messages_(message_kinds(shape)),
        ends_(end_holders(shape)),
        job_(job) {
    // Communicator 0 holds slots that a rank never calls; nobody is asked to call it.
    for (std::size_t r = 0; r < job_.ranks.size(); ++r) job_.ranks[r].slots.reserve(slot_count);
    bound_.assign(job_.ranks.size() * slot_count, std::nullopt);
  }

  void bind_groups() {
    bind_groups_of(Slot::tp, Traffic::tp, groups(plan_, Axis::tp));
    bind_groups_of(Slot::dp, Traffic::dp, shard_groups(plan_));
    if (plan_.shard_ranks() < plan_.replicas())
      bind_groups_of(Slot::dp_replica, Traffic::dp, shard_replica_groups(plan_));
    if (plan_.cp > 1) bind_groups_of(Slot::cp, Traffic::cp, groups(plan_, Axis::cp));
    if (has_experts_) {
      bind_groups_of(Slot::ep, Traffic::ep, expert_groups(plan_, Axis::ep));
      bind_groups_of(Slot::etp, Traffic::ep, expert_groups(plan_, Axis::tp));
      bind_groups_of(Slot::edp, Traffic::dp, expert_shard_groups(plan_));
      if (plan_.expert_shard_ranks() < plan_.expert_replicas())
        bind_groups_of(Slot::edp_replica, Traffic::dp, expert_shard_replica_groups(plan_));
    }
    for (const auto& pipeline : groups(plan_, Axis::pp)) bind_pipeline(pipeline);
    bind_model_groups();
    fill_slots();
  }

 private:
  CommunicatorId make(std::vector<RankId> members, Traffic traffic) {
    job_.communicators.push_back(
        {.members = std::move(members),
         .dimension = static_cast<std::uint8_t>(traffic),
         .time_factor = time_factor_of(traffic),
         .channels = traffic == Traffic::dp ? static_cast<std::uint32_t>(stack_.data_channels) : 0});
    return id_at<CommunicatorId>(job_.communicators.size() - 1);
  }
  void bind(RankId rank, Slot slot, CommunicatorId id) {
    bound_[rank.index() * slot_count + static_cast<std::size_t>(slot)] = id;
  }
  void bind_all(const std::vector<RankId>& members, Slot slot, Traffic traffic) {
    const CommunicatorId id = make(members, traffic);
    for (RankId r : members) bind(r, slot, id);
  }
  void bind_groups_of(Slot slot, Traffic traffic, const RankGroups& all) {
    for (const auto& group : all) bind_all(group, slot, traffic);
  }

  void bind_pipeline(const std::vector<RankId>& ranks) {
    const auto at = [&](std::int64_t pipeline_rank) { return ranks[static_cast<std::size_t>(pipeline_rank)]; };
    for (const PipelineMessage& m : messages_) {
      const CommunicatorId id = make({at(m.from), at(m.to)}, Traffic::pp);
      bind(at(m.from), m.out, id);
      bind(at(m.to), m.in, id);
    }
    if (ends_.size() < 2) return;
    std::vector<RankId> holders;
    for (const std::int64_t end : ends_) holders.push_back(at(end));
    bind_all(holders, Slot::embedding, Traffic::pp);
  }

  /// All ranks of one model replica: same data-parallel coordinate.
  void bind_model_groups() {
    std::vector<std::vector<RankId>> replicas(static_cast<std::size_t>(plan_.dp * plan_.cp));
    for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
      const Coordinates at = coordinates_of(plan_, id_at<RankId>(r));
      replicas[static_cast<std::size_t>(at.dp * plan_.cp + at.cp)].push_back(id_at<RankId>(r));
    }
    for (const auto& replica : replicas) bind_all(replica, Slot::model, Traffic::other);
  }

  /// A rank's slots are a prefix of the enumeration; those that it never calls get a group of itself.
  void fill_slots() {
    for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
      std::optional<CommunicatorId> alone;
      for (std::size_t s = 0; s < slot_count; ++s) {
        const auto& id = bound_[r * slot_count + s];
        if (!id && !alone) alone = make({id_at<RankId>(r)}, Traffic::other);
        job_.ranks[r].slots.push_back(id ? *id : *alone);
      }
    }
  }

  [[nodiscard]] double time_factor_of(Traffic traffic) const {
    if (traffic == Traffic::tp) return stack_.tp_time;
    return traffic == Traffic::ep ? stack_.ep_time : 1;
  }

  const Plan& plan_;
  const Stack& stack_;
  bool has_experts_;
  std::vector<PipelineMessage> messages_;
  std::vector<std::int64_t> ends_;  ///< pipeline ranks that hold an end of the model
  Job& job_;
  std::vector<std::optional<CommunicatorId>> bound_;
};

}  // namespace

StageCost stage_cost(const Gpu& gpu, const Model& model, const Plan& plan, const Training& training, double slowdown) {
  StageCost cost;
  cost.slowdown = slowdown;
  const auto slow = [slowdown](Duration& d) { d = picoseconds(std::llround(static_cast<double>(d.ps()) * slowdown)); };
  const auto slow_part = [&](PartCost& p) {
    slow(p.forward);
    slow(p.backward_input);
    slow(p.backward_weight);
  };
  for (const LayerKind kind : all_layer_kinds) {
    if (kind.experts && !model.experts) continue;
    if (kind.windowed && !model.window) continue;
    LayerCost& layer = cost.layers[kind.index()] = layer_cost(gpu, model, plan, training, kind);
    for_each_part(layer, slow_part);
    slow(layer.attention_recompute);
    slow(layer.mlp_recompute);
  }
  cost.end = end_cost(gpu, model, plan, training);
  for (PartCost* p : {&cost.end.embedding, &cost.end.output, &cost.end.mtp}) slow_part(*p);
  return cost;
}

double straggler_slowdown(double jitter, std::size_t nodes) {
  return 1 + jitter * std::log2(static_cast<double>(std::max<std::size_t>(nodes, 1)));
}

Workload generate(const Model& model, const Plan& plan, const Training& training, const Gpu& gpu, const StageCost& cost,
                  bool optimizer) {
  Workload w;
  w.layers = layers_by_stage(model, plan);
  const StageInput in{model, plan, training, gpu, cost, w.layers, optimizer};
  const PipelineShape shape = pipeline_shape(plan, training);
  const ActionLists lists = all_actions(plan.schedule, shape);
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) w.job.programs.push_back(stage_program(in, lists, stage));
  for (Work work : all_work) w.job.activities.emplace_back(to_text(work));
  for (Traffic t : all_traffic)
    w.job.dimensions.push_back({std::string(to_text(t)), t == Traffic::pp || t == Traffic::other});
  for (MemoryPart part : all_memory_parts) w.job.memory_parts.emplace_back(to_text(part));

  const auto ranks = static_cast<std::size_t>(plan.ranks());
  w.job.ranks.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto stage = static_cast<std::uint32_t>(coordinates_of(plan, id_at<RankId>(r)).pp);
    w.job.ranks[r].program = stage;
    w.stage_of.push_back(stage);
    w.job.placement.push_back(id_at<GpuId>(r));
  }
  Binder(model, plan, training.stack, shape, w.job).bind_groups();
  return w;
}

}  // namespace foretrain
