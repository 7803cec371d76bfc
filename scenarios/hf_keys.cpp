// Looking up keys of a config.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/hf_dialects.h"

namespace foretrain {
namespace {

constexpr double number_most = 1e9;

}  // namespace

HfKeys::HfKeys(const YamlNode& map, std::vector<std::string>& notes, Problems& problems)
    : map_(map), notes_(notes), problems_(problems) {}

const std::string_view* HfKeys::found(Names names) const {
  for (const std::string_view& name : names) {
    const YamlNode* value = map_.find(name);
    if (value != nullptr && value->kind != YamlNode::Kind::null) return &name;
  }
  return nullptr;
}

std::int64_t HfKeys::integer(Names names, IntegerRange range) const {
  if (given(names)) return integer(names, range, range.least);
  const std::string others =
      names.size() == 1 ? "" : fmt::format(" (or {})", fmt::join(names.begin() + 1, names.end(), ", "));
  problems_.add(map_.place, std::string(*names.begin()),
                fmt::format("missing key '{}'{}; needed: a whole number from {} to {}", *names.begin(), others,
                            range.least, range.most));
  return std::max<std::int64_t>(range.least, 1);
}

std::int64_t HfKeys::integer(Names names, IntegerRange range, std::int64_t usual, bool noted) const {
  if (const std::string_view* name = found(names)) return MapReader(map_, "", problems_).integer(*name, range, usual);
  if (noted) note(fmt::format("assumed: {} {}, which the family has where none is said", *names.begin(), usual));
  return usual;
}

bool HfKeys::boolean(Names names, bool usual) const {
  const std::string_view* name = found(names);
  return name == nullptr ? usual : MapReader(map_, "", problems_).boolean(*name, usual);
}

std::string HfKeys::text(Names names) const {
  const std::string_view* name = found(names);
  return name == nullptr ? "" : MapReader(map_, "", problems_).text(*name, "");
}

bool HfKeys::positive(std::string_view name) const {
  return given({name}) && MapReader(map_, "", problems_).number(name, {0, number_most}, 0) > 0;
}

std::vector<std::int64_t> HfKeys::integers(std::string_view name, IntegerRange range) const {
  return given({name}) ? MapReader(map_, "", problems_).integers(name, range) : std::vector<std::int64_t>{};
}

const YamlNode* HfKeys::list(std::string_view name) const {
  if (!given({name})) return nullptr;
  const YamlNode* value = map_.find(name);
  if (value->kind == YamlNode::Kind::list) return value;
  refuse(name, fmt::format("found {}; allowed: a list", described(*value)));
  return nullptr;
}

std::string HfKeys::architecture() const {
  const YamlNode* all = map_.find("architectures");
  const bool usable = all != nullptr && all->kind == YamlNode::Kind::list && !all->items.empty();
  return usable ? all->items.front().scalar : "";
}

void HfKeys::refuse(std::string_view key, const std::string& message) const {
  const YamlNode* value = map_.find(key);
  problems_.add(value == nullptr ? map_.place : value->place, std::string(key), message);
}

}  // namespace foretrain
