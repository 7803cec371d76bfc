// Reads a table of published figures from shared/reference beside the source tree; tests skip where it is absent.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace foretrain {

using ReferenceRow = std::map<std::string, std::string>;

inline std::filesystem::path reference_file(const std::string& name) {
  return std::filesystem::path(FORETRAIN_SOURCE_DIR) / ".." / "shared" / "reference" / name;
}

/// Fields of one line of CSV; quotes protect commas.
inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

/// Rows by column name; empty if the file is absent.
inline std::vector<ReferenceRow> reference_rows(const std::string& name) {
  std::ifstream in(reference_file(name));
  std::string line;
  std::vector<ReferenceRow> rows;
  if (!std::getline(in, line)) return rows;
  const std::vector<std::string> columns = csv_fields(line);
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = csv_fields(line);
    ReferenceRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < columns.size() && i < fields.size(); ++i) row[columns[i]] = fields[i];
  }
  return rows;
}

}  // namespace foretrain
