#include "tools/import/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "scenarios/problems.h"

namespace foretrain {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view take_word(std::string_view& text) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) {
    text = {};
    return {};
  }
  text.remove_prefix(first);
  const std::string_view word = text.substr(0, text.find_first_of(blanks));
  text.remove_prefix(word.size());
  return word;
}

std::optional<std::uint32_t> whole_number(std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

bool Lines::next() {
  if (rest_.empty()) return false;
  const auto end = rest_.find('\n');
  line_ = rest_.substr(0, end);
  offset_ = next_offset_;
  const std::size_t taken = end == std::string_view::npos ? rest_.size() : end + 1;
  next_offset_ += taken;
  rest_.remove_prefix(taken);
  return true;
}

void Cursor::skip_blanks() { at_ = std::min(line_.find_first_not_of(blanks, at_), line_.size()); }

bool Cursor::accept(char c) {
  if (at_end() || line_[at_] != c) return false;
  ++at_;
  return true;
}

void Cursor::expect(char c) {
  if (!accept(c)) fail(fmt::format("found {}; allowed: '{}'", found(), c));
}

std::uint32_t Cursor::number(std::string_view what, std::uint32_t most) {
  const auto end = std::min(line_.find_first_not_of("0123456789", at_), line_.size());
  const auto value = whole_number(line_.substr(at_, end - at_), most);
  if (!value) fail(fmt::format("found {}; allowed: {}, a whole number up to {}", found(), what, most));
  at_ = end;
  return *value;
}

std::string_view Cursor::word() {
  const auto end = std::min(line_.find_first_of(blanks, at_), line_.size());
  const std::string_view text = line_.substr(at_, end - at_);
  at_ = end;
  return text;
}

std::string_view Cursor::quoted(std::string_view what) {
  if (peek() != '"') fail(fmt::format("found {}; allowed: {} in quotes", found(), what));
  const auto end = line_.find('"', at_ + 1);
  if (end == std::string_view::npos) fail(fmt::format("the quotes of {} do not end; allowed: a closing \"", what));
  const std::string_view text = line_.substr(at_ + 1, end - at_ - 1);
  input_.check_words(offset() + 1, what, text);
  at_ = end + 1;
  return text;
}

void Cursor::skip_past(char c) {
  const auto end = line_.find(c, at_);
  if (end == std::string_view::npos) fail(fmt::format("no '{}' follows; allowed: one", c));
  at_ = end + 1;
}

std::string Cursor::found() const {
  const std::string_view here = trimmed(line_.substr(at_));
  return here.empty() ? "the end of the line" : fmt::format("'{}'", shown(here.substr(0, here.find_first_of(blanks))));
}

}  // namespace foretrain
