// The architecture, as the #include lines have it: an arrow only points down the list of layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {
namespace {

namespace fs = std::filesystem;

// Top to bottom; each may use itself and those after it.
constexpr std::array<std::string_view, 5> layers = {"tools", "scenarios", "workloads", "sim", "topology"};

std::optional<std::size_t> layer_of(std::string_view path) {
  const std::string_view folder = path.substr(0, path.find('/'));
  const auto* at = std::find(layers.begin(), layers.end(), folder);
  if (at == layers.end()) return std::nullopt;
  return static_cast<std::size_t>(at - layers.begin());
}

struct Include {
  std::string file;  ///< from the source tree
  std::size_t line = 0;
  std::string included;  ///< with its quotes or brackets
};

std::vector<fs::path> sources() {
  std::vector<fs::path> files;
  for (const std::string_view layer : layers) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(FORETRAIN_SOURCE_DIR) / layer)) {
      const fs::path ending = entry.path().extension();
      if (ending == ".h" || ending == ".cpp") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Include> includes_in(std::istream& text, const std::string& file) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*(["<][^">]+[">]))re");
  std::vector<Include> found;
  std::string line;
  for (std::size_t n = 1; std::getline(text, line); ++n) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back({file, n, match[1]});
  }
  return found;
}

std::vector<Include> all_includes() {
  std::vector<Include> all;
  for (const fs::path& path : sources()) {
    std::ifstream text(path);
    const std::string name = fs::relative(path, FORETRAIN_SOURCE_DIR).generic_string();
    for (Include& include : includes_in(text, name)) all.push_back(std::move(include));
  }
  return all;
}

/// What is wrong with an include, or nothing.
std::string complaint(const Include& include) {
  const bool ours = include.included.front() == '"';
  const std::string target = include.included.substr(1, include.included.size() - 2);
  const std::string where = include.file + ":" + std::to_string(include.line) + ": " + include.included;
  if (!ours) return "";
  const auto from = layer_of(include.file);
  const auto to = layer_of(target);
  if (!to) return where + " is not a path from the root of the source tree";
  if (*to < *from) return where + " points up";
  return "";
}

TEST(Tidy, IncludesPointDown) {
  const std::vector<Include> all = all_includes();
  ASSERT_GT(all.size(), 100U) << "the sources were not found";
  for (const Include& include : all) EXPECT_EQ(complaint(include), "");
}

TEST(Tidy, AnIncludeThatPointsUpIsSeen) {
  EXPECT_NE(complaint({"sim/player.cpp", 3, "\"workloads/plan.h\""}), "");
  EXPECT_NE(complaint({"sim/player.cpp", 3, "\"player.h\""}), "");
  EXPECT_EQ(complaint({"workloads/plan.cpp", 3, "\"sim/player.h\""}), "");
  EXPECT_EQ(complaint({"sim/player.cpp", 3, "\"sim/player.h\""}), "");
  std::istringstream text("#include <a>\n  # include \"tools/b.h\"\n// #include no\n");
  EXPECT_EQ(includes_in(text, "sim/x.h").size(), 2U);
}

/// A library that one part wraps for all others stays inside that part.
void expect_only_in(const std::string& library, const std::vector<std::string>& places) {
  for (const Include& include : all_includes()) {
    if (include.included.find(library) == std::string::npos) continue;
    const bool allowed = std::any_of(places.begin(), places.end(),
                                     [&](const std::string& place) { return include.file.starts_with(place); });
    EXPECT_TRUE(allowed) << include.file << ":" << include.line << " uses " << include.included;
    EXPECT_TRUE(!include.file.ends_with(".h") || library != "boost/graph/") << include.file << " shows Boost.Graph";
  }
}

TEST(Tidy, LibrariesStayWhereTheyBelong) {
  expect_only_in("boost/graph/", {"topology/"});
  expect_only_in("yaml-cpp/", {"scenarios/", "tools/output/yaml_to_json.cpp"});
  expect_only_in("boost/program_options", {"tools/"});
}

TEST(Tidy, HeadersAreGuarded) {
  for (const fs::path& path : sources()) {
    if (path.extension() != ".h") continue;
    std::ifstream text(path);
    std::string line;
    while (std::getline(text, line) && !line.starts_with('#')) {
    }
    EXPECT_EQ(line, "#pragma once") << path;
  }
}

}  // namespace
}  // namespace foretrain
