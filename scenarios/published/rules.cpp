#include "scenarios/published/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/catalogue.h"
#include "scenarios/scenario.h"
#include "scenarios/yaml_reader.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

/// The text of a scalar; anything else is refused.
std::string scalar_of(const YamlNode& node, const std::string& path, Problems& problems) {
  if (node.kind == YamlNode::Kind::scalar) return node.scalar;
  problems.add(node.place, path, fmt::format("found {}; allowed: text or a number", described(node)));
  return {};
}

/// The entries of a map, each with its dotted key; anything else is refused.
template <class Take>
void each_entry(const YamlNode& map, const std::string& path, Problems& problems, Take take) {
  if (map.kind != YamlNode::Kind::map || map.entries.empty()) {
    problems.add(map.place, path, fmt::format("found {}; allowed: a map of columns", described(map)));
    return;
  }
  for (const YamlEntry& entry : map.entries) take(entry.key, entry.value, dotted(path, entry.key));
}

PublishedRule::Condition read_condition(const std::string& column, const YamlNode& value, const std::string& path,
                                        Problems& problems) {
  PublishedRule::Condition condition{column, {}};
  if (value.kind == YamlNode::Kind::list) {
    for (const YamlNode& item : value.items) condition.patterns.push_back(scalar_of(item, path, problems));
  } else {
    condition.patterns.push_back(scalar_of(value, path, problems));
  }
  return condition;
}

PublishedMemory read_memory(const YamlNode& map, const std::string& path, Problems& problems) {
  MapReader reader(map, path, problems);
  PublishedMemory memory;
  memory.reading = reader.choice<MemoryReading>(
      "reading", words_of<MemoryReading>(std::span<const MemoryReading>(all_memory_readings)));
  memory.unit = static_cast<double>(reader.bytes_of("unit").count());
  if (reader.given("stage")) memory.stage = reader.integer("stage", {0, 4095});
  reader.finish();
  return memory;
}

PublishedRule read_rule(const YamlNode& map, std::size_t index, Problems& problems) {
  const std::string path = fmt::format("[{}]", index);
  MapReader reader(map, path, problems);
  PublishedRule rule;
  if (const YamlNode* when = reader.child("when", "a map of columns and patterns, such as {family: mlperf}")) {
    each_entry(*when, dotted(path, "when"), problems, [&](const auto& column, const auto& value, const auto& at) {
      rule.when.push_back(read_condition(column, value, at, problems));
    });
  }
  rule.why = reader.text("why", std::string());
  if (const YamlNode* columns = reader.child("columns")) {
    each_entry(*columns, dotted(path, "columns"), problems, [&](const auto& column, const auto& value, const auto& at) {
      rule.columns.emplace_back(column, scalar_of(value, at, problems));
    });
  }
  if (const YamlNode* scenario = reader.child("scenario")) rule.scenario = *scenario;
  if (const YamlNode* memory = reader.child("memory"))
    rule.memory = read_memory(*memory, dotted(path, "memory"), problems);
  rule.apart = reader.boolean("apart", false);
  rule.skip = reader.text("skip", std::string());
  reader.finish();
  return rule;
}

PublishedRules read_rules(const std::string& text, const std::string& name, Problems& problems) {
  const auto source = problems.source(name, text, "");
  PublishedRules rules;
  const auto root = parse_yaml(source, "a list of rules", problems);
  if (root && root->kind != YamlNode::Kind::list)
    problems.add(root->place, "", fmt::format("found {}; allowed: a list of rules", described(*root)));
  if (!root) return rules;
  for (std::size_t i = 0; i < root->items.size(); ++i) rules.push_back(read_rule(root->items[i], i, problems));
  return rules;
}

}  // namespace

std::string_view to_text(MemoryReading reading) {
  switch (reading) {
    case MemoryReading::allocated:
      return "allocated";
    case MemoryReading::reserved:
      return "reserved";
    case MemoryReading::device:
      return "device";
  }
  return "";
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  // Where the last star began to take characters, to try again with one more.
  std::size_t at = 0, p = 0, taken = 0, star = std::string_view::npos;
  while (at < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = at;
    } else if (p < pattern.size() && pattern[p] == text[at]) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++taken;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(p), pattern.end(), [](char c) { return c == '*'; });
}

bool PublishedRule::matches(const PublishedRun& run) const {
  return std::all_of(when.begin(), when.end(), [&](const Condition& condition) {
    const std::string& text = run.text(condition.column);
    return std::any_of(condition.patterns.begin(), condition.patterns.end(),
                       [&](const std::string& pattern) { return matches_pattern(text, pattern); });
  });
}

PublishedRules parse_published_rules(const std::string& text, const std::string& name) {
  Problems problems;
  PublishedRules rules = read_rules(text, name, problems);
  problems.throw_if_any();
  return rules;
}

PublishedRules load_published_rules(const fs::path& catalogue) {
  const fs::path folder = catalogue / "published" / "rules";
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw InputError(
        fmt::format("{}: no rules there; allowed: a catalogue with published/rules/*.yaml", shown(folder.string())));
  Problems problems;
  PublishedRules rules;
  for (const fs::path& file : files) {
    const FileText read = read_file(file);
    if (!read.text) throw InputError(fmt::format("{}: cannot be read: {}", shown(file.string()), read.error));
    PublishedRules more = read_rules(*read.text, file.string(), problems);
    rules.insert(rules.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  problems.throw_if_any();
  return rules;
}

}  // namespace foretrain
