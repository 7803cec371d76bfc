// What the readers need to know of UTF-8: is it valid, and where may it be cut.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace foretrain {

[[nodiscard]] constexpr bool utf8_continues(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

/// Offset of the first byte that is not well-formed UTF-8 (Unicode 15, table 3-7); none if all of it is.
[[nodiscard]] std::optional<std::size_t> utf8_error(std::string_view text);

/// Bytes of the control character at `offset`, 0 if there is none: C0 but tab and line ends, DEL, and C1 (U+0080 to
/// U+009F), all of which a terminal may obey. A carriage return counts unless a line feed follows.
[[nodiscard]] std::size_t control_length(std::string_view text, std::size_t offset);

/// The largest number of bytes, at most `most`, that does not end inside a character.
[[nodiscard]] std::size_t utf8_cut(std::string_view text, std::size_t most);

}  // namespace foretrain
