#include "tools/output/yaml_to_json.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace foretrain {
namespace {

using Json = nlohmann::ordered_json;

template <class Number>
std::optional<Number> whole_text(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  const bool quoted = node.Tag() == "!";
  if (quoted) return text;
  if (text == "true") return true;
  if (text == "false") return false;
  if (text == "null" || text == "~" || text.empty()) return nullptr;
  if (const auto whole = whole_text<std::int64_t>(text)) return *whole;
  // from_chars also reads "inf" and "nan", which JSON has no numbers for.
  if (text.find_first_of("0123456789") != std::string::npos) {
    if (const auto number = whole_text<double>(text)) return *number;
  }
  return text;
}

Json convert(const YAML::Node& node) {
  if (node.IsScalar()) return scalar(node);
  if (node.IsSequence()) {
    Json array = Json::array();
    for (const auto& item : node) array.push_back(convert(item));
    return array;
  }
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = convert(entry.second);
    return object;
  }
  return nullptr;
}

}  // namespace

Json yaml_to_json(const std::string& yaml) { return convert(YAML::Load(yaml)); }

}  // namespace foretrain
