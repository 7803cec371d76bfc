#include <fmt/format.h>

#include "scenarios/schedule_file.h"
#include "scenarios/sections.h"
#include "workloads/schedules/runtime.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

/// The list `actions`: a text a rank, as a row of the file.
std::shared_ptr<const ListedSchedule> read_rows(MapReader& reader, const YamlNode& list, Problems& problems) {
  const std::string path = dotted(reader.path(), "actions");
  std::vector<ScheduleRow> rows;
  for (const YamlNode& item : list.items) {
    if (item.kind != YamlNode::Kind::scalar) {
      problems.add(item.place, path, fmt::format("found {}; allowed: a text such as \"0F0,0B0\"", described(item)));
    }
    SourcePlace place = item.place;
    if (item.quoted && place.at) ++place.at->column;
    rows.push_back({place, item.scalar});
  }
  if (rows.empty())
    reader.refuse("actions", fmt::format("found {}; allowed: a list of texts, one a rank", described(list)));
  return reader.any_bad("actions") ? nullptr : read_schedule_rows(rows, "parallelism.schedule.actions", path, problems);
}

std::shared_ptr<const ListedSchedule> read_listed(MapReader& reader, Problems& problems) {
  const std::string file = reader.text("file", std::string());
  const YamlNode* file_node = reader.child("file");
  const YamlNode* actions = reader.child("actions");
  if (actions != nullptr && file_node != nullptr) {
    reader.refuse("actions", "stands beside file; allowed: one of the two");
    return nullptr;
  }
  if (actions != nullptr) return read_rows(reader, *actions, problems);
  if (file_node == nullptr || reader.any_bad("file")) return nullptr;
  return read_schedule_file(file_node->place.source->folder / file, file_node->place, dotted(reader.path(), "file"),
                            problems);
}

std::int64_t chunks_unless_given(const ScheduleSpec& schedule) {
  if (schedule.kind == ScheduleKind::file) return schedule.listed ? schedule.listed->shape.chunks : 1;
  return usual_chunks(schedule.kind);
}

}  // namespace

ScheduleSpec read_schedule(const YamlNode* map, std::int64_t pp, Problems& problems) {
  ScheduleSpec schedule;
  if (map == nullptr) return schedule;
  MapReader reader(*map, "parallelism.schedule", problems);
  // Chunks without a kind can only mean interleaving, a list of actions only itself.
  const bool listed = reader.given("file") || reader.given("actions");
  const bool chunks = reader.given("virtual_stages") && pp > 1;
  const ScheduleKind unlisted = chunks ? ScheduleKind::interleaved_1f1b : ScheduleKind::one_f_one_b;
  schedule.kind = reader.choice<ScheduleKind>("kind", words_of<ScheduleKind>(all_schedule_kinds),
                                              listed ? ScheduleKind::file : unlisted);
  schedule.listed = read_listed(reader, problems);
  if (listed && schedule.kind != ScheduleKind::file) {
    reader.refuse(reader.given("file") ? "file" : "actions",
                  fmt::format("with schedule {}; allowed: with kind file", to_text(schedule.kind)));
    schedule.listed.reset();
  }
  schedule.virtual_stages = reader.integer("virtual_stages", {1, 4096}, chunks_unless_given(schedule));
  const bool grouped = reader.given("microbatch_group");
  const std::int64_t group = reader.integer("microbatch_group", {1, std::int64_t{1} << 24}, 1);
  if (grouped) schedule.microbatch_group = group;
  reader.finish();
  return schedule;
}

std::string write_schedule(const ScheduleSpec& schedule) {
  std::string text = fmt::format("kind: {}, virtual_stages: {}", to_text(schedule.kind), schedule.virtual_stages);
  if (schedule.microbatch_group) text += fmt::format(", microbatch_group: {}", *schedule.microbatch_group);
  if (schedule.listed) {
    text += ", actions: [";
    for (const auto& list : compute_only(schedule.listed->lists, schedule.listed->shape)) {
      std::string row = to_csv({list});
      row.pop_back();
      text += fmt::format("{}\"{}\"", text.ends_with('[') ? "" : ", ", row);
    }
    text += ']';
  }
  return fmt::format("{{{}}}", text);
}

}  // namespace foretrain
