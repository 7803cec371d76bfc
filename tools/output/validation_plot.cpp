#include "tools/output/validation_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/output/human.h"

namespace foretrain {
namespace {

constexpr double side = 640;        // of the square that the points lie in, pixels
constexpr double left = 70;         // room for the numbers of the axis
constexpr double top = 40;          // room for the title
constexpr double legend = 190;      // room for the families
constexpr double band = 0.10;       // the grey band: errors up to this
constexpr double hue_step = 137.5;  // degrees: the golden angle keeps neighbours apart

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string colour(std::size_t family) {
  return fmt::format("hsl({:.0f},65%,{}%)", std::fmod(static_cast<double>(family) * hue_step, 360.0),
                     family % 2 == 0 ? 42 : 58);
}

class Plot {
 public:
  explicit Plot(const Validation& validation) {
    double least = std::numeric_limits<double>::max();
    double most = 0;
    for (const ValidationRow& row : validation.rows) {
      if (!row.predicted) continue;
      rows_.push_back(&row);
      least = std::min({least, row.of.step_s, row.predicted->step_s});
      most = std::max({most, row.of.step_s, row.predicted->step_s});
      const std::string& family = row.of.published.run.family();
      if (std::find(families_.begin(), families_.end(), family) == families_.end()) families_.push_back(family);
    }
    if (rows_.empty()) return;
    first_decade_ = static_cast<int>(std::floor(std::log10(least)));
    last_decade_ = std::max(first_decade_ + 1, static_cast<int>(std::ceil(std::log10(most))));
  }

  std::string svg() const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{:.0f}\" y=\"24\" font-size=\"15\">Step time of {} published runs, predicted against published; the "
        "band is {:.0f} % wide either way</text>\n",
        left + side + legend, top + side + 50, left, rows_.size(), 100 * band);
    text += axes();
    for (const ValidationRow* row : rows_) text += point(*row);
    for (std::size_t i = 0; i < families_.size(); ++i) text += legend_line(i);
    return text + "</svg>\n";
  }

 private:
  double part(double seconds) const {
    return (std::log10(seconds) - first_decade_) / static_cast<double>(last_decade_ - first_decade_);
  }
  double x(double seconds) const { return left + side * part(seconds); }
  double y(double seconds) const { return top + side * (1 - part(seconds)); }

  std::string axes() const {
    const double least = std::pow(10.0, first_decade_);
    const double most = std::pow(10.0, last_decade_);
    std::string text = fmt::format(
        "<defs><clipPath id=\"field\"><rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" "
        "height=\"{2:.0f}\"/></clipPath>"
        "</defs>\n<polygon clip-path=\"url(#field)\" fill=\"#eee\" points=\"{3:.1f},{4:.1f} {5:.1f},{6:.1f} "
        "{5:.1f},{7:.1f} "
        "{3:.1f},{8:.1f}\"/>\n",
        left, top, side, x(least), y(least * (1 + band)), x(most), y(most * (1 + band)), y(most / (1 + band)),
        y(least / (1 + band)));
    for (int decade = first_decade_; decade <= last_decade_; ++decade) {
      const double at = std::pow(10.0, decade);
      text += fmt::format(
          "<path d=\"M{0:.1f} {2:.1f}V{3:.1f}M{4:.1f} {1:.1f}H{5:.1f}\" stroke=\"#ccc\"/>"
          "<text x=\"{0:.1f}\" y=\"{6:.1f}\" text-anchor=\"middle\">{7}</text>"
          "<text x=\"{8:.1f}\" y=\"{9:.1f}\" text-anchor=\"end\">{7}</text>\n",
          x(at), y(at), top, top + side, left, left + side, top + side + 18, human_seconds(at), left - 6, y(at) + 4);
    }
    return text + fmt::format(
                      "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#888\"/>\n<text x=\"{:.0f}\" y=\"{:.0f}\" "
                      "text-anchor=\"middle\">published</text>\n<text transform=\"rotate(-90)\" x=\"{:.0f}\" y=\"16\" "
                      "text-anchor=\"middle\">predicted</text>\n",
                      x(least), y(least), x(most), y(most), left + side / 2, top + side + 38, -(top + side / 2));
  }

  std::string point(const ValidationRow& row) const {
    const PublishedRun& run = row.of.published.run;
    const auto family =
        static_cast<std::size_t>(std::find(families_.begin(), families_.end(), run.family()) - families_.begin());
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.7\"><title>{}: {}, {} GPUs, {} "
        "published, {} predicted, {:+.1f} %</title></circle>\n",
        x(row.of.step_s), y(row.predicted->step_s), colour(family), escaped(run.id()), escaped(run.text("model")),
        run.text("n_gpus"), human_seconds(row.of.step_s), human_seconds(row.predicted->step_s), 100 * row.error());
  }

  std::string legend_line(std::size_t family) const {
    const double at = top + 14 + 18 * static_cast<double>(family);
    return fmt::format(
        "<circle cx=\"{0:.0f}\" cy=\"{1:.0f}\" r=\"4\" fill=\"{2}\"/><text x=\"{3:.0f}\" y=\"{4:.0f}\">{5}</text>\n",
        left + side + 20, at, colour(family), left + side + 30, at + 4, escaped(families_[family]));
  }

  std::vector<const ValidationRow*> rows_;
  std::vector<std::string> families_;
  int first_decade_ = 0, last_decade_ = 1;
};

}  // namespace

std::string validation_plot(const Validation& validation) { return Plot(validation).svg(); }

}  // namespace foretrain
