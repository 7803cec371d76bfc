// A schedule that somebody wrote down, read from PyTorch's schedule CSV (formats compute_only and compute_comms; what
// is not compute is checked and then left out, since the program generator sends what has to be sent).
//
//   Problems problems;
//   auto listed = read_schedule_text(source, "", problems);      // null: every mistake is in problems, with its place
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/problems.h"
#include "workloads/schedules/action.h"

namespace foretrain {

/// The row of one rank and where it begins.
struct ScheduleRow {
  SourcePlace place;
  std::string text;
};

/// Nothing if the rows hold mistakes, which go to `problems` under the dotted key `path`. `source` names the rows.
[[nodiscard]] std::shared_ptr<const ListedSchedule> read_schedule_rows(const std::vector<ScheduleRow>& rows,
                                                                       const std::string& source,
                                                                       const std::string& path, Problems& problems);

/// The whole text of a file.
[[nodiscard]] std::shared_ptr<const ListedSchedule> read_schedule_text(const std::shared_ptr<const Source>& source,
                                                                       const std::string& path, Problems& problems);

/// From a file; one that cannot be read is a mistake at `asked_at`.
[[nodiscard]] std::shared_ptr<const ListedSchedule> read_schedule_file(const std::filesystem::path& file,
                                                                       const SourcePlace& asked_at,
                                                                       const std::string& path, Problems& problems);

}  // namespace foretrain
