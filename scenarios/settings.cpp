#include "scenarios/settings.h"

#include <algorithm>

namespace foretrain {
namespace {

constexpr std::size_t depth_max = 8;  // the deepest key, cluster.transport.node.line, has four

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const auto dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

void apply(YamlNode& root, const std::string& set, Problems& problems) {
  const auto equals = set.find('=');
  const std::string value_text = equals == std::string::npos ? "" : set.substr(equals + 1);
  const auto source = problems.source("--set " + shown(set), value_text, ".", /*option=*/true);
  const SourcePlace place{source, Position{}};
  if (equals == std::string::npos || equals == 0) {
    problems.add(place, "", "no KEY=VALUE; allowed: a dotted key, '=' and a value, such as parallelism.tp=4");
    return;
  }
  const std::vector<std::string> keys = split(std::string_view(set).substr(0, equals));
  const bool empty_key = std::any_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); });
  if (empty_key || keys.size() > depth_max) {
    problems.add(place, "",
                 empty_key ? "an empty key between dots; allowed: a dotted key, such as parallelism.tp"
                           : "too many dots; allowed: a dotted key, such as parallelism.tp");
    return;
  }
  std::optional<YamlNode> value = parse_yaml(source, "a value", problems);
  if (!value) return;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    YamlNode map{.kind = YamlNode::Kind::map, .place = place};
    map.entries.push_back({*key, place, std::move(*value)});
    value = std::move(map);
  }
  overlay(root, *value);
}

}  // namespace

void apply_sets(YamlNode& root, const std::vector<std::string>& sets, Problems& problems) {
  for (const std::string& set : sets) apply(root, set, problems);
}

}  // namespace foretrain
