#include "scenarios/published/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "scenarios/catalogue.h"
#include "scenarios/csv.h"
#include "scenarios/scenario.h"

namespace foretrain {
namespace {

constexpr std::string_view needed_columns[] = {"id",    "family", "source", "system", "gpu", "n_gpus",
                                               "model", "seq",    "tp",     "pp",     "mbs", "gbs"};
constexpr std::string_view whole_columns[] = {
    "n_gpus", "gpus_per_node", "layers",  "hidden", "ffn_hidden", "heads", "kv_heads",
    "vocab",  "seq",           "experts", "topk",   "tp",         "sp",    "cp",
    "pp",     "vpp",           "ep",      "dp",     "gbs"};
constexpr std::string_view number_columns[] = {
    "mbs", "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_pct", "hfu_pct", "mem_gb"};

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {  // from_chars also reads "inf" and "nan"
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

class TableReader {
 public:
  explicit TableReader(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  PublishedTable read(Problems& problems) {
    const std::vector<CsvRecord> records = parse_csv(source_, problems);
    if (records.empty()) {
      if (problems.empty())
        refuse(problems, 0, "", "no header; allowed: a table of runs, its columns in the first line");
      return {};
    }
    read_header(records.front(), problems);
    PublishedTable table;
    for (std::size_t i = 1; i < records.size(); ++i) read_row(records[i], table, problems);
    return table;
  }

 private:
  void read_header(const CsvRecord& header, Problems& problems) {
    for (const CsvField& field : header.fields) {
      if (std::find(columns_.begin(), columns_.end(), field.text) != columns_.end())
        refuse(problems, field.offset, field.text, "a column of this name stands before; allowed: each once");
      columns_.push_back(field.text);
    }
    std::vector<std::string> strange;  // what an absent column may be called by a slip
    std::copy_if(columns_.begin(), columns_.end(), std::back_inserter(strange), [](const std::string& column) {
      return std::find(std::begin(needed_columns), std::end(needed_columns), column) == std::end(needed_columns) &&
             !whole_column(column) && !number_column(column);
    });
    for (const std::string_view column : needed_columns) {
      if (std::find(columns_.begin(), columns_.end(), column) == columns_.end()) {
        refuse(problems, 0, std::string(column),
               fmt::format("the column is absent{}; allowed: a table that has it", suggestion(column, strange)));
      }
    }
  }

  void read_row(const CsvRecord& record, PublishedTable& table, Problems& problems) {
    if (record.fields.size() != columns_.size()) {
      refuse(problems, record.fields.front().offset, "",
             fmt::format("{} fields under {} columns; allowed: one a column", record.fields.size(), columns_.size()));
      return;
    }
    std::map<std::string, std::string, std::less<>> cells;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const CsvField& field = record.fields[i];
      check(columns_[i], field, problems);
      cells.emplace(columns_[i], field.text);
    }
    const auto& id = cells["id"];
    const auto same = [&](const PublishedRun& other) { return other.id() == id; };
    if (id.empty() || std::any_of(table.runs.begin(), table.runs.end(), same)) {
      refuse(problems, record.fields.front().offset, "id",
             id.empty() ? "no id; allowed: a name of its own for every run"
                        : fmt::format("two runs are called '{}'; allowed: a name of its own for every run", shown(id)));
    }
    table.runs.emplace_back(std::move(cells));
  }

  void check(const std::string& column, const CsvField& field, Problems& problems) const {
    if (field.text.empty()) return;
    const auto found = [&] { return fmt::format("found '{}'", shown(field.text)); };
    if (whole_column(column) && number_in<std::int64_t>(field.text).value_or(-1) < 0)
      refuse(problems, field.offset, column, found() + "; allowed: a whole number, or nothing where it is unknown");
    if (number_column(column) && !(number_in<double>(field.text).value_or(-1) > 0))
      refuse(problems, field.offset, column, found() + "; allowed: a number above 0, or nothing where it is unknown");
  }

  void refuse(Problems& problems, std::size_t offset, const std::string& column, const std::string& message) const {
    problems.add({source_, position_of(source_->text, offset)}, column, message);
  }

  std::shared_ptr<const Source> source_;
  std::vector<std::string> columns_;
};

}  // namespace

bool whole_column(std::string_view column) {
  return std::find(std::begin(whole_columns), std::end(whole_columns), column) != std::end(whole_columns);
}

bool number_column(std::string_view column) {
  return std::find(std::begin(number_columns), std::end(number_columns), column) != std::end(number_columns);
}

const std::string& PublishedRun::text(std::string_view column) const {
  static const std::string nothing;
  const auto at = cells_.find(column);
  return at == cells_.end() ? nothing : at->second;
}

std::optional<std::int64_t> PublishedRun::whole(std::string_view column) const {
  return number_in<std::int64_t>(text(column));
}

std::optional<double> PublishedRun::number(std::string_view column) const { return number_in<double>(text(column)); }

PublishedTable parse_published(const std::string& text, const std::string& name) {
  Problems problems;
  PublishedTable table = TableReader(problems.source(name, text, "")).read(problems);
  problems.throw_if_any();
  return table;
}

PublishedTable load_published(const std::filesystem::path& file) {
  const FileText read = read_file(file);
  if (!read.text)
    throw InputError(
        fmt::format("{}: cannot be read: {}; allowed: a CSV table of runs", shown(file.string()), read.error));
  return parse_published(*read.text, file.string());
}

}  // namespace foretrain
