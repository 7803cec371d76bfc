#include "scenarios/yaml_node.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "scenarios/utf8.h"

namespace foretrain {
namespace {

/// Reading on makes no sense; the problem is already noted.
struct Stop {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::shared_ptr<const Source>& source, Problems& problems) : source_(source), problems_(problems) {}

  std::optional<YamlNode> take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) stop(mark, "a second YAML document; allowed: one document a file");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    put(node(YamlNode::Kind::null, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    stop(mark, "aliases are not read; allowed: the value itself, written out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode scalar = node(YamlNode::Kind::scalar, mark);
    scalar.scalar = value;
    scalar.quoted = tag == "!";
    put(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlEntry> pending;  ///< a key that waits for its value
    std::string pending_path;
  };

  [[nodiscard]] SourcePlace place(const YAML::Mark& mark) const {
    // yaml-cpp marks the missing value of a map's last key with a null mark (-1).
    if (mark.is_null()) return {source_, Position{}};
    return {source_, Position{static_cast<std::size_t>(mark.line), static_cast<std::size_t>(mark.column)}};
  }
  [[nodiscard]] YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark) const {
    YamlNode made;
    made.kind = kind;
    made.place = place(mark);
    return made;
  }
  [[nodiscard]] std::string path() const {
    std::string all;
    for (const Frame& frame : stack_) {
      if (frame.pending) all = dotted(all, shown(frame.pending->key));
      if (frame.node.kind == YamlNode::Kind::list) all += fmt::format("[{}]", frame.node.items.size());
    }
    return all;
  }
  [[noreturn]] void stop(const YAML::Mark& mark, const std::string& message) {
    problems_.add(place(mark), path(), message);
    throw Stop{};
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) stop(mark, "anchors are not read; allowed: the value itself, written out");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    const bool usual = tag.empty() || tag == "?" || tag == "!";
    if (!usual) stop(mark, fmt::format("tag '{}' is not read; allowed: values without tags", shown(tag)));
  }
  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (stack_.size() >= yaml_depth_max) {
      stop(mark, fmt::format("nested too deeply; allowed: {} levels of maps and lists", yaml_depth_max));
    }
    if (!stack_.empty() && awaits_key())
      stop(mark, "a map or a list as key, or a bracket left open; allowed: plain text as key");
    stack_.push_back({node(kind, mark), std::nullopt, {}});
  }
  void close() {
    YamlNode done = std::move(stack_.back().node);
    stack_.pop_back();
    put(std::move(done));
  }
  [[nodiscard]] bool awaits_key() const {
    return stack_.back().node.kind == YamlNode::Kind::map && !stack_.back().pending;
  }
  void put(YamlNode value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& top = stack_.back();
    if (top.node.kind == YamlNode::Kind::list) {
      top.node.items.push_back(std::move(value));
    } else if (!top.pending) {
      take_key(top, value);
    } else {
      if (value.kind == YamlNode::Kind::null) value.place = top.pending->place;
      top.pending->value = std::move(value);
      if (top.node.entry(top.pending->key) == nullptr) top.node.entries.push_back(std::move(*top.pending));
      top.pending.reset();
    }
  }
  void take_key(Frame& top, const YamlNode& key) {
    if (top.node.entries.size() >= yaml_keys_max) {
      problems_.add(key.place, path(), fmt::format("too many keys; allowed: {} in one map", yaml_keys_max));
      throw Stop{};
    }
    if (const YamlEntry* first = top.node.entry(key.scalar); first != nullptr) {
      problems_.add(key.place, dotted(path(), shown(key.scalar)),
                    fmt::format("duplicate key '{}', first given on line {}; allowed: each key once", shown(key.scalar),
                                first->place.at->line + 1));
    }
    top.pending = YamlEntry{key.scalar, key.place, {}};
  }

  std::shared_ptr<const Source> source_;
  Problems& problems_;
  std::vector<Frame> stack_;
  std::optional<YamlNode> root_;
  int documents_ = 0;
};

/// Another `kind` gives the keys beside it another meaning: a file's keys for the old kind go.
bool changes_kind(const YamlNode& base, const YamlNode& over) {
  const YamlNode* was = base.find("kind");
  const YamlNode* is = over.find("kind");
  return was != nullptr && is != nullptr && was->scalar != is->scalar;
}

}  // namespace

Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const auto start = before.rfind('\n');
  return {line, start == std::string_view::npos ? offset : offset - start - 1};
}

bool readable(const std::shared_ptr<const Source>& source, Problems& problems) {
  const std::string& text = source->text;
  if (text.size() > yaml_bytes_max) {
    problems.add({source, std::nullopt}, "", fmt::format("too large; allowed: {} MiB of YAML", yaml_bytes_max >> 20));
    return false;
  }
  // Control characters before UTF-8: a message never carries what a terminal would obey.
  std::size_t offset = 0;
  while (offset < text.size() && control_length(text, offset) == 0) ++offset;
  if (offset < text.size()) {
    problems.add(
        {source, std::nullopt}, "",
        fmt::format("byte {} (line {}) is the control character '{}'; allowed: text in UTF-8", offset + 1,
                    position_of(text, offset).line + 1, shown(text.substr(offset, control_length(text, offset)))));
    return false;
  }
  if (const auto wrong = utf8_error(text)) {
    const Position at = position_of(text, *wrong);
    problems.add({source, std::nullopt}, "",
                 fmt::format("byte {} (line {}) is not UTF-8; allowed: text in UTF-8", *wrong + 1, at.line + 1));
    return false;
  }
  return true;
}

const YamlEntry* YamlNode::entry(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const YamlEntry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

const YamlNode* YamlNode::find(std::string_view key) const {
  const YamlEntry* found = entry(key);
  return found == nullptr ? nullptr : &found->value;
}

YamlNode* YamlNode::find(std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const YamlEntry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

std::optional<YamlNode> parse_yaml(const std::shared_ptr<const Source>& source, std::string_view what,
                                   Problems& problems) {
  if (!readable(source, problems)) return std::nullopt;
  TreeBuilder builder(source, problems);
  try {
    std::istringstream stream(source->text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    const Position at{static_cast<std::size_t>(std::max(error.mark.line, 0)),
                      static_cast<std::size_t>(std::max(error.mark.column, 0))};
    problems.add({source, at}, "", fmt::format("not YAML: {}; allowed: {} in YAML 1.2", shown(error.msg), what));
    return std::nullopt;
  }
  std::optional<YamlNode> root = builder.take();
  if (!root && !source->option) {
    problems.add({source, Position{}}, "", fmt::format("empty file; allowed: {}", what));
  }
  if (!root && source->option) root = YamlNode{.kind = YamlNode::Kind::null, .place = {source, Position{}}};
  return root;
}

void overlay(YamlNode& base, const YamlNode& over) {
  if (over.kind != YamlNode::Kind::map) {
    base = over;
    return;
  }
  if (base.kind == YamlNode::Kind::scalar) {
    YamlNode map{.kind = YamlNode::Kind::map, .place = over.place};
    const SourcePlace place = base.place;
    map.entries.push_back({"use", place, std::move(base)});
    base = std::move(map);
  } else if (base.kind != YamlNode::Kind::map) {
    base = YamlNode{.kind = YamlNode::Kind::map, .place = over.place};
  }
  if (changes_kind(base, over)) {
    std::erase_if(base.entries, [](const YamlEntry& entry) { return !entry.place.source->option; });
  }
  for (const YamlEntry& entry : over.entries) {
    const auto at =
        std::find_if(base.entries.begin(), base.entries.end(), [&](const YamlEntry& e) { return e.key == entry.key; });
    if (at == base.entries.end()) {
      base.entries.push_back(entry);
    } else {
      overlay(at->value, entry.value);
      at->place = entry.place;
    }
  }
}

std::string described(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  return node.quoted ? fmt::format("text \"{}\"", shown(node.scalar)) : fmt::format("'{}'", shown(node.scalar));
}

}  // namespace foretrain
