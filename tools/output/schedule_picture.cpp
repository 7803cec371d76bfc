#include "tools/output/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

constexpr std::size_t panels_most = 8;
/// A scale that gives the shortest action its name may need more than anybody looks at.
constexpr double columns_most = 1e6;

/// What is drawn as one cell: an action, or the two of a block.
struct Cell {
  double start = 0;
  double end = 0;
  std::string label;
};

/// a, b, ..., z, aa, ab, ...
std::string chunk_letters(std::int64_t chunk) {
  std::string letters;
  for (std::int64_t rest = chunk; rest >= 0; rest = rest / 26 - 1)
    letters.insert(letters.begin(), static_cast<char>('a' + rest % 26));
  return letters;
}

std::string label_of(const Action& a, std::int64_t chunks) {
  constexpr std::string_view letters = "FBIW";  // in the order of Pass
  return fmt::format("{}{}{}", letters[static_cast<std::size_t>(a.pass)], a.microbatch,
                     chunks > 1 ? chunk_letters(a.chunk) : "");
}

std::vector<Cell> cells_of(const PlayedRank& rank, std::int64_t chunks) {
  std::vector<Cell> cells;
  bool in_block = false;
  for (const PlayedAction& it : rank.actions) {
    const std::string label = label_of(it.action, chunks);
    if (in_block) {
      cells.back().label += fmt::format("&{}", label);
    } else {
      cells.push_back({it.start, it.end, label});
    }
    in_block = it.action.with_next;
  }
  return cells;
}

/// Columns a unit of time: every cell has room for its bar and its label.
double scale_of(const std::vector<std::vector<Cell>>& rows, double makespan) {
  double scale = 0;
  for (const auto& row : rows) {
    for (const Cell& cell : row) {
      if (cell.end > cell.start)
        scale = std::max(scale, static_cast<double>(cell.label.size() + 1) / (cell.end - cell.start));
    }
  }
  return makespan > 0 ? std::min(scale, columns_most / makespan) : scale;
}

std::size_t column(double time, double scale) { return static_cast<std::size_t>(std::llround(time * scale)); }

std::string row_text(const std::vector<Cell>& cells, double scale, std::size_t columns) {
  std::string text(columns + 1, '.');
  for (const Cell& cell : cells) {
    const std::size_t begin = column(cell.start, scale);
    const std::size_t end = column(cell.end, scale);
    if (end == begin) continue;
    text[begin] = '|';
    text[end] = '|';
    const std::string label = cell.label.substr(0, end - begin - 1);
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin + 1), text.begin() + static_cast<std::ptrdiff_t>(end),
              ' ');
    std::copy(label.begin(), label.end(), text.begin() + static_cast<std::ptrdiff_t>(begin + 1));
  }
  return text;
}

std::string panel(const std::vector<std::string>& rows, std::size_t begin, std::size_t width, double scale) {
  const std::size_t end = std::min(begin + width, rows.front().size());
  std::string text =
      fmt::format("time {:.4g} to {:.4g}\n", static_cast<double>(begin) / scale, static_cast<double>(end - 1) / scale);
  for (std::size_t r = 0; r < rows.size(); ++r)
    text += fmt::format("{:>{}} {}\n", r, fmt::formatted_size("{}", rows.size() - 1), rows[r].substr(begin, width));
  return text;
}

}  // namespace

std::string schedule_picture(const SchedulePlay& played, std::int64_t chunks, std::size_t width) {
  std::vector<std::vector<Cell>> cells;
  cells.reserve(played.ranks.size());
  for (const PlayedRank& rank : played.ranks) cells.push_back(cells_of(rank, chunks));
  const double makespan = played.makespan();
  const double scale = scale_of(cells, makespan);
  const std::size_t columns = column(makespan, scale);
  std::vector<std::string> rows;
  rows.reserve(cells.size());
  for (const auto& row : cells) rows.push_back(row_text(row, scale, columns));
  const std::size_t names = fmt::formatted_size("{}", rows.size() - 1) + 1;
  const std::size_t a_panel = width > names + 20 ? width - names : 20;
  const std::size_t panels = (columns + a_panel) / a_panel;
  std::string text;
  for (std::size_t i = 0; i < panels; ++i) {
    if (panels > panels_most && i == panels_most / 2) {
      const std::size_t left_out = panels - panels_most;
      text += fmt::format("... {} more such rows of panels are left out; a larger --width shows more ...\n", left_out);
      i += left_out;
    }
    text += panel(rows, i * a_panel, a_panel, scale);
  }
  return text;
}

}  // namespace foretrain
