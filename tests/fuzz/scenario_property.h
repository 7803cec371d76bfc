// What holds for any text that claims to be a scenario: it loads and its canonical text loads back to itself, or it is
// refused with one printable message. Anything else, other exceptions included, is a bug.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace foretrain {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline bool printable(const std::string& text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) return false;
  }
  return !text.empty();
}

inline void loads_or_explains(const std::string& text, const std::vector<std::string>& sets) {
  const std::string catalogue = FORETRAIN_SOURCE_DIR "/scenarios";
  std::string canonical;
  try {
    canonical = to_yaml(parse_scenario(text, "fuzz.yaml", sets, catalogue));
  } catch (const InputError& error) {
    require(printable(error.what()));
    return;
  }
  require(to_yaml(parse_scenario(canonical, "fuzz.yaml", {}, "/nowhere")) == canonical);
}

}  // namespace foretrain
