#include "tools/output/collective_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/output/human.h"

namespace foretrain {
namespace {

// nccl-tests' default type.
constexpr std::string_view type_name = "float";
constexpr std::int64_t type_bytes = 4;

/// nccl-tests' "count": elements of a rank's own part where the operation has one, else of the whole buffer.
std::int64_t element_count(const CollectiveRow& row, std::int64_t ranks) {
  const std::int64_t whole = row.size.count() / type_bytes;
  switch (row.op) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::all_to_allv:
    case Collective::all_to_allv_back:
    case Collective::gather:
    case Collective::scatter:
      return whole / ranks;
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
    case Collective::shift:
      return whole;
    case Collective::barrier:
      return 0;
  }
  return whole;
}

std::string_view reduction(Collective op) {
  const bool reduces = op == Collective::all_reduce || op == Collective::reduce_scatter || op == Collective::reduce;
  return reduces ? "sum" : "none";
}

double seconds_of(const CollectiveRow& row) { return (row.together ? row.together->time : row.call.time).seconds(); }
double microseconds_of(const CollectiveRow& row) { return seconds_of(row) * 1e6; }
const std::string& limit_of(const CollectiveRow& row) { return row.together ? row.together->limit : row.call.limit; }
const std::string& link_of(const CollectiveRow& row) { return row.together ? row.together->link : row.link; }

// What leaving a GPU generation and kind of fabric out of the fit and predicting it from the others shows: |error| of
// bus bandwidth from 64 MiB on and of time from 1 KiB on (docs/collectives.md, "What is uncertain").
struct LeftOut {
  std::string_view key;
  double median = 0, p90 = 0;
};
constexpr LeftOut left_out_large{"from_64_MiB", 0.06, 0.30};
constexpr LeftOut left_out_all{"from_1_KiB", 0.12, 0.65};

std::string uncertainty_text(MeasuredSizes measured) {
  const auto quoted = [](const LeftOut& it) {
    return fmt::format("{:.0f} % in the median and {:.0f} % in the worst tenth", 100 * it.median, 100 * it.p90);
  };
  switch (measured) {
    case MeasuredSizes::all_sizes:
      return {};
    case MeasuredSizes::large_sizes:
      return fmt::format(
          "# uncertain: only large messages were measured on such a cluster. Times bound by latency are by analogy;\n"
          "#   systems left out of the fit were missed by {}, all sizes together.\n",
          quoted(left_out_all));
    case MeasuredSizes::none:
      return fmt::format(
          "# uncertain: nobody measured such a cluster. Systems left out of the fit were missed by\n"
          "#   {} from 64 MiB on, and by\n#   {} all sizes together: times bound by latency most.\n",
          quoted(left_out_large), quoted(left_out_all));
  }
  return {};
}

nlohmann::ordered_json uncertainty_json(MeasuredSizes measured) {
  nlohmann::ordered_json json = {{"measured", to_text(measured)}};
  const auto add = [&](const LeftOut& it) { json[std::string(it.key)] = {{"median", it.median}, {"p90", it.p90}}; };
  if (measured == MeasuredSizes::none) add(left_out_large);
  if (measured != MeasuredSizes::all_sizes) add(left_out_all);
  return json;
}

std::string heading(const CollectiveTable& table) {
  const std::string_view op = table.rows.empty() ? "nothing" : to_text(table.rows.front().op);
  if (table.groups == 1) {
    return fmt::format("# {} on {} ranks of {}, idle network, simulated\n#\n", op, grouped(table.ranks), table.cluster);
  }
  return fmt::format("# {} on {} groups of {} ranks of {} at once, simulated\n#\n", op, grouped(table.groups),
                     grouped(table.ranks), table.cluster);
}

}  // namespace

double algbw(const CollectiveRow& row) {
  const double seconds = seconds_of(row);
  return seconds > 0 ? static_cast<double>(row.size.count()) / seconds : 0;
}

double busbw(const CollectiveRow& row, std::int64_t ranks) {
  return algbw(row) * busbw_factor(row.op, static_cast<std::size_t>(ranks));
}

std::string to_text(const CollectiveTable& table) {
  std::string text = heading(table);
  const auto add_line = [&](std::string line) {
    while (line.ends_with(' ')) line.pop_back();
    text += line + '\n';
  };
  constexpr auto layout = "{:>12}  {:>12}  {:>6}  {:>6}  {:>9}  {:>7}  {:>7}  {:<9}  {:<8}  {}{}";
  add_line(fmt::format(layout, "#       size", "count", "type", "redop", "time", "algbw", "busbw", "algorithm",
                       "protocol", table.groups > 1 ? "slowdown  " : "", "limit"));
  add_line(fmt::format(layout, "#        (B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "", "", ""));
  double sum = 0;
  for (const CollectiveRow& row : table.rows) {
    const double bus = busbw(row, table.ranks) / 1e9;
    sum += bus;
    add_line(fmt::format(layout, row.size.count(), element_count(row, table.ranks), type_name, reduction(row.op),
                         significant(microseconds_of(row), 4), fmt::format("{:.2f}", algbw(row) / 1e9),
                         fmt::format("{:.2f}", bus), to_text(row.call.choice.algorithm),
                         to_text(row.call.choice.protocol),
                         row.together ? fmt::format("{:<10.2f}", row.together->slowdown) : "",
                         link_of(row).empty() ? limit_of(row) : fmt::format("{}: {}", limit_of(row), link_of(row))));
  }
  if (!table.rows.empty()) {
    text += fmt::format("# Avg bus bandwidth    : {:.4f}\n", sum / static_cast<double>(table.rows.size()));
  }
  if (table.measured) text += uncertainty_text(*table.measured);
  return text;
}

std::string to_json(const CollectiveTable& table) {
  nlohmann::ordered_json json = {{"cluster", table.cluster}, {"ranks", table.ranks}};
  if (table.groups > 1) json["groups"] = table.groups;
  if (table.measured) json["uncertainty"] = uncertainty_json(*table.measured);
  json["rows"] = nlohmann::ordered_json::array();
  for (const CollectiveRow& row : table.rows) {
    json["rows"].push_back(nlohmann::ordered_json{{"op", to_text(row.op)},
                                                  {"bytes", row.size.count()},
                                                  {"algorithm", to_text(row.call.choice.algorithm)},
                                                  {"protocol", to_text(row.call.choice.protocol)},
                                                  {"time_us", microseconds_of(row)},
                                                  {"algbw_GBps", algbw(row) / 1e9},
                                                  {"busbw_GBps", busbw(row, table.ranks) / 1e9},
                                                  {"limit", limit_of(row)},
                                                  {"limit_link", link_of(row)}});
    if (!row.together) continue;
    json["rows"].back()["slowdown"] = row.together->slowdown;
    json["rows"].back()["alone_us"] = row.call.time.seconds() * 1e6;
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretrain
