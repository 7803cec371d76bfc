#include <fmt/format.h>

#include <array>

#include "workloads/schedules/play.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

std::string outside(const Action& a, const PipelineShape& shape, std::int64_t rank) {
  if (a.chunk < 0 || a.chunk >= shape.chunks || a.microbatch < 0 || a.microbatch >= shape.microbatches)
    return fmt::format("rank {} runs {}, but there are {} chunks and {} microbatches", rank, described(a), shape.chunks,
                       shape.microbatches);
  const Holder holder = holder_of(shape, stage_of(shape, rank, a.chunk), a.microbatch);
  if (holder != Holder{rank, a.chunk})
    return fmt::format("rank {} runs {}, which is for chunk {} of rank {}", rank, described(a), holder.chunk,
                       holder.rank);
  return {};
}

/// A block is a forward followed by a backward.
std::string no_block(const std::vector<Action>& list, std::size_t at, std::int64_t rank) {
  const bool paired = list[at].pass == Pass::forward && at + 1 < list.size() && !list[at + 1].with_next &&
                      (list[at + 1].pass == Pass::backward || list[at + 1].pass == Pass::backward_input);
  if (paired) return {};
  return fmt::format("rank {}: {} begins an overlapped block, but is no forward with a backward behind it", rank,
                     described(list[at]));
}

std::string misplaced(const ActionLists& lists, const PipelineShape& shape) {
  if (static_cast<std::int64_t>(lists.size()) != shape.ranks)
    return fmt::format("{} lists for {} ranks", lists.size(), shape.ranks);
  for (std::size_t r = 0; r < lists.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    for (std::size_t i = 0; i < lists[r].size(); ++i) {
      if (auto wrong = outside(lists[r][i], shape, rank); !wrong.empty()) return wrong;
      if (!lists[r][i].with_next) continue;
      if (auto wrong = no_block(lists[r], i, rank); !wrong.empty()) return wrong;
    }
  }
  return {};
}

/// How often each pass runs, by pass.
using Counts = std::array<int, 4>;

std::string incomplete(const Counts& n) {
  const auto of = [&](Pass pass) { return n[static_cast<std::size_t>(pass)]; };
  const auto times = [](int count, const char* what) { return fmt::format("has {} {} instead of one", count, what); };
  if (of(Pass::forward) != 1) return times(of(Pass::forward), "forwards");
  const int whole = of(Pass::backward);
  const int input = of(Pass::backward_input);
  const int weight = of(Pass::backward_weight);
  if (whole + input != 1) return times(whole + input, "backwards");
  if (weight != input) return times(weight, input == 1 ? "weight gradients" : "weight gradients beside a backward");
  return {};
}

std::string incomplete(const ActionLists& lists, const PipelineShape& shape) {
  std::vector<Counts> counts(static_cast<std::size_t>(stage_count(shape) * shape.microbatches));
  for (std::size_t r = 0; r < lists.size(); ++r) {
    for (const Action& a : lists[r]) {
      const std::int64_t stage = stage_of(shape, static_cast<std::int64_t>(r), a.chunk);
      ++counts[static_cast<std::size_t>(stage * shape.microbatches + a.microbatch)][static_cast<std::size_t>(a.pass)];
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto wrong = incomplete(counts[i]);
    if (wrong.empty()) continue;
    const auto m = static_cast<std::size_t>(shape.microbatches);
    return fmt::format("stage {} {} of microbatch {}", i / m, wrong, i % m);
  }
  return {};
}

}  // namespace

std::string verify(const ActionLists& lists, const PipelineShape& shape) {
  if (auto wrong = misplaced(lists, shape); !wrong.empty()) return wrong;
  if (auto wrong = incomplete(lists, shape); !wrong.empty()) return wrong;
  return play(lists, shape, {}).stuck;
}

std::string verify(const ScheduleSpec& spec, const PipelineShape& shape) {
  const ActionLists lists = all_actions(spec, shape);
  if (auto wrong = verify(lists, shape); !wrong.empty()) return wrong;
  const SchedulePlay played = play(lists, shape, {});
  for (std::size_t r = 0; r < played.ranks.size(); ++r) {
    const std::int64_t budget = activation_budget(spec, shape, static_cast<std::int64_t>(r));
    const std::int64_t peak = played.ranks[r].peak;
    if (peak > budget) return fmt::format("rank {} holds {} activations, over its budget of {}", r, peak, budget);
  }
  return {};
}

}  // namespace foretrain
