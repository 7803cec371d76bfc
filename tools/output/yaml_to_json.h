// YAML text that we wrote ourselves (the canonical scenario) as a JSON value.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace foretrain {

/// Plain scalars become numbers, booleans or null as YAML 1.2's core schema reads them, quoted ones and all others
/// strings; the order of keys is kept. Throws YAML::Exception on text that is not YAML.
[[nodiscard]] nlohmann::ordered_json yaml_to_json(const std::string& yaml);

}  // namespace foretrain
