// JSON as the tree that YAML is read into, so that both share readers and messages.
//
// nlohmann's parser decides what JSON is (YAML allows more) and says where it breaks; every JSON text being YAML, the
// tree with its places is then that of parse_yaml, with its limits of size and depth.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "scenarios/yaml_node.h"

namespace foretrain {

/// Nothing when the text is not JSON; that is noted. `what` names it in messages: "a config.json".
[[nodiscard]] std::optional<YamlNode> parse_json(const std::shared_ptr<const Source>& source, std::string_view what,
                                                 Problems& problems);

}  // namespace foretrain
