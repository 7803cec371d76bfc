#include "scenarios/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "scenarios/catalogue.h"
#include "scenarios/schedule_cells.h"
#include "scenarios/utf8.h"
#include "workloads/schedules/play.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

constexpr std::string_view blanks = " \t\r";

/// A cell as it stands in its row.
struct Cell {
  std::string_view text;
  std::size_t column = 0;
};

std::vector<Cell> cells_of(std::string_view row) {
  std::vector<Cell> cells;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t end = std::min(row.find(',', begin), row.size());
    const std::size_t first = std::min(row.find_first_not_of(blanks, begin), end);
    const std::size_t last = first == end ? end : row.find_last_not_of(blanks, end - 1) + 1;
    cells.push_back({row.substr(first, last - first), first});
    begin = end + 1;
  }
  return cells;
}

/// An action and the column at which it stands.
struct Placed {
  RuntimeAction action;
  std::size_t column = 0;
};
using Row = std::vector<Placed>;

/// What one action is: pass, stage, microbatch.
using Key = std::tuple<RuntimePass, std::int64_t, std::int32_t>;
Key key_of(const RuntimeAction& a) { return {a.pass, a.stage, a.microbatch.value_or(0)}; }

std::string text_of(const RuntimeAction& a) {
  RuntimeAction alone = a;
  alone.with_next = false;
  std::string text = to_csv({{alone}});
  text.pop_back();
  return text;
}

class Reader {
 public:
  Reader(const std::vector<ScheduleRow>& rows, std::string path, Problems& problems)
      : texts_(rows), path_(std::move(path)), problems_(problems) {}

  std::shared_ptr<const ListedSchedule> read(const std::string& source) && {
    read_cells();
    if (mistakes_ > 0) return nullptr;
    measure();
    if (mistakes_ > 0) return nullptr;
    check_computes();
    check_messages();
    if (mistakes_ > 0) return nullptr;
    auto listed = std::make_shared<ListedSchedule>(ListedSchedule{source, shape_, lists()});
    check_order(listed->lists);
    if (mistakes_ > 0) return nullptr;
    return listed;
  }

 private:
  void refuse(std::size_t row, std::size_t column, const std::string& message) {
    SourcePlace place = texts_[row].place;
    if (place.at) place.at->column += column;
    problems_.add(place, path_, message);
    ++mistakes_;
  }

  // ---- cells ----

  void read_cells() {
    std::vector<std::vector<Cell>> cells;
    std::vector<std::string_view> all;
    for (const ScheduleRow& row : texts_) {
      cells.push_back(cells_of(row.text));
      for (const Cell& cell : cells.back()) all.push_back(cell.text);
    }
    const Spelling spelling = spelling_of(all);
    rows_.resize(cells.size());
    for (std::size_t r = 0; r < cells.size(); ++r) {
      for (const Cell& cell : cells[r]) {
        const ReadCell read = read_cell(cell.text, spelling);
        if (!read.mistake.empty()) refuse(r, cell.column, read.mistake);
        for (const RuntimeAction& action : read.actions) rows_[r].push_back({action, cell.column});
      }
      if (rows_[r].empty() && mistakes_ == 0)
        refuse(r, 0, fmt::format("rank {} does nothing; allowed: a row of actions for each rank", r));
    }
    refuse_idle_steps(cells);
  }

  void refuse_idle_steps(const std::vector<std::vector<Cell>>& cells) {
    for (const Row& row : rows_)
      for (const Placed& it : row) compute_only_ = compute_only_ && computes(it.action.pass);
    if (compute_only_) return;
    for (std::size_t r = 0; r < cells.size(); ++r) {
      for (const Cell& cell : cells[r]) {
        if (cell.text.empty())
          refuse(r, cell.column, "an idle step beside messages; allowed: idle steps where all actions compute");
      }
    }
  }

  // ---- the shape ----

  [[nodiscard]] bool fits(const PipelineShape& shape, std::size_t row, const RuntimeAction& a) const {
    const auto rank = static_cast<std::int64_t>(row);
    const auto holds = [&](std::int64_t microbatch) {
      return holder_of(shape, a.stage, static_cast<std::int32_t>(microbatch)).rank == rank;
    };
    return a.microbatch ? holds(*a.microbatch) : holds(0) || holds(shape.microbatches - 1);
  }

  [[nodiscard]] std::size_t misfits(const PipelineShape& shape) const {
    std::size_t count = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (const Placed& it : rows_[r]) count += fits(shape, r, it.action) ? 0 : 1;
    return count;
  }

  /// How many stages and microbatches there are, and which placement puts every action on the rank where it stands.
  void measure() {
    std::int64_t stages = 0;
    std::int64_t microbatches = 0;
    for (const Row& row : rows_) {
      for (const Placed& it : row) {
        stages = std::max(stages, it.action.stage + 1);
        microbatches = std::max<std::int64_t>(microbatches, it.action.microbatch.value_or(0) + 1);
      }
    }
    const auto ranks = static_cast<std::int64_t>(rows_.size());
    if (stages % ranks != 0) {
      refuse(0, 0, fmt::format("{} stages on {} ranks; allowed: as many stages on each rank", stages, ranks));
      return;
    }
    const std::int64_t chunks = stages / ranks;
    std::vector<PipelineShape> candidates;
    const auto add = [&](Placement placement, std::int64_t a_rank) {
      candidates.push_back({ranks, a_rank, microbatches, 1, placement});
    };
    add(Placement::loop, chunks);
    if (chunks > 1) add(Placement::vee, chunks);
    if (chunks == 1) add(Placement::bidirectional, 2);
    shape_ = *std::min_element(candidates.begin(), candidates.end(),
                               [&](const auto& a, const auto& b) { return misfits(a) < misfits(b); });
    refuse_misfits();
  }

  void refuse_misfits() {
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (const Placed& it : rows_[r]) {
        if (fits(shape_, r, it.action)) continue;
        refuse(r, it.column,
               fmt::format("{} on rank {}; allowed: stages in a loop (stage s on rank s mod {}), there and back (0 to "
                           "{}, {} to 0, ...), or each twice as in DualPipe",
                           text_of(it.action), r, shape_.ranks, shape_.ranks - 1, shape_.ranks - 1));
      }
    }
  }

  // ---- completeness ----

  void check_computes() {
    std::set<Key> done;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (const Placed& it : rows_[r]) {
        if (!it.action.microbatch || done.insert(key_of(it.action)).second) continue;
        refuse(r, it.column, fmt::format("{} stands there twice; allowed: once", text_of(it.action)));
      }
    }
    // A slip of one number may leave thousands missing: the first say enough.
    constexpr std::size_t enough = 20;
    for (std::int64_t stage = 0; stage < stage_count(shape_); ++stage)
      for (std::int32_t i = 0; i < shape_.microbatches && mistakes_ < enough; ++i) check_one(done, stage, i);
  }

  void check_one(const std::set<Key>& done, std::int64_t stage, std::int32_t microbatch) {
    const auto has = [&](RuntimePass pass) { return done.contains(Key{pass, stage, microbatch}); };
    const bool whole = has(RuntimePass::backward);
    const bool input = has(RuntimePass::backward_input);
    const bool weight = has(RuntimePass::backward_weight);
    const auto row = static_cast<std::size_t>(holder_of(shape_, stage, microbatch).rank);
    if (!has(RuntimePass::forward)) {
      refuse(row, 0, fmt::format("no {}F{}; allowed: each microbatch once forward", stage, microbatch));
    }
    if (whole ? input || weight : !input || !weight) {
      const std::string has_now = fmt::format("{}{}{}", whole ? "B" : "", input ? "I" : "", weight ? "W" : "");
      refuse(row, 0,
             fmt::format("stage {} has {} of microbatch {}; allowed: B, or I and W", stage,
                         has_now.empty() ? "no backward" : has_now, microbatch));
    }
  }

  // ---- messages ----

  void check_messages() {
    if (mistakes_ > 0) return;
    bool any = false;
    for (std::size_t r = 0; r < rows_.size(); ++r) any = expect_messages(r, /*only_look=*/true) || any;
    if (!any) return;  // lists of computes, with or without what FSDP does
    for (std::size_t r = 0; r < rows_.size(); ++r) expect_messages(r, /*only_look=*/false);
  }

  /// Each compute's message must be received before it and sent after it, and no others be there.
  bool expect_messages(std::size_t r, bool only_look) {
    std::map<Key, std::size_t> at;  // position of each message
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const RuntimeAction& a = rows_[r][i].action;
      if (a.microbatch && !computes(a.pass)) at[key_of(a)] = i;
    }
    if (only_look) return !at.empty();
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const RuntimeAction& a = rows_[r][i].action;
      if (!computes(a.pass) || a.pass == RuntimePass::backward_weight) continue;
      const bool forward = a.pass == RuntimePass::forward;
      const auto rank = static_cast<std::int64_t>(r);
      const Action action = as_action(a);
      if (const auto from = sender_to(shape_, rank, action); from && from->rank != rank)
        expect_message(r, i, at, forward ? RuntimePass::receive_forward : RuntimePass::receive_backward);
      if (const auto to = receiver_of(shape_, rank, action); to && to->rank != rank)
        expect_message(r, i, at, forward ? RuntimePass::send_forward : RuntimePass::send_backward);
    }
    for (const auto& [key, i] : at) {
      refuse(
          r, rows_[r][i].column,
          fmt::format("{} has no partner on another rank; allowed: messages between neighbouring stages of two ranks",
                      text_of(rows_[r][i].action)));
    }
    return true;
  }

  /// Takes the message that belongs to the compute at `i` out of `at`.
  void expect_message(std::size_t r, std::size_t i, std::map<Key, std::size_t>& at, RuntimePass pass) {
    const RuntimeAction& compute = rows_[r][i].action;
    const RuntimeAction message{pass, compute.stage, compute.microbatch, false};
    const bool before = pass == RuntimePass::receive_forward || pass == RuntimePass::receive_backward;
    const auto found = at.find(key_of(message));
    const bool right = found != at.end() && (before ? found->second < i : found->second > i);
    if (!right) {
      refuse(r, rows_[r][i].column,
             fmt::format("{} without {} {} it; allowed: no messages at all, or each", text_of(compute),
                         text_of(message), before ? "before" : "behind"));
    }
    if (found != at.end()) at.erase(found);
  }

  // ---- order ----

  [[nodiscard]] Action as_action(const RuntimeAction& a) const {
    const std::int32_t microbatch = a.microbatch.value_or(0);
    return {static_cast<Pass>(a.pass), holder_of(shape_, a.stage, microbatch).chunk, microbatch, a.with_next};
  }

  [[nodiscard]] ActionLists lists() const {
    ActionLists all(rows_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (const Placed& it : rows_[r])
        if (computes(it.action.pass)) all[r].push_back(as_action(it.action));
    }
    return all;
  }

  void check_order(const ActionLists& lists) {
    const SchedulePlay played = play(lists, shape_, {});
    for (std::size_t r = 0; r < lists.size(); ++r) {
      std::size_t left = played.ranks[r].actions.size();
      if (left == lists[r].size()) continue;
      const auto stuck = std::find_if(rows_[r].begin(), rows_[r].end(),
                                      [&](const Placed& it) { return computes(it.action.pass) && left-- == 0; });
      refuse(r, stuck->column,
             fmt::format("rank {} waits for ever before {}; allowed: an order in which all ranks come to their ends", r,
                         text_of(stuck->action)));
    }
  }

  const std::vector<ScheduleRow>& texts_;
  std::string path_;
  Problems& problems_;
  std::size_t mistakes_ = 0;
  bool compute_only_ = true;
  std::vector<Row> rows_;
  PipelineShape shape_;
};

/// One a line, without blank ones at the end.
std::vector<ScheduleRow> schedule_rows(const std::shared_ptr<const Source>& source) {
  std::vector<ScheduleRow> rows;
  std::string_view rest = source->text;
  for (std::size_t line = 0; !rest.empty(); ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    rows.push_back({{source, Position{line, 0}}, std::string(text)});
  }
  while (!rows.empty() && rows.back().text.find_first_not_of(blanks) == std::string::npos) rows.pop_back();
  return rows;
}

/// What keeps the bytes from being text that messages can show; empty if nothing does.
std::string no_text(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "nothing stands there";
  const auto wrong = utf8_error(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (wrong == i || text[i] == '\0' || control_length(text, i) > 0)
      return fmt::format("the byte 0x{:02x} at offset {} is no text", static_cast<unsigned char>(text[i]), i);
  }
  return {};
}

}  // namespace

std::shared_ptr<const ListedSchedule> read_schedule_rows(const std::vector<ScheduleRow>& rows,
                                                         const std::string& source, const std::string& path,
                                                         Problems& problems) {
  return Reader(rows, path, problems).read(source);
}

std::shared_ptr<const ListedSchedule> read_schedule_text(const std::shared_ptr<const Source>& source,
                                                         const std::string& path, Problems& problems) {
  if (const std::string wrong = no_text(source->text); !wrong.empty()) {
    problems.add({source, std::nullopt}, path, wrong + "; allowed: one row of actions a rank, such as 0F0,0B0");
    return nullptr;
  }
  return read_schedule_rows(schedule_rows(source), source->name, path, problems);
}

std::shared_ptr<const ListedSchedule> read_schedule_file(const std::filesystem::path& file, const SourcePlace& asked_at,
                                                         const std::string& path, Problems& problems) {
  FileText read = read_regular_file(file);
  std::string wrong = read.error;
  if (read.text && read.text->size() > yaml_bytes_max) wrong = fmt::format("larger than {} bytes", yaml_bytes_max);
  if (!wrong.empty()) {
    problems.add(asked_at, path,
                 fmt::format("'{}' cannot be read: {}; allowed: a schedule as PyTorch writes it, one row a rank",
                             shown(file.string()), wrong));
    return nullptr;
  }
  return read_schedule_text(problems.source(file.string(), std::move(*read.text), file.parent_path()), path, problems);
}

}  // namespace foretrain
