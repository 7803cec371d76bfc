#include "scenarios/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace foretrain {
namespace {

namespace fs = std::filesystem;

constexpr int use_depth_max = 8;

std::string_view folder_of(Shelf shelf) {
  switch (shelf) {
    case Shelf::scenarios:
      return ".";
    case Shelf::models:
      return "models";
    case Shelf::clusters:
      return "clusters";
    case Shelf::gpus:
      return "gpus";
    case Shelf::node_transports:
      return "transports/node";
    case Shelf::network_transports:
      return "transports/network";
    case Shelf::stacks:
      return "stacks";
  }
  return ".";
}

bool ends_with_yaml(std::string_view name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

/// "models/llama3-8b" on the shelf of models is "llama3-8b".
std::string without_folder(const std::string& name, Shelf shelf) {
  const std::string prefix = std::string(folder_of(shelf)) + "/";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool is_path(const std::string& name) { return ends_with_yaml(name) || name.find('/') != std::string::npos; }

/// Puts `name: STEM` into the map unless it names itself.
void name_it(YamlNode& map, const std::string& stem) {
  if (map.kind != YamlNode::Kind::map || map.find("name") != nullptr) return;
  YamlNode value{.kind = YamlNode::Kind::scalar, .place = map.place, .scalar = stem};
  const SourcePlace place = map.place;
  map.entries.push_back({"name", place, std::move(value)});
}

}  // namespace

std::string_view noun(Shelf shelf) {
  switch (shelf) {
    case Shelf::scenarios:
      return "a scenario";
    case Shelf::models:
      return "a model";
    case Shelf::clusters:
      return "a cluster";
    case Shelf::gpus:
      return "a GPU";
    case Shelf::node_transports:
      return "a node's transport";
    case Shelf::network_transports:
      return "a network's transport";
    case Shelf::stacks:
      return "a stack";
  }
  return "";
}

FileText read_file(const fs::path& file, std::size_t most) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::none) return {{}, "no such file"};
  if (fs::is_directory(status)) return {{}, "it is a folder"};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {{}, std::strerror(errno)};
  std::string text;
  std::array<char, 16384> part{};
  while (text.size() <= most && stream) {  // a little over the limit shows that it is too large
    stream.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) return {{}, "reading fails"};
  return {std::move(text), {}};
}

FileText read_regular_file(const fs::path& file) {
  std::error_code error;
  const bool special = fs::exists(file, error) && !fs::is_directory(file, error) && !fs::is_regular_file(file, error);
  return special ? FileText{{}, "it is not a regular file"} : read_file(file);
}

std::vector<std::string> Catalogue::names(Shelf shelf) const {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder_ / folder_of(shelf), error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".yaml") found.push_back(it->path().stem().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path Catalogue::file(Shelf shelf, const std::string& name) const {
  return (folder_ / folder_of(shelf) / (name + ".yaml")).lexically_normal();
}

std::optional<YamlNode> Catalogue::load(const YamlNode& name, Shelf shelf, const std::string& path, Problems& problems,
                                        int depth) const {
  if (name.kind != YamlNode::Kind::scalar || name.scalar.empty()) {
    problems.add(
        name.place, path,
        fmt::format("found {}; allowed: {} by catalogue name, by path, or as a map", described(name), noun(shelf)));
    return std::nullopt;
  }
  if (depth >= use_depth_max) {
    problems.add(name.place, path,
                 fmt::format("'use' leads through more than {} files; allowed: fewer", use_depth_max));
    return std::nullopt;
  }
  const std::string wanted = without_folder(name.scalar, shelf);
  const bool by_path = is_path(wanted);
  const fs::path file_path = by_path ? name.place.source->folder / wanted : file(shelf, wanted);
  const std::vector<std::string> known = names(shelf);
  const bool listed = std::find(known.begin(), known.end(), wanted) != known.end();
  FileText file_text = by_path || listed ? read_regular_file(file_path) : FileText{{}, "not in the catalogue"};
  if (!file_text.text) {
    problems.add(name.place, path,
                 fmt::format("'{}' cannot be read: {}{}; allowed: a path to a YAML file, or one of {}",
                             shown(name.scalar), file_text.error, suggestion(wanted, known), fmt::join(known, ", ")));
    return std::nullopt;
  }
  const auto source = problems.source(file_path.string(), std::move(*file_text.text), file_path.parent_path());
  const std::optional<YamlNode> root = parse_yaml(source, noun(shelf), problems);
  if (!root) return std::nullopt;
  if (root->kind != YamlNode::Kind::map) {
    problems.add(root->place, path,
                 fmt::format("found {}; allowed: {}, as a map of keys", described(*root), noun(shelf)));
    return std::nullopt;
  }
  std::optional<YamlNode> map = resolve(*root, shelf, path, problems, depth + 1);
  if (map) name_it(*map, file_path.stem().string());
  return map;
}

std::optional<YamlNode> Catalogue::resolve(const YamlNode& node, Shelf shelf, const std::string& path,
                                           Problems& problems, int depth) const {
  if (node.kind != YamlNode::Kind::map) return load(node, shelf, path, problems, depth);
  const YamlNode* use = node.find("use");
  if (use == nullptr) return node;
  std::optional<YamlNode> base = load(*use, shelf, dotted(path, "use"), problems, depth);
  if (!base) return std::nullopt;
  YamlNode changes = node;
  std::erase_if(changes.entries, [](const YamlEntry& entry) { return entry.key == "use"; });
  overlay(*base, changes);
  base->place = node.place;  // what is missing is missing where the user stands
  return base;
}

}  // namespace foretrain
