// Problems: every mistake found in the user's files and --set options, kept until all are known and then printed in
// the order of the files, each with the line it stands on and a caret.
//
//   Problems problems;
//   auto source = problems.source("s.yaml", "tpp: 8\n", "");
//   problems.add({source, Position{0, 0}}, "tpp", "unknown key 'tpp', did you mean 'tp'?; allowed: tp");
//   problems.text();    // s.yaml:1:1: tpp: unknown key ... and the line with a caret
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

/// A text that values came from: a file, or one `--set` option.
struct Source {
  std::string name;  ///< as messages print it
  std::string text;
  std::filesystem::path folder;  ///< relative paths in it start here
  std::size_t order = 0;         ///< mistakes are printed by source, then by position
  bool option = false;           ///< a --set: messages carry neither position nor dotted key
};

/// 0-based, in bytes; messages count from 1, in characters.
struct Position {
  std::size_t line = 0, column = 0;
};

struct SourcePlace {
  std::shared_ptr<const Source> source;
  std::optional<Position> at;  ///< none: the file as a whole
};

class Problems {
 public:
  std::shared_ptr<const Source> source(std::string name, std::string text, std::filesystem::path folder,
                                       bool option = false);
  /// `path` is the dotted key; `message` says "what is wrong; what is allowed".
  void add(const SourcePlace& place, const std::string& path, const std::string& message);
  /// The absent key at this dotted path is probably there, misspelt: what follows from its absence is no news.
  void suspect(const std::string& path) { suspects_.insert(path); }

  [[nodiscard]] bool empty() const { return found_.empty(); }
  [[nodiscard]] std::size_t count() const { return found_.size(); }
  /// The value at this dotted key is wrong.
  [[nodiscard]] bool bad(const std::string& path) const { return bad_.count(path) > 0; }
  /// The same, of it or of anything inside it.
  [[nodiscard]] bool any_bad(const std::string& path) const;
  [[nodiscard]] bool suspected(const std::string& path) const { return suspects_.count(path) > 0; }
  [[nodiscard]] std::string text() const;
  /// Throws InputError with `text()` unless empty.
  void throw_if_any() const;

 private:
  struct Problem {
    SourcePlace place;
    std::string path, message;
  };
  std::vector<Problem> found_;
  std::set<std::string> bad_, suspects_;
  std::size_t sources_ = 0;
};

/// "parallelism" and "tp" make "parallelism.tp"; an empty map path gives the key alone.
[[nodiscard]] std::string dotted(const std::string& map_path, std::string_view key);
/// Text of the user as a message may show it: at most 60 bytes, control characters and broken UTF-8 escaped.
[[nodiscard]] std::string shown(std::string_view text);
/// The word of `known` with the fewest edits to `word`, if few enough to be a slip of the pen; else empty.
[[nodiscard]] std::string nearest_word(std::string_view word, const std::vector<std::string>& known);
/// ", did you mean 'tp'?" or nothing.
[[nodiscard]] std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace foretrain
