// The YAML text of a tree: what `parse_yaml` reads back as the same values. Maps within the sections of a scenario are
// written in braces.
#pragma once

#include <string>

#include "scenarios/yaml_node.h"

namespace foretrain {

[[nodiscard]] std::string write_yaml(const YamlNode& root);

}  // namespace foretrain
