// What the tests of scenarios/ share: the catalogue of the source tree, and small texts that load.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace foretrain::testing {

inline std::filesystem::path catalogue() { return std::filesystem::path(FORETRAIN_SOURCE_DIR) / "scenarios"; }

inline Scenario parse(const std::string& text, const std::vector<std::string>& sets = {}) {
  return parse_scenario(text, "s.yaml", sets, catalogue());
}

/// The message of the InputError that `text` causes; empty if it loads.
inline std::string mistakes(const std::string& text, const std::vector<std::string>& sets = {}) {
  try {
    static_cast<void>(parse(text, sets));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

inline Scenario ready(const std::string& name, const std::vector<std::string>& sets = {}) {
  return load_scenario(catalogue() / (name + ".yaml"), sets, catalogue());
}

/// Llama 3 8B on two DGX H100, TP 2 and DP 8: legal.
inline const char* const good =
    "model: llama3-8b\n"
    "cluster: {use: dgx-h100-ndr, gpus: 16}\n"
    "training:\n"
    "  sequence_length: 8192\n"
    "  global_batch: 64\n"
    "parallelism:\n"
    "  tp: 2\n"
    "  dp: 8\n";

/// `good` with one line (or part of one) put in the place of another.
inline std::string good_with(const std::string& from, const std::string& to) {
  std::string text = good;
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace foretrain::testing
