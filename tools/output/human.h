// Numbers as people write them: three significant digits and a unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foretrain {

/// "12.3", "0.0451", "1230": `digits` significant ones, never an exponent; what is not a number is "-".
[[nodiscard]] std::string significant(double value, int digits = 3);
/// "16,384"
[[nodiscard]] std::string grouped(std::int64_t value);
/// "1.36 M": powers of 1000.
[[nodiscard]] std::string human_count(double value);
/// "12.3 ms", "1.25 us", "10.24 s" (four digits from a second up).
[[nodiscard]] std::string human_seconds(double s);
/// "64.0 MiB": powers of 1024.
[[nodiscard]] std::string human_bytes(double bytes);
/// "350 GB/s": powers of 1000.
[[nodiscard]] std::string human_rate(double bytes_per_s);
/// "41.2 %" from 0.412.
[[nodiscard]] std::string human_percent(double part);

/// At most `width` characters of an ASCII text, the end replaced by "..".
[[nodiscard]] std::string clipped(std::string_view text, std::size_t width);

}  // namespace foretrain
