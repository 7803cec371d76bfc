// PublishedTable: a CSV of training runs that somebody measured and published, a row each; docs/validation.md lists the
// columns.
//
//   const PublishedTable table = load_published("runs.csv");
//   table.runs[0].whole("tp") == 8;
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

class PublishedRun {
 public:
  PublishedRun() = default;
  explicit PublishedRun(std::map<std::string, std::string, std::less<>> cells) : cells_(std::move(cells)) {}

  /// What the row says; empty where it says nothing.
  [[nodiscard]] const std::string& text(std::string_view column) const;
  [[nodiscard]] std::optional<std::int64_t> whole(std::string_view column) const;
  [[nodiscard]] std::optional<double> number(std::string_view column) const;
  void set(const std::string& column, const std::string& value) { cells_[column] = value; }

  [[nodiscard]] const std::string& id() const { return text("id"); }
  [[nodiscard]] const std::string& family() const { return text("family"); }

 private:
  std::map<std::string, std::string, std::less<>> cells_;
};

struct PublishedTable {
  std::vector<PublishedRun> runs;  ///< in the order of the file
};

/// Columns of whole and of other numbers; all others hold text.
[[nodiscard]] bool whole_column(std::string_view column);
[[nodiscard]] bool number_column(std::string_view column);

/// Throws InputError with everything that is wrong with the table: absent columns, numbers that are none, two runs of
/// one id.
[[nodiscard]] PublishedTable load_published(const std::filesystem::path& file);
/// The same from text; `name` stands for the file in messages.
[[nodiscard]] PublishedTable parse_published(const std::string& text, const std::string& name);

}  // namespace foretrain
