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
      return whole / ranks;
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      return whole;
  }
  return whole;
}

std::string_view reduction(Collective op) {
  const bool reduces = op == Collective::all_reduce || op == Collective::reduce_scatter || op == Collective::reduce;
  return reduces ? "sum" : "none";
}

double microseconds_of(const CollectiveRow& row) { return row.call.time.seconds() * 1e6; }

}  // namespace

double algbw(const CollectiveRow& row) {
  const double seconds = row.call.time.seconds();
  return seconds > 0 ? static_cast<double>(row.size.count()) / seconds : 0;
}

double busbw(const CollectiveRow& row, std::int64_t ranks) {
  return algbw(row) * busbw_factor(row.op, static_cast<std::size_t>(ranks));
}

std::string to_text(const CollectiveTable& table) {
  std::string text =
      fmt::format("# {} on {} ranks of {}, idle network, simulated\n#\n",
                  table.rows.empty() ? "nothing" : to_text(table.rows.front().op), grouped(table.ranks), table.cluster);
  const auto add_line = [&](std::string line) {
    while (line.ends_with(' ')) line.pop_back();
    text += line + '\n';
  };
  constexpr auto layout = "{:>12}  {:>12}  {:>6}  {:>6}  {:>9}  {:>7}  {:>7}  {:<9}  {:<8}  {}";
  add_line(fmt::format(layout, "#       size", "count", "type", "redop", "time", "algbw", "busbw", "algorithm",
                       "protocol", "limit"));
  add_line(fmt::format(layout, "#        (B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "", ""));
  double sum = 0;
  for (const CollectiveRow& row : table.rows) {
    const double bus = busbw(row, table.ranks) / 1e9;
    sum += bus;
    add_line(fmt::format(layout, row.size.count(), element_count(row, table.ranks), type_name, reduction(row.op),
                         significant(microseconds_of(row), 4), fmt::format("{:.2f}", algbw(row) / 1e9),
                         fmt::format("{:.2f}", bus), to_text(row.call.choice.algorithm),
                         to_text(row.call.choice.protocol), row.call.limit));
  }
  if (!table.rows.empty()) {
    text += fmt::format("# Avg bus bandwidth    : {:.4f}\n", sum / static_cast<double>(table.rows.size()));
  }
  return text;
}

std::string to_json(const CollectiveTable& table) {
  nlohmann::ordered_json json = {{"cluster", table.cluster}, {"ranks", table.ranks}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const CollectiveRow& row : table.rows) {
    json["rows"].push_back({{"op", to_text(row.op)},
                            {"bytes", row.size.count()},
                            {"algorithm", to_text(row.call.choice.algorithm)},
                            {"protocol", to_text(row.call.choice.protocol)},
                            {"time_us", microseconds_of(row)},
                            {"algbw_GBps", algbw(row) / 1e9},
                            {"busbw_GBps", busbw(row, table.ranks) / 1e9},
                            {"limit", row.call.limit}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretrain
