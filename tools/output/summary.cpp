#include "tools/output/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/output/human.h"
#include "tools/output/memory_table.h"
#include "tools/output/parts.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

// What each table may take of the 40 lines; the rest is counted in one line, "and 3 more".
constexpr std::size_t breakdown_rows = 8;
constexpr std::size_t communication_rows = 7;
constexpr std::size_t tier_rows = 5;
constexpr std::size_t hot_link_rows = 3;
constexpr std::size_t kind_rows = 3;
constexpr std::size_t bar_columns = 40;
constexpr std::size_t link_columns = 48;

enum class Ink : int { bold = 1, red = 31, green = 32, yellow = 33, cyan = 36, dim = 2 };

std::string painted(const Look& look, Ink ink, std::string_view text) {
  if (!look.colour) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(ink), text);
}

/// `part` of bar_columns, padded: eighths of a block where the terminal has them.
std::string bar(const Look& look, double part) {
  const double columns = std::clamp(part, 0.0, 1.0) * static_cast<double>(bar_columns);
  std::string filled;
  std::size_t width = 0;
  if (look.unicode) {
    constexpr std::string_view eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto units = static_cast<std::size_t>(std::lround(columns * 8));
    for (width = 0; width < units / 8; ++width) filled += "█";
    filled += eighths[units % 8];
    width += units % 8 == 0 ? 0 : 1;
  } else {
    width = static_cast<std::size_t>(std::lround(columns));
    filled.assign(width, '#');
  }
  return painted(look, Ink::cyan, filled) + std::string(bar_columns - width, look.unicode ? ' ' : '.');
}

class Page {
 public:
  explicit Page(const Look& look) : look_(look) {}
  template <class... Values>
  void line(fmt::format_string<Values...> format, Values&&... values) {
    text_ += fmt::format(format, std::forward<Values>(values)...);
    while (text_.ends_with(' ')) text_.pop_back();
    text_ += '\n';
  }
  void heading(const std::string& text) { line("{}", painted(look_, Ink::bold, text)); }
  void blank() { text_ += '\n'; }
  [[nodiscard]] const Look& look() const { return look_; }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  Look look_;
  std::string text_;
};

std::string plan_text(const Plan& plan) {
  std::string text = fmt::format("tp {}", plan.tp);
  if (plan.cp > 1) text += fmt::format(" x cp {}", plan.cp);
  return fmt::format("{} x pp {} x dp {}, ZeRO {}", text, plan.pp, plan.dp, plan.zero);
}

/// What the numbers of the grid leave open, where there is more than dense layers: how tokens reach experts and how
/// evenly, what context parallelism exchanges, how far shards go. Empty for most plans.
std::string exchanges_text(const Scenario& s) {
  const Plan& plan = s.plan;
  std::vector<std::string> parts;
  if (s.model.experts) {
    std::string text = fmt::format("experts ep {}", plan.ep);
    if (plan.etp > 1) text += fmt::format(" x etp {}", plan.etp);
    if (plan.ep > 1) text += fmt::format(" by {}", to_text(plan.experts));
    parts.push_back(fmt::format("{}, {} {:.2f} of the mean", text,
                                plan.expert_capacity > 0 ? "padded to" : "busiest at", expert_load(plan)));
  }
  if (plan.cp > 1) parts.push_back(fmt::format("cp by {}", to_text(plan.context)));
  if (plan.hsdp_shard > 0) parts.push_back(fmt::format("HSDP sets of {}", grouped(plan.hsdp_shard)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string gpus_text(const Result& r) {
  if (r.gpu_kinds.size() < 2) return fmt::format("{} x {}", grouped(r.scenario.gpus), r.scenario.cluster.gpu.name);
  std::string text;
  for (const GpuKindResult& kind : r.gpu_kinds) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", grouped(kind.gpus), kind.gpu);
  }
  return text;
}

/// Lines about the kinds of a mixed cluster.
std::size_t kind_lines(const Result& r) {
  const std::size_t kinds = r.gpu_kinds.size();
  if (kinds < 2) return 0;
  return kinds <= kind_rows ? kinds : kind_rows + 1;
}

/// Of a mixed cluster: how long each kind computes, and what it holds.
void kinds(Page& page, const Result& r) {
  if (kind_lines(r) == 0) return;
  const std::size_t shown = std::min(kind_rows, r.gpu_kinds.size());
  for (std::size_t k = 0; k < shown; ++k) {
    const GpuKindResult& kind = r.gpu_kinds[k];
    page.line("{}", clipped(fmt::format("{} x {} compute {}, hold {} of {}", grouped(kind.gpus), kind.gpu,
                                        human_seconds(kind.compute_s),
                                        human_bytes(static_cast<double>(kind.peak_memory_bytes)),
                                        human_bytes(static_cast<double>(kind.capacity_bytes))),
                            summary_columns_max));
  }
  if (shown < r.gpu_kinds.size()) page.line("and {} more", r.gpu_kinds.size() - shown);
}

void answer(Page& page, const Result& r) {
  // HFU counts what was computed again, too; without recomputation it says nothing new.
  const std::string hfu = r.breakdown.recompute > 0 ? fmt::format("   HFU {}", human_percent(r.hfu)) : "";
  page.heading(fmt::format("{} a step   {} TFLOP/s per GPU   MFU {}{}   {} tokens/s", human_seconds(r.step_time_s),
                           significant(r.model_tflops_per_gpu), human_percent(r.mfu), hfu,
                           human_count(r.tokens_per_s)));
  const Scenario& s = r.scenario;
  const std::string model = s.name == s.model.name ? s.name : fmt::format("{}: {}", s.name, s.model.name);
  page.line("{}", clipped(fmt::format("{} on {} of {}, {} network", model, gpus_text(r), s.cluster.name,
                                      to_text(s.network.fidelity)),
                          summary_columns_max));
  kinds(page, r);
  page.line("{}", clipped(fmt::format("{}, batch of {} sequences of {} tokens, {}, recompute {}", plan_text(s.plan),
                                      grouped(s.training.global_batch), grouped(s.training.sequence_length),
                                      to_text(s.training.precision), to_text(s.training.recompute)),
                          summary_columns_max));
  if (const std::string more = exchanges_text(s); !more.empty()) page.line("{}", clipped(more, summary_columns_max));
}

/// Largest first; parts that are zero are left out, and the smallest are added up where there are too many lines.
std::vector<BreakdownPart> sorted_parts(const Breakdown& breakdown) {
  std::vector<BreakdownPart> parts;
  for (const BreakdownPart& part : parts_of(breakdown)) {
    if (part.seconds != 0) parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const BreakdownPart& a, const BreakdownPart& b) { return a.seconds > b.seconds; });
  while (parts.size() > breakdown_rows) {
    const double smallest = parts.back().seconds;
    parts.pop_back();
    parts.back().seconds += smallest;
    parts.back().name = "the rest";
  }
  return parts;
}

/// All times of a table in one unit, so that the eye can add them up.
std::string time_in_unit_of(double s, double total) {
  if (total >= 1) return fmt::format("{:.3f} s ", s);
  if (total >= 1e-3) return fmt::format("{:.3f} ms", s * 1e3);
  return fmt::format("{:.3f} us", s * 1e6);
}

void breakdown(Page& page, const Result& r) {
  page.heading("Where the step goes (mean over ranks)");
  const double total = r.breakdown.total();
  for (const BreakdownPart& part : sorted_parts(r.breakdown)) {
    const double share = total > 0 ? part.seconds / total : 0;
    page.line("  {:<16} {} {:>11} {:>8}", part.name, bar(page.look(), share), time_in_unit_of(part.seconds, total),
              human_percent(share));
  }
  page.line("  {:<16} {:{}} {:>11} {:>8}", "step", "", bar_columns, time_in_unit_of(total, total), human_percent(1));
  constexpr double noticed = 0.0005;  // of the step: less prints as 0.0 %
  if (r.slowed_s > noticed * total)
    page.line("  computation slowed by overlapped communication: {} of the step", human_percent(r.slowed_s / total));
}

std::string schedule_text(const Scenario& s) {
  std::string text = fmt::format("{} stages", s.plan.pp);
  const ScheduleSpec& schedule = s.plan.schedule;
  if (schedule.virtual_stages > 1) text += fmt::format(" x {} chunks", schedule.virtual_stages);
  return fmt::format("{}, {}, {} microbatches", text, to_text(schedule.kind),
                     grouped(microbatches(s.plan, s.training)));
}

void pipeline(Page& page, const Result& r) {
  if (r.scenario.plan.pp <= 1) {
    page.line("{}  one stage: no bubble", painted(page.look(), Ink::bold, "Pipeline"));
    return;
  }
  page.line("{}  bubble {} of the step; {}", painted(page.look(), Ink::bold, "Pipeline"),
            human_percent(r.bubble_fraction), schedule_text(r.scenario));
  if (r.stages.empty()) return;
  const auto by_compute = [](const StageResult& a, const StageResult& b) { return a.compute_s < b.compute_s; };
  const auto [least, most] = std::minmax_element(r.stages.begin(), r.stages.end(), by_compute);
  page.line("          stage {} computes most, {}; stage {} least, {}", most->stage, human_seconds(most->compute_s),
            least->stage, human_seconds(least->compute_s));
}

Ink ink_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return Ink::green;
    case Verdict::at_risk:
      return Ink::yellow;
    case Verdict::does_not_fit:
      return Ink::red;
  }
  return Ink::red;
}

void memory(Page& page, const Result& r) {
  const MemoryResult& m = r.memory;
  const std::string verdict = painted(page.look(), ink_of(m.verdict), verdict_text(m));
  page.line("{}    peak {} of {} on stage {} at {}: {}", painted(page.look(), Ink::bold, "Memory"),
            human_bytes(static_cast<double>(m.peak_bytes)), human_bytes(static_cast<double>(m.capacity_bytes)),
            m.peak_stage, human_seconds(m.peak_at_s), verdict);
  std::string parts;
  for (const MemoryPart part : all_memory_parts) {
    const std::int64_t size = m.parts_bytes.at(static_cast<std::size_t>(part));
    if (size == 0) continue;
    parts += fmt::format("{} {} {:.1f}", parts.empty() ? "" : ",", to_text(part),
                         static_cast<double>(size) / static_cast<double>(gibibytes(1).count()));
  }
  if (!parts.empty()) page.line("{}", clipped("  GiB:" + parts, summary_columns_max));
}

/// The rows that hold up the step most come first.
void communication(Page& page, const Result& r) {
  if (r.communication.empty()) return;
  page.blank();
  page.heading(fmt::format("{:<24}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}", "Communication (a rank)", "calls", "message",
                           "time", "exposed", "busbw", "slowdown"));
  std::vector<CommunicationResult> rows = r.communication;
  std::stable_sort(rows.begin(), rows.end(), [](const CommunicationResult& a, const CommunicationResult& b) {
    return a.exposed_s != b.exposed_s ? a.exposed_s > b.exposed_s : a.time_s > b.time_s;
  });
  // Lines that only some runs have come out of this table's.
  const std::size_t most = communication_rows - kind_lines(r) - (exchanges_text(r.scenario).empty() ? 0 : 1);
  const std::size_t shown = rows.size() <= most ? rows.size() : most - 1;
  for (std::size_t i = 0; i < shown; ++i) {
    const CommunicationResult& row = rows[i];
    page.line("  {:<22}{:>10}{:>12}{:>12}{:>12}{:>12}{:>11.2f}x", clipped(row.dimension + " " + row.op, 21),
              grouped(std::llround(row.calls)), human_bytes(row.bytes), human_seconds(row.time_s),
              human_seconds(row.exposed_s), human_rate(row.busbw_Bps), row.slowdown);
  }
  if (shown < rows.size()) page.line("  and {} more (--json has all)", rows.size() - shown);
}

/// The busiest link of each tier, as far as the result names one: its neighbours of the same tier tell nothing new.
void hot_links(Page& page, const Result& r) {
  std::vector<std::string> shown;
  for (const HotLink& link : r.hottest) {
    if (shown.size() == hot_link_rows || link.utilization <= 0) return;
    if (std::find(shown.begin(), shown.end(), link.tier) != shown.end()) continue;
    page.line("  {:<8}{:<{}} {:>8} used, full for {}", shown.empty() ? "hottest" : "",
              clipped(link.from + " > " + link.to, link_columns), link_columns, human_percent(link.utilization),
              human_seconds(link.saturated_s));
    shown.push_back(link.tier);
  }
}

void links(Page& page, const Result& r) {
  if (r.tiers.empty()) return;
  page.blank();
  page.heading(fmt::format("{:<24}{:>10}{:>12}{:>12}{:>12}", "Links", "links", "carried", "mean use", "busiest"));
  std::vector<TierResult> tiers = r.tiers;
  if (tiers.size() > tier_rows) {  // keep the busiest, in the fabric's order
    std::vector<double> use;
    use.reserve(tiers.size());
    for (const TierResult& tier : tiers) use.push_back(tier.max_utilization);
    std::nth_element(use.begin(), use.begin() + static_cast<std::ptrdiff_t>(tier_rows - 1), use.end(),
                     std::greater<>());
    const double least = use[tier_rows - 1];
    std::erase_if(tiers, [&](const TierResult& tier) { return tier.max_utilization < least; });
    tiers.resize(std::min(tiers.size(), tier_rows));
  }
  for (const TierResult& tier : tiers) {
    page.line("  {:<22}{:>10}{:>12}{:>12}{:>12}", clipped(tier.tier, 21), grouped(tier.links), human_bytes(tier.bytes),
              human_percent(tier.mean_utilization), human_percent(tier.max_utilization));
  }
  hot_links(page, r);
}

void engine(Page& page, const Result& r) {
  const EngineResult& e = r.engine;
  page.blank();
  std::string speed;
  if (e.wall_s > 0) {
    speed = fmt::format(" in {}: {} events/s, {}", human_seconds(e.wall_s),
                        human_count(static_cast<double>(e.events) / e.wall_s),
                        human_bytes(static_cast<double>(e.peak_rss_bytes)));
  }
  page.line("{}", painted(page.look(), Ink::dim,
                          fmt::format("Played {} ranks, {} operations, {} events{}",
                                      grouped(static_cast<std::int64_t>(e.ranks)),
                                      human_count(static_cast<double>(e.operations)),
                                      human_count(static_cast<double>(e.events)), speed)));
  if (e.rank_classes >= e.ranks) return;
  std::string fold = fmt::format("Folded to {} classes of ranks", grouped(static_cast<std::int64_t>(e.rank_classes)));
  if (!e.asymmetries.empty()) fold += fmt::format(", split by {}", fmt::join(e.asymmetries, "; "));
  page.line("{}", painted(page.look(), Ink::dim, fold));
}

}  // namespace

std::string summary(const Result& result, const Look& look) {
  Page page(look);
  answer(page, result);
  page.blank();
  breakdown(page, result);
  page.blank();
  pipeline(page, result);
  memory(page, result);
  communication(page, result);
  links(page, result);
  engine(page, result);
  return std::move(page).take();
}

}  // namespace foretrain
