// Settings: the `--set a.b=c` options, laid over a scenario before it is read.
#pragma once

#include <string>
#include <vector>

#include "scenarios/yaml_node.h"

namespace foretrain {

/// Lays each option over `root` in turn; the later one wins. Values are YAML: a word, a number, [a, list], {a: map}.
/// The values keep the option as their source, so that what is wrong with them is reported as `--set a.b=c: ...`.
void apply_sets(YamlNode& root, const std::vector<std::string>& sets, Problems& problems);

}  // namespace foretrain
