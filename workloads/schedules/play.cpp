#include "workloads/schedules/play.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace foretrain {
namespace {

/// When each result was made: of forward, of the input gradient.
class Results {
 public:
  explicit Results(const PipelineShape& shape)
      : microbatches_(shape.microbatches),
        forward_(static_cast<std::size_t>(stage_count(shape) * shape.microbatches)),
        backward_(forward_.size()) {}

  [[nodiscard]] std::optional<double>& at(bool forward, std::int64_t stage, std::int32_t microbatch) {
    auto& table = forward ? forward_ : backward_;
    return table[static_cast<std::size_t>(stage * microbatches_ + microbatch)];
  }

 private:
  std::int64_t microbatches_;
  std::vector<std::optional<double>> forward_, backward_;
};

class Player {
 public:
  Player(const ActionLists& lists, const PipelineShape& shape, const PassTimes& times)
      : lists_(lists), shape_(shape), times_(times), results_(shape), cursors_(lists.size()) {
    played_.ranks.resize(lists.size());
  }

  SchedulePlay run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < lists_.size(); ++r)
        while (step(r)) moved = true;
    }
    for (std::size_t r = 0; r < lists_.size() && played_.stuck.empty(); ++r) {
      if (cursors_[r] < lists_[r].size())
        played_.stuck = fmt::format("rank {} waits for ever before {}", r, described(lists_[r][cursors_[r]]));
    }
    return std::move(played_);
  }

 private:
  /// Runs the next action or block of a rank, if what it needs is known.
  bool step(std::size_t r) {
    const auto& list = lists_[r];
    if (cursors_[r] == list.size()) return false;
    const bool block = list[cursors_[r]].with_next && cursors_[r] + 1 < list.size();
    const std::span<const Action> now(list.data() + cursors_[r], block ? 2U : 1U);
    PlayedRank& rank = played_.ranks[r];
    double start = rank.actions.empty() ? 0 : rank.actions.back().end;
    for (const Action& a : now) {
      const auto ready = ready_at(r, a);
      if (!ready) return false;
      start = std::max(start, *ready);
    }
    double duration = 0;
    for (const Action& a : now) duration += time_of(a.pass, times_);
    if (block) duration = times_.block.value_or(duration);
    rank.work += duration;
    for (const Action& a : now) finish(r, {a, start, start + duration});
    cursors_[r] += now.size();
    return true;
  }

  /// When what the action needs is there; nothing if that is not known yet.
  std::optional<double> ready_at(std::size_t r, const Action& a) {
    const auto rank = static_cast<std::int64_t>(r);
    const std::int64_t stage = stage_of(shape_, rank, a.chunk);
    if (a.pass == Pass::backward_weight) return results_.at(false, stage, a.microbatch);
    const bool forward = a.pass == Pass::forward;
    double ready = 0;
    if (const auto sender = sender_to(shape_, rank, a)) {
      const auto made = results_.at(forward, stage + (forward ? -1 : 1), a.microbatch);
      if (!made) return std::nullopt;
      ready = *made + (sender->rank == rank ? 0 : times_.latency);
    }
    if (forward) return ready;
    const auto own = results_.at(true, stage, a.microbatch);
    if (!own) return std::nullopt;
    return std::max(ready, *own);
  }

  void finish(std::size_t r, const PlayedAction& done) {
    const Action& a = done.action;
    if (a.pass != Pass::backward_weight) {
      const std::int64_t stage = stage_of(shape_, static_cast<std::int64_t>(r), a.chunk);
      results_.at(a.pass == Pass::forward, stage, a.microbatch) = done.end;
    }
    played_.ranks[r].actions.push_back(done);
  }

  const ActionLists& lists_;
  const PipelineShape& shape_;
  const PassTimes& times_;
  Results results_;
  std::vector<std::size_t> cursors_;
  SchedulePlay played_;
};

void count_live(PlayedRank& rank) {
  std::int64_t live = 0;
  std::int64_t until_input = 0;
  for (const PlayedAction& played : rank.actions) {
    const Pass pass = played.action.pass;
    if (pass == Pass::forward) {
      rank.peak = std::max(rank.peak, ++live);
      rank.peak_until_input = std::max(rank.peak_until_input, ++until_input);
    }
    if (pass == Pass::backward || pass == Pass::backward_weight) --live;
    if (pass == Pass::backward || pass == Pass::backward_input) --until_input;
  }
}

}  // namespace

double time_of(Pass pass, const PassTimes& times) {
  switch (pass) {
    case Pass::forward:
      return times.forward;
    case Pass::backward:
      return times.backward();
    case Pass::backward_input:
      return times.backward_input;
    case Pass::backward_weight:
      return times.backward_weight;
  }
  return 0;
}

std::string described(const Action& action) {
  const char* pass = "forward";
  if (action.pass == Pass::backward) pass = "backward";
  if (action.pass == Pass::backward_input) pass = "input gradient";
  if (action.pass == Pass::backward_weight) pass = "weight gradient";
  return fmt::format("{} of microbatch {} on chunk {}", pass, action.microbatch, action.chunk);
}

double PlayedRank::span() const { return actions.empty() ? 0 : actions.back().end - actions.front().start; }

double SchedulePlay::makespan() const {
  double end = 0;
  for (const PlayedRank& rank : ranks)
    if (!rank.actions.empty()) end = std::max(end, rank.actions.back().end);
  return end;
}

double SchedulePlay::bubble_fraction() const {
  double work = 0;
  for (const PlayedRank& rank : ranks) work += rank.work;
  const double whole = makespan() * static_cast<double>(ranks.size());
  return whole == 0 ? 0 : 1 - work / whole;
}

double SchedulePlay::longest_span() const {
  double longest = 0;
  for (const PlayedRank& rank : ranks) longest = std::max(longest, rank.span());
  return longest;
}

SchedulePlay play(const ActionLists& lists, const PipelineShape& shape, const PassTimes& times) {
  SchedulePlay played = Player(lists, shape, times).run();
  for (PlayedRank& rank : played.ranks) count_live(rank);
  return played;
}

}  // namespace foretrain
