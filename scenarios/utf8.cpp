#include "scenarios/utf8.h"

#include <algorithm>

namespace foretrain {
namespace {

struct Lead {
  std::size_t length = 0;                 ///< bytes of the character; 0 = no lead byte
  unsigned char low = 0x80, high = 0xbf;  ///< allowed second byte: no overlong form, surrogate or past U+10FFFF
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xc2 && byte <= 0xdf) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

}  // namespace

std::optional<std::size_t> utf8_error(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const Lead lead = lead_of(static_cast<unsigned char>(text[i]));
    if (lead.length == 0 || lead.length > text.size() - i) return i;
    for (std::size_t k = 1; k < lead.length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      const unsigned char low = k == 1 ? lead.low : 0x80;
      const unsigned char high = k == 1 ? lead.high : 0xbf;
      if (byte < low || byte > high) return i;
    }
    i += lead.length;
  }
  return std::nullopt;
}

std::size_t control_length(std::string_view text, std::size_t offset) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0x20U; };
  const unsigned byte = at(offset);
  if (byte == '\t' || byte == '\n' || (byte == '\r' && at(offset + 1) == '\n')) return 0;
  if (byte < 0x20 || byte == 0x7f) return 1;
  return byte == 0xc2 && at(offset + 1) >= 0x80 && at(offset + 1) <= 0x9f ? 2 : 0;
}

std::size_t utf8_cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  std::size_t end = most;
  while (end > 0 && utf8_continues(text[end])) --end;
  return end;
}

}  // namespace foretrain
