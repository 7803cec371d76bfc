// Reading text line by line: what the text formats share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/input_text.h"

namespace foretrain {

inline constexpr std::string_view blanks = " \t\r\f\v";

/// Without blanks at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);
/// Takes the first word, between blanks, off the front of `text`; empty at its end.
std::string_view take_word(std::string_view& text);
/// All digits, at most `most`.
[[nodiscard]] std::optional<std::uint32_t> whole_number(std::string_view text, std::uint32_t most);

/// The lines of a text, each with the offset at which it begins.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  /// False after the last line.
  bool next();
  [[nodiscard]] std::string_view line() const { return line_; }
  [[nodiscard]] std::size_t offset() const { return offset_; }

 private:
  std::string_view rest_, line_;
  std::size_t offset_ = 0, next_offset_ = 0;
};

/// A place inside one line.
class Cursor {
 public:
  Cursor(const InputText& input, std::string_view line, std::size_t offset)
      : input_(input), line_(line), offset_(offset) {}

  void skip_blanks();
  [[nodiscard]] bool at_end() const { return at_ >= line_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : line_[at_]; }
  /// Steps over `c` if it is next.
  bool accept(char c);
  /// The same; a mistake if it is not.
  void expect(char c);
  /// A whole number up to `most`; `what` names it in the message.
  std::uint32_t number(std::string_view what, std::uint32_t most);
  /// Up to the next blank.
  std::string_view word();
  /// "text", without its quotes.
  std::string_view quoted(std::string_view what);
  /// Steps over everything up to and with `c`.
  void skip_past(char c);
  [[nodiscard]] std::string_view rest() const { return line_.substr(at_); }
  [[nodiscard]] std::size_t offset() const { return offset_ + at_; }
  [[noreturn]] void fail(const std::string& message) const { input_.fail(offset(), message); }
  /// What stands here, for a message: "'x'" or "the end of the line".
  [[nodiscard]] std::string found() const;

 private:
  const InputText& input_;
  std::string_view line_;
  std::size_t offset_, at_ = 0;
};

}  // namespace foretrain
