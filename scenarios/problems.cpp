#include "scenarios/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "scenarios/scenario.h"
#include "scenarios/utf8.h"

namespace foretrain {
namespace {

constexpr std::size_t printed_most = 50;
constexpr std::size_t excerpt_width = 110;  // columns of a source line that a message shows
constexpr std::size_t shown_most = 60;

std::string_view line_of(std::string_view text, std::size_t line) {
  for (std::size_t skipped = 0; skipped < line; ++skipped) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !utf8_continues(c); }));
}

/// The line and a caret under `column`; a long line is cut to a window around it.
std::string excerpt(std::string_view text, Position at) {
  std::string_view line = line_of(text, at.line);
  if (line.empty()) return {};
  std::size_t column = std::min(at.column, line.size());
  std::size_t first = column > excerpt_width - 30 ? column - (excerpt_width - 30) : 0;
  while (first > 0 && utf8_continues(line[first])) --first;
  line.remove_prefix(first);
  column -= first;
  line = line.substr(0, utf8_cut(line, excerpt_width));
  std::string pad;
  for (const char c : line.substr(0, column)) {
    if (!utf8_continues(c)) pad += c == '\t' ? '\t' : ' ';
  }
  return fmt::format("\n{:>6} | {}\n{:>6} | {}^", at.line + 1, line, "", pad);
}

std::string render(const SourcePlace& place, const std::string& path, const std::string& message) {
  const Source& source = *place.source;
  if (source.option) return fmt::format("{}: {}", source.name, message);
  const std::string key = path.empty() ? "" : path + ": ";
  if (!place.at) return fmt::format("{}: {}{}", source.name, key, message);
  const std::string_view before = line_of(source.text, place.at->line).substr(0, place.at->column);
  return fmt::format("{}:{}:{}: {}{}{}", source.name, place.at->line + 1, characters(before) + 1, key, message,
                     excerpt(source.text, *place.at));
}

/// Levenshtein distance with two neighbours swapped counted as one edit (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::shared_ptr<const Source> Problems::source(std::string name, std::string text, std::filesystem::path folder,
                                               bool option) {
  return std::make_shared<const Source>(
      Source{std::move(name), std::move(text), std::move(folder), sources_++, option});
}

void Problems::add(const SourcePlace& place, const std::string& path, const std::string& message) {
  found_.push_back({place, path, message});
  bad_.insert(path);
}

bool Problems::any_bad(const std::string& path) const {
  return std::any_of(bad_.begin(), bad_.end(), [&](const std::string& bad) {
    return bad == path || (bad.starts_with(path) && (bad[path.size()] == '.' || bad[path.size()] == '['));
  });
}

std::string Problems::text() const {
  std::vector<const Problem*> sorted;
  for (const Problem& problem : found_) sorted.push_back(&problem);
  const auto key = [](const Problem* p) {
    const Position at = p->place.at.value_or(Position{});
    return std::tuple(p->place.source->order, p->place.at.has_value(), at.line, at.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return key(a) < key(b); });
  std::string all;
  for (std::size_t i = 0; i < std::min(sorted.size(), printed_most); ++i) {
    if (i > 0) all += '\n';
    all += render(sorted[i]->place, sorted[i]->path, sorted[i]->message);
  }
  if (sorted.size() > printed_most) all += fmt::format("\n... and {} more mistakes", sorted.size() - printed_most);
  return all;
}

void Problems::throw_if_any() const {
  if (!empty()) throw InputError(text());
}

std::string dotted(const std::string& map_path, std::string_view key) {
  return map_path.empty() ? std::string(key) : map_path + "." + std::string(key);
}

std::string shown(std::string_view text) {
  const bool cut = text.size() > shown_most;
  if (cut) text = text.substr(0, utf8_cut(text, shown_most));
  const bool valid = !utf8_error(text).has_value();
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool broken = byte >= 0x80 && !valid;
    const std::size_t escaped = broken || byte < 0x20 ? 1 : control_length(text, i);
    out += escaped > 0 ? fmt::format("\\x{:02x}", byte) : std::string(1, text[i]);
    if (escaped == 2) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
  }
  return cut ? out + "..." : out;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return {};
  // One slip in a short word, two in a longer one, then one for every four letters.
  const std::size_t allowed = word.size() <= 4 ? (word.size() > 1 ? 1 : 0) : std::max<std::size_t>(2, word.size() / 4);
  std::string best;
  std::size_t best_distance = allowed + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest_word(word, known);
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
}

}  // namespace foretrain
