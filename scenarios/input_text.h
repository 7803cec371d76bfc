// InputText: a whole text that somebody else's program wrote, and the one way to refuse it: at a byte of it.
//
//   const InputText input("fabric.txt", text);             // refuses what is not UTF-8
//   input.fail(offset, "found 'x'; allowed: a number");     // InputError: fabric.txt:3:7: found 'x'; allowed: a number
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace foretrain {

class InputText {
 public:
  /// Throws InputError at the first byte that is no UTF-8, or when there is nothing but blanks.
  InputText(std::string name, std::string text);
  /// A file of at most `most` bytes; throws InputError when it cannot be read or is larger.
  [[nodiscard]] static InputText from_file(const std::filesystem::path& file, std::size_t most);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string_view text() const { return text_; }
  /// "FILE:LINE:COL: MESSAGE"; columns count characters.
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;
  /// Refuses what cannot stand in a message or in YAML: nothing, control characters, broken UTF-8 (from character
  /// references), more than 256 bytes. `what` names it: "name".
  void check_words(std::size_t offset, std::string_view what, std::string_view words) const;
  /// Line of a byte, from 1.
  [[nodiscard]] std::size_t line_of(std::size_t offset) const;

 private:
  std::string name_, text_;
};

}  // namespace foretrain
