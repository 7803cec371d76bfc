#include "scenarios/write_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

constexpr int block_depth = 2;  // a scenario's sections, and their keys

std::string scalar(const YamlNode& node) {
  const bool plain = !node.quoted && node.scalar.find_first_of(",[]{}:#&*!|>'\"%@`\n") == std::string::npos;
  return plain ? node.scalar : word(node.scalar);
}

/// In braces and brackets, on one line.
std::string flow(const YamlNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      return scalar(node);
    case YamlNode::Kind::list:
      for (const YamlNode& item : node.items) parts.push_back(flow(item));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case YamlNode::Kind::map:
      for (const YamlEntry& entry : node.entries)
        parts.push_back(fmt::format("{}: {}", word(entry.key), flow(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return {};
}

void block(const YamlNode& map, int depth, std::string& text) {
  for (const YamlEntry& entry : map.entries) {
    text += fmt::format("{:{}}{}:", "", 2 * depth, word(entry.key));
    if (entry.value.kind == YamlNode::Kind::map && !entry.value.entries.empty() && depth + 1 < block_depth) {
      text += '\n';
      block(entry.value, depth + 1, text);
    } else {
      text += fmt::format(" {}\n", flow(entry.value));
    }
  }
}

}  // namespace

std::string write_yaml(const YamlNode& root) {
  if (root.kind != YamlNode::Kind::map) return flow(root) + '\n';
  std::string text;
  block(root, 0, text);
  return text;
}

}  // namespace foretrain
