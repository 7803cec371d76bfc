#include "scenarios/input_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/catalogue.h"
#include "scenarios/problems.h"
#include "scenarios/scenario.h"
#include "scenarios/utf8.h"

namespace foretrain {

InputText::InputText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  constexpr std::string_view mark = "\xef\xbb\xbf";  // byte order mark
  if (text_.starts_with(mark)) text_.erase(0, mark.size());
  if (const auto wrong = utf8_error(text_)) {
    fail(*wrong, fmt::format("the byte 0x{:02x} is no UTF-8; allowed: text in UTF-8 or ASCII",
                             static_cast<unsigned char>(text_[*wrong])));
  }
  if (const auto zero = text_.find('\0'); zero != std::string::npos) {
    fail(zero, "a zero byte stands there; allowed: text in UTF-8 or ASCII");
  }
  if (text_.find_first_not_of(" \t\r\n") == std::string::npos) fail(0, "nothing stands there; allowed: a topology");
}

InputText InputText::from_file(const std::filesystem::path& file, std::size_t most) {
  FileText read = read_file(file, most);
  if (!read.text) {
    throw InputError(fmt::format("{}: cannot be read: {}; allowed: a readable file", file.string(), read.error));
  }
  if (read.text->size() > most) {
    throw InputError(fmt::format("{}: larger than {} bytes; allowed: up to that", file.string(), most));
  }
  return {file.string(), std::move(*read.text)};
}

void InputText::check_words(std::size_t offset, std::string_view what, std::string_view words) const {
  constexpr std::size_t most = 256;
  const auto wrong = [&]() -> std::string_view {
    if (words.find_first_not_of(' ') == std::string_view::npos) return "is empty";
    if (words.size() > most) return "has more than 256 bytes";
    if (utf8_error(words)) return "is no UTF-8";
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (static_cast<unsigned char>(words[i]) < 0x20 || control_length(words, i) > 0)
        return "holds control characters";
    }
    return {};
  }();
  if (!wrong.empty()) {
    fail(offset,
         fmt::format("the {} '{}' {}; allowed: 1 to {} bytes of printable UTF-8", what, shown(words), wrong, most));
  }
}

std::size_t InputText::line_of(std::size_t offset) const {
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text_.size()));
  return static_cast<std::size_t>(std::count(text_.begin(), end, '\n')) + 1;
}

void InputText::fail(std::size_t offset, const std::string& message) const {
  offset = std::min(offset, text_.size());
  const std::size_t newline = offset == 0 ? std::string::npos : text_.rfind('\n', offset - 1);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  const auto first = text_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto here = text_.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto before = std::count_if(first, here, [](char c) { return !utf8_continues(c); });
  throw InputError(fmt::format("{}:{}:{}: {}", name_, line_of(offset), before + 1, message));
}

}  // namespace foretrain
