// MapReader: walks one map of a YAML tree once. Each call asks for one key and gives back its checked value; what is
// wrong with it goes to `problems` and a harmless value comes back, so that reading goes on. `finish` then names every
// key that nobody asked for.
//
//   MapReader map(node, "parallelism", problems);
//   plan.tp = map.integer("tp", {1, 1024}, 1);       // the last argument is the default; without it the key must be
//   there plan.sequence_parallel = map.boolean("sequence_parallel", plan.tp > 1); map.finish();
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/yaml_node.h"
#include "topology/units.h"

namespace foretrain {

struct IntegerRange {
  std::int64_t least = 1, most = 1;
};
struct NumberRange {
  double least = 0, most = 1;
};
template <class E>
using Words = std::vector<std::pair<std::string_view, E>>;

/// Words of an enumeration that has `to_text`, in the order of `all`.
template <class E>
Words<E> words_of(std::span<const E> all) {
  Words<E> words;
  for (const E value : all) words.emplace_back(to_text(value), value);
  return words;
}

class MapReader {
 public:
  /// A node that is neither a map nor nothing is noted as wrong, and every key then gives its harmless value.
  MapReader(const YamlNode& map, std::string path, Problems& problems);

  std::int64_t integer(std::string_view key, IntegerRange range, std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, NumberRange range, std::optional<double> fallback = {});
  bool boolean(std::string_view key, std::optional<bool> fallback = {});
  std::string text(std::string_view key, const std::optional<std::string>& fallback = {});
  Bandwidth bandwidth(std::string_view key, std::optional<Bandwidth> fallback = {});
  Bytes bytes_of(std::string_view key, std::optional<Bytes> fallback = {});
  FlopRate flop_rate(std::string_view key, std::optional<FlopRate> fallback = {});
  Duration duration(std::string_view key, std::optional<Duration> fallback = {});
  template <class E>
  E choice(std::string_view key, const Words<E>& words, std::optional<E> fallback = {}) {
    const YamlNode* value = ask(
        key, [&] { return "one of " + joined(names(words)); }, fallback.has_value());
    const std::optional<E> found = value == nullptr ? std::nullopt : one_of(*value, dotted(path_, key), words);
    return found ? *found : fallback.value_or(words.front().second);
  }
  /// A list of words of an enumeration, each at most once.
  template <class E>
  std::vector<E> choices(std::string_view key, const Words<E>& words, const std::vector<E>& fallback) {
    const YamlNode* value = ask(
        key, [] { return std::string(); }, true);
    if (value == nullptr || !is_list(*value, key, joined(names(words)))) return fallback;
    std::vector<E> found;
    for (std::size_t i = 0; i < value->items.size(); ++i) {
      const std::string path = dotted(path_, key) + "[" + std::to_string(i) + "]";
      if (const auto word = one_of(value->items[i], path, words)) add_once(found, *word, value->items[i], path);
    }
    return found;
  }
  std::vector<std::int64_t> integers(std::string_view key, IntegerRange range,
                                     const std::optional<std::vector<std::int64_t>>& fallback = {});
  /// The value itself, or null if absent: for maps within. An absent key that must be there is noted.
  const YamlNode* child(std::string_view key, std::string_view needed = {});

  [[nodiscard]] bool given(std::string_view key) const { return map_->find(key) != nullptr; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Whether something is wrong with the value of `key`, or with anything inside it.
  [[nodiscard]] bool any_bad(std::string_view key) const { return problems_.any_bad(dotted(path_, key)); }
  /// Notes that the value of `key` is wrong, where it stands (or where the map stands if it is absent).
  void refuse(std::string_view key, const std::string& message);
  /// Notes the unknown keys, with the nearest known one, and the missing keys that none of them is a slip of.
  void finish();

 private:
  /// The value of `key`, or null when it is absent or nothing; `needed` describes it if it must be there.
  template <class Needed>
  const YamlNode* ask(std::string_view key, const Needed& needed, bool optional) {
    known_.emplace_back(key);
    const YamlNode* value = usable_ ? map_->find(key) : nullptr;
    if (value == nullptr && usable_ && !optional) missing_.emplace_back(key, needed());
    return value;
  }
  template <class E>
  static std::vector<std::string> names(const Words<E>& words) {
    std::vector<std::string> all;
    for (const auto& [name, value] : words) all.emplace_back(name);
    return all;
  }
  template <class E>
  std::optional<E> one_of(const YamlNode& value, const std::string& path, const Words<E>& words) {
    for (const auto& [name, meaning] : words) {
      if (value.kind == YamlNode::Kind::scalar && value.scalar == name) return meaning;
    }
    unknown_word(value, path, names(words));
    return std::nullopt;
  }
  template <class E>
  void add_once(std::vector<E>& found, E word, const YamlNode& at, const std::string& path) {
    for (const E other : found) {
      if (other == word) {
        problems_.add(at.place, path, described(at) + " stands there twice; allowed: each once");
        return;
      }
    }
    found.push_back(word);
  }
  static std::string joined(const std::vector<std::string>& words);
  void unknown_word(const YamlNode& value, const std::string& path, const std::vector<std::string>& words);
  bool is_list(const YamlNode& value, std::string_view key, const std::string& of);
  std::optional<std::int64_t> whole_number(const YamlNode& value, const std::string& path, IntegerRange range);
  template <class Quantity, class Parse>
  Quantity quantity(std::string_view key, const std::optional<Quantity>& fallback, Quantity least, Quantity most,
                    Parse parse);

  const YamlNode* map_;
  std::string path_;
  Problems& problems_;
  bool usable_ = true;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> missing_;  ///< key, and what it should be
};

}  // namespace foretrain
