#include "scenarios/csv.h"

#include "scenarios/yaml_node.h"

namespace foretrain {
namespace {

class CsvReader {
 public:
  CsvReader(const std::shared_ptr<const Source>& source, Problems& problems)
      : source_(source), text_(source->text), problems_(problems) {}

  std::vector<CsvRecord> read() {
    std::vector<CsvRecord> records;
    while (at_ < text_.size()) {
      CsvRecord record = read_record();
      const bool empty = record.fields.size() == 1 && record.fields.front().text.empty();
      if (!empty) records.push_back(std::move(record));
    }
    return records;
  }

 private:
  CsvRecord read_record() {
    CsvRecord record;
    while (true) {
      record.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted_field() : bare_field());
      if (at_ >= text_.size()) return record;
      if (text_[at_++] == '\n') return record;  // else the comma before the next field
    }
  }

  /// Up to the comma or the line's end, a carriage return before it left out.
  std::string rest_of_field() {
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string text = text_.substr(at_, end - at_);
    at_ = end;
    const bool line_ends = end == text_.size() || text_[end] == '\n';
    if (line_ends && text.ends_with('\r')) text.pop_back();
    return text;
  }

  CsvField bare_field() {
    const std::size_t begin = at_;
    CsvField field{rest_of_field(), begin};
    if (const auto quote = field.text.find('"'); quote != std::string::npos)
      refuse(begin + quote, "a quote inside a field; allowed: the whole field in quotes, its own quotes doubled");
    return field;
  }

  CsvField quoted_field() {
    const std::size_t begin = at_;
    CsvField field{{}, begin};
    for (++at_; at_ < text_.size();) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == std::string::npos) break;
      field.text += text_.substr(at_, quote - at_);
      at_ = quote + 1;
      if (at_ >= text_.size() || text_[at_] != '"') {
        const std::size_t after = at_;
        if (!rest_of_field().empty()) refuse(after, "text behind a closing quote; allowed: a comma or the line's end");
        return field;
      }
      field.text += text_[at_++];
    }
    refuse(begin, "a quote that never closes; allowed: a closing quote");
    at_ = text_.size();
    return field;
  }

  void refuse(std::size_t offset, const std::string& message) {
    problems_.add({source_, position_of(text_, offset)}, "", message);
  }

  const std::shared_ptr<const Source>& source_;
  const std::string& text_;
  Problems& problems_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<CsvRecord> parse_csv(const std::shared_ptr<const Source>& source, Problems& problems) {
  if (!readable(source, problems)) return {};
  return CsvReader(source, problems).read();
}

std::string csv_text(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

}  // namespace foretrain
