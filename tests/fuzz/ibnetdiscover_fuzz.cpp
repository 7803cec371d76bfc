// Fuzzes the importer of ibnetdiscover; with --join, so that separate networks go on to the end.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/import_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  foretrain::ImportOptions options;
  options.join = true;
  foretrain::imports_or_explains(foretrain::kind_named("ibnetdiscover"), std::string(data, data + size), options);
  return 0;
}
