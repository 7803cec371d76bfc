// Which shapes a schedule can run. Each small function looks at one subject; sources of the rules: docs/schedules.md.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "workloads/schedules/rules.h"

namespace foretrain {
namespace {

constexpr const char* kind_key = "parallelism.schedule.kind";
constexpr const char* virtual_key = "parallelism.schedule.virtual_stages";
constexpr const char* group_key = "parallelism.schedule.microbatch_group";
constexpr const char* file_key = "parallelism.schedule.file";
constexpr const char* pp_key = "parallelism.pp";
constexpr const char* batch_key = "training.global_batch";

bool is_dual(ScheduleKind kind) { return kind == ScheduleKind::dualpipe || kind == ScheduleKind::dualpipev; }

std::vector<std::string_view> grouped_kinds() {
  std::vector<std::string_view> names;
  for (const ScheduleKind kind : all_schedule_kinds)
    if (runs_in_groups(kind)) names.push_back(to_text(kind));
  return names;
}

/// One group of all; or groups of at least p, for with fewer the warm-up waits for itself, and a tail of none or at
/// least p (Megatron-Core, `microbatch_group_size_per_vp_stage`).
bool group_fits(std::int64_t ranks, std::int64_t microbatches, std::int64_t group) {
  if (group < 1 || group > microbatches) return false;
  if (group == microbatches) return true;
  const std::int64_t tail = microbatches % group;
  return group >= ranks && (tail == 0 || tail >= ranks);
}

std::int64_t nearest_group(std::int64_t ranks, std::int64_t microbatches, std::int64_t wanted) {
  std::int64_t best = microbatches;
  for (std::int64_t group = 1; group < microbatches; ++group) {
    if (group_fits(ranks, microbatches, group) && std::abs(group - wanted) < std::abs(best - wanted)) best = group;
  }
  return best;
}

class Check {
 public:
  Check(const ScheduleSpec& spec, std::int64_t ranks, std::optional<std::int64_t> microbatches)
      : spec_(spec), ranks_(ranks), microbatches_(microbatches) {}

  std::vector<PlanError> run() && {
    if (spec_.kind == ScheduleKind::file) {
      file();
    } else {
      chunks();
      ranks();
      if (runs_in_groups(spec_.kind)) {
        groups();
      } else if (spec_.microbatch_group) {
        add({group_key, kind_key}, fmt::format("microbatch_group {} with schedule {}; allowed: with {}",
                                               *spec_.microbatch_group, kind(), fmt::join(grouped_kinds(), ", ")));
      }
      if (is_dual(spec_.kind)) directions();
    }
    return std::move(errors_);
  }

 private:
  [[nodiscard]] std::string_view kind() const { return to_text(spec_.kind); }
  void add(std::vector<std::string> keys, std::string message) {
    errors_.push_back({std::move(keys), std::move(message)});
  }

  void chunks() {
    const ChunkRange range = chunks_allowed(spec_.kind);
    const bool overlapped = spec_.kind == ScheduleKind::interleaved_1f1b_ep_overlap && ranks_ > 1;
    const std::int64_t least = overlapped ? 2 : range.least;
    if (spec_.virtual_stages >= least && spec_.virtual_stages <= range.most) return;
    std::string allowed = fmt::format("{} or more, or schedule 1f1b", least);
    if (range.most == 1) allowed = "1, or more with interleaved_1f1b";
    if (range.most == range.least && range.most > 1) allowed = fmt::format("{}", range.most);
    add({virtual_key, kind_key},
        fmt::format("virtual_stages {} with schedule {}; allowed: {}", spec_.virtual_stages, kind(), allowed));
  }

  void ranks() {
    if (spec_.kind == ScheduleKind::interleaved_1f1b && ranks_ < 2) {
      add({kind_key, pp_key},
          fmt::format("schedule {} with pp {}; allowed: pp 2 or more, or schedule 1f1b", kind(), ranks_));
    }
    if (spec_.kind == ScheduleKind::dualpipe && ranks_ % 2 != 0) {
      const std::string nearest = ranks_ == 1 ? "2" : fmt::format("{} or {}", ranks_ - 1, ranks_ + 1);
      add({pp_key, kind_key},
          fmt::format("schedule {} with pp {}; allowed: even numbers; nearest: {}", kind(), ranks_, nearest));
    }
  }

  void groups() {
    if (!microbatches_) return;
    const std::int64_t m = *microbatches_;
    const std::int64_t group = spec_.microbatch_group.value_or(usual_group(ranks_, m));
    if (group_fits(ranks_, m, group)) return;
    const std::int64_t nearest = nearest_group(ranks_, m, group);
    if (spec_.microbatch_group) {
      add({group_key, batch_key, pp_key},
          fmt::format("microbatch_group {} for {} microbatches on pp {}; allowed: {}, or {} or more with none or at "
                      "least {} left for a last group; nearest: {}",
                      group, m, ranks_, m, ranks_, ranks_, nearest));
    } else {
      const std::int64_t below = m / ranks_ * ranks_;
      const std::int64_t fitting = m - below <= below + ranks_ - m ? below : below + ranks_;
      add({batch_key, pp_key, group_key},
          fmt::format("{} microbatches do not make {} equal groups, as {} on pp {} needs; allowed: multiples of {}, or "
                      "another microbatch_group; nearest: {} microbatches, or microbatch_group {}",
                      m, m / ranks_, kind(), ranks_, ranks_, fitting, nearest));
    }
  }

  /// Both directions fill the pipeline before they meet (deepseek-ai/DualPipe asserts the same).
  void directions() {
    const bool even = spec_.kind == ScheduleKind::dualpipe;
    if (!microbatches_ || (*microbatches_ >= 2 * ranks_ && (!even || *microbatches_ % 2 == 0))) return;
    const std::int64_t m = *microbatches_;  // odd, if it is enough
    const std::string nearest = m < 2 * ranks_ ? fmt::format("{}", 2 * ranks_) : fmt::format("{} or {}", m - 1, m + 1);
    add({batch_key, kind_key, pp_key},
        fmt::format("{} microbatches with schedule {} on pp {}; allowed: {}{} or more; nearest: {}", *microbatches_,
                    kind(), ranks_, even ? "an even number, " : "", 2 * ranks_, nearest));
  }

  void file() {
    if (!spec_.listed) {
      add({file_key, "parallelism.schedule.actions", kind_key},
          "schedule file without a file; allowed: file: SCHEDULE.csv, or actions");
      return;
    }
    const PipelineShape& has = spec_.listed->shape;
    agree({pp_key, file_key}, "pp", ranks_, has.ranks, "ranks");
    agree({virtual_key, file_key}, "virtual_stages", spec_.virtual_stages, has.chunks, "chunks a rank");
    if (microbatches_) agree({batch_key, file_key}, "microbatches", *microbatches_, has.microbatches, "microbatches");
    if (spec_.microbatch_group) {
      add({group_key, kind_key}, fmt::format("microbatch_group {} with schedule file; allowed: none, the file has the "
                                             "order",
                                             *spec_.microbatch_group));
    }
  }

  void agree(std::vector<std::string> keys, const char* name, std::int64_t value, std::int64_t has, const char* what) {
    if (value == has) return;
    add(std::move(keys), fmt::format("{} is {}, but the schedule of {} has {} {}; allowed: {}", name, value,
                                     spec_.listed->source, has, what, has));
  }

  const ScheduleSpec& spec_;
  std::int64_t ranks_;
  std::optional<std::int64_t> microbatches_;
  std::vector<PlanError> errors_;
};

}  // namespace

std::vector<PlanError> check_schedule(const ScheduleSpec& spec, std::int64_t ranks,
                                      std::optional<std::int64_t> microbatches) {
  return Check(spec, ranks, microbatches).run();
}

std::vector<PlanError> check_schedule(const Plan& plan, const Training& training) {
  const bool whole = training.global_batch % (training.microbatch * plan.dp) == 0;
  const auto count = whole ? std::optional(microbatches(plan, training)) : std::nullopt;
  auto errors = check_schedule(plan.schedule, plan.pp, count);
  const bool overlapped = plan.schedule.kind == ScheduleKind::interleaved_1f1b_ep_overlap;
  // Two neighbours on both sides at once would wait for each other (Megatron-Core's assertion).
  if (plan.schedule.kind == ScheduleKind::interleaved_1f1b && plan.pp == 2 && !plan.overlap.pp) {
    errors.push_back({{"parallelism.overlap.pp", pp_key, kind_key},
                      "schedule interleaved_1f1b with pp 2 and without overlap of pp; allowed: overlap pp true, or pp "
                      "3 or more"});
  }
  if (overlapped && training.recompute == Recompute::full) {
    errors.push_back({{"training.recompute", kind_key},
                      "recompute full with schedule interleaved_1f1b_ep_overlap; allowed: none, selective"});
  }
  return errors;
}

}  // namespace foretrain
