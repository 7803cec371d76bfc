// Fuzzes the scenario reader with the text of a file.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/scenario_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  foretrain::loads_or_explains(std::string(data, data + size), {});
  return 0;
}
