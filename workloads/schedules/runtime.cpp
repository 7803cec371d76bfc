#include "workloads/schedules/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "workloads/schedules/play.h"

namespace foretrain {
namespace {

RuntimeAction runtime_action(const PipelineShape& shape, std::size_t rank, const Action& a) {
  return {static_cast<RuntimePass>(a.pass), stage_of(shape, static_cast<std::int64_t>(rank), a.chunk), a.microbatch,
          a.with_next};
}

/// The start or the end of an action in one global order.
struct Moment {
  double time = 0;
  bool starts = false;  ///< at one instant what ends goes first, so that a consumer finds its message in the list
  std::size_t rank = 0;
  std::size_t index = 0;  ///< in the rank's list
  [[nodiscard]] auto key() const { return std::tuple(time, starts, rank, index); }
};

std::vector<Moment> moments(const SchedulePlay& played) {
  std::vector<Moment> all;
  for (std::size_t r = 0; r < played.ranks.size(); ++r) {
    const auto& actions = played.ranks[r].actions;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      all.push_back({actions[i].start, true, r, i});
      all.push_back({actions[i].end, false, r, i});
    }
  }
  std::sort(all.begin(), all.end(), [](const Moment& a, const Moment& b) { return a.key() < b.key(); });
  return all;
}

void send(RuntimeLists& lists, const PipelineShape& shape, std::size_t rank, const Action& a) {
  const auto receiver = receiver_of(shape, static_cast<std::int64_t>(rank), a);
  if (!receiver || receiver->rank == static_cast<std::int64_t>(rank)) return;
  const bool forward = a.pass == Pass::forward;
  const std::int64_t stage = stage_of(shape, static_cast<std::int64_t>(rank), a.chunk);
  lists[rank].push_back({forward ? RuntimePass::send_forward : RuntimePass::send_backward, stage, a.microbatch, false});
  lists[static_cast<std::size_t>(receiver->rank)].push_back(
      {forward ? RuntimePass::receive_forward : RuntimePass::receive_backward, stage + (forward ? 1 : -1), a.microbatch,
       false});
}

/// Gathers and gives up the stages of one rank as its list goes on.
class Shards {
 public:
  Shards(const std::vector<RuntimeAction>& list, std::int64_t stages, std::int64_t microbatches)
      : list_(list), microbatches_(microbatches), backwards_(static_cast<std::size_t>(stages)) {}

  std::vector<RuntimeAction> run() && {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const bool first_of_block = i == 0 || !list_[i - 1].with_next;
      if (computes(list_[i].pass) && first_of_block) gather_before(i);
      out_.push_back(list_[i]);
      if (list_[i].with_next) continue;
      if (!first_of_block) reduce_after(list_[i - 1]);
      reduce_after(list_[i]);
    }
    for (const std::int64_t stage : gathered_) add(RuntimePass::reshard, stage);
    return std::move(out_);
  }

 private:
  void add(RuntimePass pass, std::int64_t stage) { out_.push_back({pass, stage, std::nullopt, false}); }

  /// The next stages that compute from `begin` on, each once.
  [[nodiscard]] std::vector<std::int64_t> next_stages(std::size_t begin) const {
    constexpr std::size_t most = 3;  // PyTorch's default `max_active_stages`
    std::vector<std::int64_t> next;
    for (std::size_t i = begin; i < list_.size(); ++i) {
      const bool inside_block = i > begin && list_[i - 1].with_next;
      if (next.size() >= most && !inside_block) break;
      if (computes(list_[i].pass) && std::find(next.begin(), next.end(), list_[i].stage) == next.end())
        next.push_back(list_[i].stage);
    }
    return next;
  }

  void gather_before(std::size_t at) {
    const auto next = next_stages(at);
    const auto holds = [](const std::vector<std::int64_t>& stages, std::int64_t stage) {
      return std::find(stages.begin(), stages.end(), stage) != stages.end();
    };
    for (const std::int64_t stage : gathered_)
      if (!holds(next, stage)) add(RuntimePass::reshard, stage);
    std::erase_if(gathered_, [&](std::int64_t stage) { return !holds(next, stage); });
    for (const std::int64_t stage : next) {
      if (holds(gathered_, stage)) continue;
      add(RuntimePass::unshard, stage);
      gathered_.push_back(stage);
    }
    std::sort(gathered_.begin(), gathered_.end());
  }

  void reduce_after(const RuntimeAction& a) {
    if (a.pass != RuntimePass::backward && a.pass != RuntimePass::backward_weight) return;
    if (++backwards_[static_cast<std::size_t>(a.stage)] == microbatches_) add(RuntimePass::reduce_gradients, a.stage);
  }

  const std::vector<RuntimeAction>& list_;
  std::int64_t microbatches_;  ///< that a stage of this rank sees
  std::vector<std::int64_t> backwards_;
  std::vector<std::int64_t> gathered_;  ///< ascending
  std::vector<RuntimeAction> out_;
};

std::string_view name_of(RuntimePass pass) {
  return std::find_if(std::begin(runtime_pass_names), std::end(runtime_pass_names),
                      [&](const RuntimePassName& n) { return n.pass == pass; })
      ->name;
}

std::string cell(const RuntimeAction& a) {
  return a.microbatch ? fmt::format("{}{}{}", a.stage, name_of(a.pass), *a.microbatch)
                      : fmt::format("{}{}", a.stage, name_of(a.pass));
}

std::string row(const std::vector<RuntimeAction>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!text.empty()) text += ',';
    if (list[i].with_next) {
      text += fmt::format("({};{}){}", cell(list[i]), cell(list[i + 1]), overlap_name);
      ++i;
    } else {
      text += cell(list[i]);
    }
  }
  return text;
}

}  // namespace

bool computes(RuntimePass pass) { return pass <= RuntimePass::backward_weight; }

RuntimeLists compute_only(const ActionLists& lists, const PipelineShape& shape) {
  RuntimeLists out(lists.size());
  for (std::size_t r = 0; r < lists.size(); ++r)
    for (const Action& a : lists[r]) out[r].push_back(runtime_action(shape, r, a));
  return out;
}

RuntimeLists with_messages(const ActionLists& lists, const PipelineShape& shape) {
  const SchedulePlay played = play(lists, shape, {.forward = 1, .backward_input = 1, .backward_weight = 1});
  RuntimeLists out(lists.size());
  for (const Moment& moment : moments(played)) {
    const Action& a = played.ranks[moment.rank].actions[moment.index].action;
    if (moment.starts) {
      out[moment.rank].push_back(runtime_action(shape, moment.rank, a));
    } else {
      send(out, shape, moment.rank, a);
    }
  }
  return out;
}

RuntimeLists with_sharding(const RuntimeLists& lists, const PipelineShape& shape) {
  const bool halves = shape.placement == Placement::bidirectional;  // each copy of a stage sees half of them
  const std::int64_t microbatches = halves ? shape.microbatches / 2 : shape.microbatches;
  RuntimeLists out;
  for (const auto& list : lists) out.push_back(Shards(list, stage_count(shape), microbatches).run());
  return out;
}

std::string to_csv(const RuntimeLists& lists) {
  std::string text;
  for (const auto& list : lists) text += row(list) + '\n';
  return text;
}

}  // namespace foretrain
