// CSV as RFC 4180 has it: fields apart by commas, in quotes where they hold commas, quotes (doubled) or line ends.
//
//   const auto records = parse_csv(problems.source("runs.csv", "id,note\na,\"x, y\"\n", ""), problems);
//   records[1].fields[1].text == "x, y"
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scenarios/problems.h"

namespace foretrain {

struct CsvField {
  std::string text;        ///< without the quotes around it
  std::size_t offset = 0;  ///< of its first byte in the source
};
struct CsvRecord {
  std::vector<CsvField> fields;
};

/// The records of a text, empty lines left out. What is not CSV (a quote inside a bare field, text behind a closing
/// quote, a quote that never closes) is noted.
[[nodiscard]] std::vector<CsvRecord> parse_csv(const std::shared_ptr<const Source>& source, Problems& problems);

/// A field as it has to be written: in quotes if it needs them.
[[nodiscard]] std::string csv_text(const std::string& field);

}  // namespace foretrain
