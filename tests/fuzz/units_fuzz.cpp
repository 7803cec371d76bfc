// Fuzzes the parsers of quantities: a value comes back through its own text, or there is an explanation.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topology/units.h"

namespace {

template <class Parse>
void parses_or_explains(std::string_view text, Parse parse) {
  const auto parsed = parse(text);
  if (parsed.value.has_value() == !parsed.error.empty()) std::abort();
  if (parsed.value && parse(to_text(*parsed.value)).value != parsed.value) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  parses_or_explains(text, foretrain::parse_duration);
  parses_or_explains(text, foretrain::parse_bytes);
  parses_or_explains(text, foretrain::parse_bandwidth);
  parses_or_explains(text, foretrain::parse_flop_rate);
  return 0;
}
