// Do clusters of the catalogue give the times that nccl-tests measured? Against published logs, whose points the
// reference folder beside the source tree holds. Nothing here belongs to one log but the name of its cluster.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

/// The cluster of the catalogue that each healthy log was taken on.
const std::map<std::string, std::string>& cluster_of_log() {
  static const std::map<std::string, std::string> all{
      {"a100x8-allreduce-oldfmt.log", "dgx-a100-hdr"},
      {"a100x8-reducescatter-oldfmt.log", "dgx-a100-hdr"},
      {"a100x8-reduce-oldfmt.log", "dgx-a100-hdr"},
      {"a100x8-alltoall-oldfmt.log", "dgx-a100-hdr"},
      {"a100x16-allreduce-hdr.log", "dgx-a100-hdr"},
      {"aks-x16-allreduce-ib.log", "dgx-a100-hdr"},
      {"a100x32-allreduce-hdr.log", "dgx-a100-hdr"},
      {"a100x16-allreduce-p4de-srunlabel.log", "p4d-efa"},
      {"h100x8-allreduce-dgx.log", "dgx-h100-ndr"},
      {"h100x8-allreduce-batch.log", "h100-efa"},
      {"h100x8-allreduce-half-bert-0920.log", "dgx-h100-ndr"},
      {"h100x8-allreduce-half-graph-0227.log", "dgx-h100-ndr"},
      {"h100x8-allreduce-half-graph-0442.log", "dgx-h100-ndr"},
      {"h100x16-allreduce-nebius.log", "dgx-h100-ndr"},
      {"h100x16-allreduce-oci.log", "h100-roce-oci"},
      {"h100x16-allreduce-a3mega.log", "h100-tcpxo"},
      {"h100x16-allgather-a3mega.log", "h100-tcpxo"},
      {"h200x8-allreduce-half-a3ultra-4.log", "h200-roce"},
      {"h200x16-allgather-a3ultra.log", "h200-roce"},
      {"h200x64-allreduce-half-a3ultra-1.log", "h200-roce"},
      {"h200x64-allreduce-half-a3ultra-6.log", "h200-roce"},
      {"h200-allreduce-p5en-cut.log", "h200-efa"},
      {"b200x8-allreduce-half.log", "dgx-b200-ndr"},
      {"b200x8-alltoall-uint32.log", "dgx-b200-ndr"},
      {"b200x16-allreduce-lambda.log", "dgx-b200-ndr"},
      {"gb200x72-allreduce-nvl72.log", "gb200-nvl72"},
      {"gb200x1440-allreduce-20rack.log", "gb200-nvl72"},
      {"gh200x2-allreduce-slingshot.log", "gh200-slingshot"},
      {"mi300x8-allreduce-rccl.log", "mi300x-roce"},
      {"mi300x16-allreduce-oci-rccl.log", "mi300x-roce"},
      {"mi325x-allreduce-grep.log", "mi325x-roce"},
  };
  return all;
}

/// Logs that no model of a healthy cluster should meet, and why.
const std::map<std::string, std::string>& left_out() {
  static const std::map<std::string, std::string> all{
      {"rtx5090-allgather-6runs-noise.log", "both ranks on one GPU, over sockets"},
      {"rtx5090-broadcast-proto-sweep.log", "both ranks on one GPU, over sockets"},
      {"rtx2080tix2-multi-op.log", "no NVLink and no peer access: through host memory"},
      {"k80x2-allreduce-gcp.log", "TCP of a cloud of 2017"},
      {"aks-x16-allreduce-ipoib.log", "TCP over InfiniBand"},
      {"v100x16-allreduce-efa-2019.log", "NCCL 2.4.6 without trees, a third of the line rate"},
      {"h100x16-allgather-tcpx.log", "900 us up to 16 MiB, then 72 of 100 GB/s"},
      {"h100x2-sendrecv-roce1nic.log", "one NIC without GPUDirect"},
      {"h100x8-sendrecv-roce1nic.log", "one NIC for four GPUs"},
      {"h200x64-allreduce-half-a3ultra-0.log", "240 GB/s where two more runs of the job give 320 and 326"},
      {"h100x16-allreduce-p5-elided.log", "167 GB/s at 256 MiB, 438 at 2 GiB"},
  };
  return all;
}

// The four oldest logs were taken by one process that drives all 8 GPUs, where nccl-tests' later logs have a process a
// GPU. Its launches go out one after the other: 20 us more for 8 GPUs, 70 us for the 8 x 8 sends and receives of an
// all-to-all. That is a property of the measurement, not of the cluster, and the same for all that are taken so.
bool one_process(const std::string& log) { return log.ends_with("-oldfmt.log"); }
double launches_of_one_process_s(const std::string& log, Collective op) {
  if (!one_process(log)) return 0;
  return op == Collective::all_to_all ? 70e-6 : 20e-6;
}

struct Point {
  std::string log;
  Collective op{};
  std::uint32_t ranks = 0;
  Bytes size;
  double measured_s = 0;
  double predicted_s = 0;
  [[nodiscard]] double time_error() const { return std::abs(predicted_s / measured_s - 1); }
  /// busbw is size over time and a factor that is the same for both.
  [[nodiscard]] double busbw_error() const { return std::abs(measured_s / predicted_s - 1); }
};

/// One line of comma-separated values; quotes hold commas.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

Collective op_of(const std::string& name) {
  const std::string ours = name == "alltoall" ? "all_to_all" : name == "sendrecv" ? "send_recv" : name;
  for (const Collective op : all_collectives) {
    if (to_text(op) == ours) return op;
  }
  throw std::invalid_argument("unknown collective " + name);
}

std::vector<Point> read_points(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = cells_of(line);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const std::size_t source = column("source"), op = column("op"), ranks = column("n_gpus"), size = column("bytes"),
                    time = column("time_us");
  std::vector<Point> points;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.at(time).empty()) continue;
    points.push_back({.log = cells.at(source),
                      .op = op_of(cells.at(op)),
                      .ranks = static_cast<std::uint32_t>(std::stoul(cells.at(ranks))),
                      .size = bytes(std::stoll(cells.at(size))),
                      .measured_s = std::stod(cells.at(time)) * 1e-6});
  }
  return points;
}

/// The first GPUs of a cluster of the catalogue, on an idle network.
class Machine {
 public:
  Machine(const std::string& name, std::uint32_t ranks)
      : cluster_(load_cluster(name, testing::catalogue())),
        fabric_(build_fabric(cluster_, ranks)),
        router_(make_router(Network{}.routing, fabric_, Network{}.seed)) {
    for (std::size_t i = 0; i < ranks; ++i) group_.push_back(id_at<GpuId>(i));
  }
  [[nodiscard]] double seconds(Collective op, Bytes size) const {
    return idle_call(fabric_, cluster_.transport, *router_, op, size, group_, {}).time.seconds();
  }

  /// One algorithm and protocol that NCCL's tuner weighs: its estimate and our time.
  struct Way {
    double estimate = 0;
    double seconds = 0;
  };
  [[nodiscard]] std::vector<Way> ways(Collective op, Bytes size) const {
    const GroupShape shape = shape_of(fabric_, GroupLayout(fabric_, group_));
    std::vector<Way> all;
    for (const auto& how : algorithms())
      for (const Protocol protocol : all_protocols) {
        const auto estimate = nccl_estimate(op, {how->id(), protocol}, size, shape, cluster_.transport);
        if (!estimate) continue;
        const Forced forced{how->id(), protocol};
        const IdleCall call = idle_call(fabric_, cluster_.transport, *router_, op, size, group_, forced);
        all.push_back({estimate->seconds(), call.time.seconds()});
      }
    return all;
  }

  /// All NICs of a node together.
  [[nodiscard]] double nic_rate() const {
    for (const Tier& tier : fabric_.tiers()) {
      if (tier.name != "nic") continue;
      return static_cast<double>(tier.bandwidth.bytes_per_s()) / 2 / static_cast<double>(fabric_.node_count());
    }
    return 0;
  }

 private:
  Cluster cluster_;
  Fabric fabric_;
  std::unique_ptr<Router> router_;
  std::vector<GpuId> group_;
};

/// Calls `visit(point, machine)` for the healthy points of 1 KiB and more.
template <class Visit>
void visit_points(const std::filesystem::path& file, Visit visit) {
  std::map<std::pair<std::string, std::uint32_t>, std::unique_ptr<Machine>> machines;
  for (Point& point : read_points(file)) {
    const auto cluster = cluster_of_log().find(point.log);
    if (cluster == cluster_of_log().end() || point.size < kibibytes(1)) continue;
    auto& machine = machines[{cluster->second, point.ranks}];
    if (!machine) machine = std::make_unique<Machine>(cluster->second, point.ranks);
    visit(point, *machine);
  }
}

/// Those points, with what the catalogue says.
std::vector<Point> predicted_points(const std::filesystem::path& file) {
  std::vector<Point> kept;
  visit_points(file, [&](Point& point, const Machine& machine) {
    point.predicted_s = machine.seconds(point.op, point.size) + launches_of_one_process_s(point.log, point.op);
    kept.push_back(std::move(point));
  });
  return kept;
}

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  // Rounded up: at least that part of the values lies at or below.
  const double place = std::ceil(part * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(1.0, place)) - 1];
}

std::string percent(const std::vector<double>& errors, double part) {
  return errors.empty() ? "-" : fmt::format("{:.1f}", 100 * quantile(errors, part));
}

void print_table(const std::vector<Point>& points) {
  struct Row {
    std::size_t count = 0;
    std::vector<double> small, middle, large;
  };
  std::map<std::tuple<std::string, std::uint32_t, std::string>, Row> rows;
  for (const Point& p : points) {
    Row& row = rows[{cluster_of_log().at(p.log), p.ranks, std::string(to_text(p.op))}];
    ++row.count;
    (p.size < mebibytes(1)    ? row.small
     : p.size < mebibytes(64) ? row.middle
                              : row.large)
        .push_back(p.size < mebibytes(64) ? p.time_error() : p.busbw_error());
  }
  fmt::print("{:16} {:>5} {:14} {:>6} | {:>8} {:>8} | {:>7} {:>7}\n", "median |error|, %", "ranks", "op", "points",
             "1K-1M", "1M-64M", ">=64M", "p90");
  for (const auto& [key, row] : rows) {
    fmt::print("{:17} {:5} {:14} {:6} | {:>8} {:>8} | {:>7} {:>7}\n", std::get<0>(key), std::get<1>(key),
               std::get<2>(key), row.count, percent(row.small, 0.5), percent(row.middle, 0.5), percent(row.large, 0.5),
               percent(row.large, 0.9));
  }
}

class NcclLogs : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::path(FORETRAIN_SOURCE_DIR) / "../shared/reference/collective_points.csv";
    if (!std::filesystem::exists(file_)) GTEST_SKIP() << "no reference points at " << file_;
  }
  std::filesystem::path file_;
};

TEST_F(NcclLogs, EveryLogIsCountedOrLeftOutForAReason) {
  std::set<std::string> seen;
  for (const Point& point : read_points(file_)) seen.insert(point.log);
  for (const std::string& log : seen) {
    EXPECT_NE(cluster_of_log().contains(log), left_out().contains(log)) << log;
  }
  for (const auto* table : {&cluster_of_log(), &left_out()}) {
    for (const auto& [log, what] : *table) EXPECT_TRUE(seen.contains(log)) << log << ": " << what;
  }
}

struct Errors {
  std::vector<double> large;   ///< busbw from 64 MiB
  std::vector<double> middle;  ///< time, 1 to 64 MiB
  std::vector<double> all;     ///< time from 1 KiB
};

Errors errors_of(const std::vector<Point>& points) {
  Errors errors;
  for (const Point& p : points) {
    errors.all.push_back(p.time_error());
    if (p.size >= mebibytes(64)) errors.large.push_back(p.busbw_error());
    if (p.size >= mebibytes(1) && p.size < mebibytes(64)) errors.middle.push_back(p.time_error());
  }
  const auto print = [](const char* what, const std::vector<double>& values) {
    fmt::print("{:22} {:4} points, median {:.1f} %, p90 {:.1f} %\n", what, values.size(), 100 * quantile(values, 0.5),
               100 * quantile(values, 0.9));
  };
  print("busbw from 64 MiB:", errors.large);
  print("time, 1 to 64 MiB:", errors.middle);
  print("time from 1 KiB:", errors.all);
  return errors;
}

void expect_within_bounds(const Errors& errors) {
  EXPECT_LE(quantile(errors.large, 0.5), 0.03);
  EXPECT_LE(quantile(errors.large, 0.9), 0.08);
  EXPECT_LE(quantile(errors.all, 0.5), 0.05);
  EXPECT_LE(quantile(errors.all, 0.9), 0.20);
  // Where data-parallel buckets live: no figure was asked for; no looser than all sizes together.
  EXPECT_LE(quantile(errors.middle, 0.9), 0.20);
}

TEST_F(NcclLogs, CatalogueClustersMeetThem) {
  std::vector<Point> points = predicted_points(file_);
  print_table(points);
  fmt::print("all healthy logs\n");
  const Errors all = errors_of(points);
  EXPECT_GT(all.large.size(), 250U);
  EXPECT_GT(all.all.size(), 750U);
  expect_within_bounds(all);
  fmt::print("without the logs taken by one process, so without any correction\n");
  std::erase_if(points, [](const Point& p) { return one_process(p.log); });
  expect_within_bounds(errors_of(points));
}

/// How far above NCCL's best estimate a choice may be for ours to decide, as the tuner has it (tuner.cpp).
constexpr double widths[] = {1, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 2};
constexpr std::size_t widths_count = std::size(widths);

struct ByWidth {
  std::string system;
  std::array<Point, widths_count> points;  ///< one point, predicted with each width
};
std::vector<ByWidth> predicted_by_width(const std::filesystem::path& file) {
  std::vector<ByWidth> all;
  visit_points(file, [&](const Point& point, const Machine& machine) {
    const std::vector<Machine::Way> ways = machine.ways(point.op, point.size);
    if (ways.empty()) return;  // not the tuner's
    double least = std::numeric_limits<double>::infinity();
    for (const Machine::Way& way : ways) least = std::min(least, way.estimate);
    ByWidth& entry = all.emplace_back();
    entry.system = cluster_of_log().at(point.log);
    for (std::size_t w = 0; w < widths_count; ++w) {
      double best = std::numeric_limits<double>::infinity();
      for (const Machine::Way& way : ways)
        if (way.estimate <= widths[w] * least) best = std::min(best, way.seconds);
      entry.points[w] = point;
      entry.points[w].predicted_s = best + launches_of_one_process_s(point.log, point.op);
    }
  });
  return all;
}

/// The width of a tie is one number of the tuner, and these logs are what it is judged by. So it is chosen for every
/// system anew from the other systems alone, and the system predicted with that: the bounds hold just so.
TEST_F(NcclLogs, MeetTheBoundsWithATieChosenOnTheOtherSystems) {
  const std::vector<ByWidth> all = predicted_by_width(file_);
  std::set<std::string> systems;
  for (const ByWidth& entry : all) systems.insert(entry.system);
  std::vector<Point> judged;
  std::map<double, int> chosen;
  for (const std::string& left_out_system : systems) {
    std::array<double, widths_count> p90{};
    for (std::size_t w = 0; w < widths_count; ++w) {
      std::vector<double> errors;
      for (const ByWidth& entry : all)
        if (entry.system != left_out_system) errors.push_back(entry.points[w].time_error());
      p90[w] = quantile(errors, 0.9);
    }
    const auto best = static_cast<std::size_t>(std::min_element(p90.begin(), p90.end()) - p90.begin());
    ++chosen[widths[best]];
    for (const ByWidth& entry : all)
      if (entry.system == left_out_system) judged.push_back(entry.points[best]);
  }
  for (const auto& [width, count] : chosen)
    fmt::print("  tie {}: chosen for {} of {} systems\n", width, count, systems.size());
  for (std::size_t w = 0; w < widths_count; ++w) {
    std::vector<double> time, busbw;
    for (const ByWidth& entry : all) {
      time.push_back(entry.points[w].time_error());
      if (entry.points[w].size >= mebibytes(64)) busbw.push_back(entry.points[w].busbw_error());
    }
    fmt::print("  tie {}: time {} / {}, busbw from 64 MiB {} / {}\n", widths[w], percent(time, 0.5), percent(time, 0.9),
               percent(busbw, 0.5), percent(busbw, 0.9));
  }
  expect_within_bounds(errors_of(judged));
}

// Two nodes: each sends the message once (double tree, NVLSTree), so busbw is up to 1.875 times its NICs' rate.
TEST_F(NcclLogs, TwoNodesAboveTheirNicsAreReproducedNotClipped) {
  std::set<std::string> above;
  std::map<std::string, double> nic_rates;
  for (const Point& p : predicted_points(file_)) {
    const std::string& cluster = cluster_of_log().at(p.log);
    if (p.ranks != 16 || p.op != Collective::all_reduce || p.size < mebibytes(64)) continue;
    const double factor = busbw_factor(p.op, p.ranks) * static_cast<double>(p.size.count());
    if (!nic_rates.contains(cluster)) nic_rates[cluster] = Machine(cluster, p.ranks).nic_rate();
    const double nics = nic_rates[cluster];
    if (factor / p.measured_s < 1.05 * nics) continue;
    EXPECT_GT(factor / p.predicted_s, nics) << p.log << " at " << to_text(p.size);
    above.insert(p.log);
  }
  EXPECT_GE(above.size(), 4U) << "logs above the rate of their NICs";
}

}  // namespace
}  // namespace foretrain
