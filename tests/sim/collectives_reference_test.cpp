// Does the model give the times that nccl-tests measured? Against published logs, of which the reference folder beside
// the source tree holds the points. Constants: docs/collectives.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sim/simulate.h"
#include "tests/sim/hand_made_fabric.h"

namespace foretrain {
namespace {

NodeTransport a100() {
  return {.generation = GpuGeneration::ampere,
          .line = gigabytes_per_second(300),
          .launch = microseconds(16),
          .ll_rate = gigabytes_per_second(23),
          .ll128_step = microseconds(2.1),
          .ll128_rate = gigabytes_per_second(87),
          .ring_step = microseconds(5),
          .ring_rate = gigabytes_per_second(232),
          .nvls_efficiency = 0,
          .nvls_fill = Duration{},
          .p2p_efficiency = 0.75,
          .ring_rate_across = gigabytes_per_second(225)};
}

NodeTransport h100() { return {}; }  // the defaults of NodeTransport are those of H100 and H200

NodeTransport b200() {
  return {.generation = GpuGeneration::blackwell,
          .line = gigabytes_per_second(900),
          .launch = microseconds(14),
          .ll_rate = gigabytes_per_second(90),
          .ll128_step = microseconds(1.4),
          .ll128_rate = gigabytes_per_second(290),
          .ring_step = microseconds(5),
          .ring_rate = gigabytes_per_second(680),
          .nvls_efficiency = 0.58,
          .nvls_fill = microseconds(10),
          .p2p_efficiency = 0.80,
          .ring_rate_across = {}};
}

NodeTransport mi300x() {
  return {.generation = GpuGeneration::other,
          .line = gigabytes_per_second(448),
          .launch = microseconds(14),
          .ll_rate = gigabytes_per_second(110),
          .ll128_step = microseconds(1.6),
          .ll128_rate = gigabytes_per_second(140),
          .ring_step = microseconds(3.4),
          .ring_rate = gigabytes_per_second(318),
          .nvls_efficiency = 0,
          .nvls_fill = Duration{},
          .p2p_efficiency = 0.70,
          .ring_rate_across = gigabytes_per_second(448)};
}

NodeTransport gb200() {
  NodeTransport node = b200();
  node.launch = microseconds(25);
  node.ll128_step = microseconds(1.25);
  node.ll128_rate = gigabytes_per_second(330);
  node.nvls_efficiency = 0.50;
  node.nvls_fill = microseconds(8);
  node.ring_rate_across = gigabytes_per_second(435);
  return node;
}

NetworkTransport infiniband() {
  return {.ll_step = microseconds(10),
          .ll_rate = gigabytes_per_second(8.5),
          .ll128_step = microseconds(36),
          .ll128_part = 0.6,
          .ring_step = microseconds(40),
          .tree_step = microseconds(65),
          .efficiency = 0.95};
}

NetworkTransport roce() { return {}; }  // the defaults of NetworkTransport

NetworkTransport efa_100g() {
  return {.ll_step = microseconds(73),
          .ll_rate = gigabytes_per_second(0.8),
          .ll128_step = microseconds(100),
          .ll128_part = 0.33,
          .ring_step = microseconds(100),
          .tree_step = microseconds(350),
          .efficiency = 0.84};
}

NetworkTransport efa_3200g() {
  return {.ll_step = microseconds(19),
          .ll_rate = gigabytes_per_second(4),
          .ll128_step = microseconds(45),
          .ll128_part = 0.4,
          .ring_step = microseconds(60),
          .tree_step = microseconds(150),
          .efficiency = 0.935};
}

NetworkTransport tcpxo() {
  return {.ll_step = microseconds(54),
          .ll_rate = gigabytes_per_second(1.4),
          .ll128_step = microseconds(69),
          .ll128_part = 0.11,
          .ring_step = microseconds(80),
          .tree_step = microseconds(395),
          .efficiency = 0.93,
          .tree_allowed = true,
          .ring_all_reduce_allowed = false};
}

/// Racks of 72 GPUs as nodes: only rings cross between them.
NetworkTransport between_racks() {
  NetworkTransport network = roce();
  network.tree_allowed = false;
  return network;
}

/// A system of the logs: its constants and what a node looks like.
struct System {
  Transport transport;
  Bandwidth nic = gigabits_per_second(400);  ///< a GPU
  Duration launch_extra;                     ///< of the measurement, not of the fabric
  std::uint32_t gpus_a_node = 8;
};

/// By log. Left out, as the notes on the reference say: logs of sick or unusual systems.
const std::map<std::string, System>& systems() {
  // One process drives all 8 GPUs in the oldest logs: launching costs 20 us more, 70 for an all-to-all.
  static const std::map<std::string, System> all{
      {"a100x8-allreduce-oldfmt.log", {{a100(), {}}, gigabits_per_second(200), microseconds(20)}},
      {"a100x8-reducescatter-oldfmt.log", {{a100(), {}}, gigabits_per_second(200), microseconds(20)}},
      {"a100x8-reduce-oldfmt.log", {{a100(), {}}, gigabits_per_second(200), microseconds(20)}},
      {"a100x8-alltoall-oldfmt.log", {{a100(), {}}, gigabits_per_second(200), microseconds(70)}},
      {"a100x16-allreduce-hdr.log", {{a100(), infiniband()}, gigabits_per_second(200), {}}},
      {"aks-x16-allreduce-ib.log", {{a100(), infiniband()}, gigabits_per_second(200), {}}},
      {"a100x32-allreduce-hdr.log", {{a100(), infiniband()}, gigabits_per_second(200), {}}},
      {"a100x16-allreduce-p4de-srunlabel.log", {{a100(), efa_100g()}, gigabits_per_second(50), {}}},
      {"h100x8-allreduce-dgx.log", {{h100(), {}}, gigabits_per_second(400), {}}},
      {"h100x8-allreduce-batch.log", {{h100(), {}}, gigabits_per_second(400), {}}},
      {"h100x8-allreduce-half-bert-0920.log", {{h100(), {}}, gigabits_per_second(400), {}}},
      {"h200x8-allreduce-half-a3ultra-4.log", {{h100(), {}}, gigabits_per_second(400), {}}},
      {"h100x16-allreduce-nebius.log", {{h100(), infiniband()}, gigabits_per_second(400), {}}},
      {"h100x16-allreduce-oci.log", {{h100(), roce()}, gigabits_per_second(400), {}}},
      {"h100x16-allreduce-a3mega.log", {{h100(), tcpxo()}, gigabits_per_second(200), {}}},
      {"h100x16-allgather-a3mega.log", {{h100(), tcpxo()}, gigabits_per_second(200), {}}},
      {"h200x16-allgather-a3ultra.log", {{h100(), roce()}, gigabits_per_second(400), {}}},
      {"h200x64-allreduce-half-a3ultra-1.log", {{h100(), roce()}, gigabits_per_second(400), {}}},
      {"h200x64-allreduce-half-a3ultra-6.log", {{h100(), roce()}, gigabits_per_second(400), {}}},
      {"h200-allreduce-p5en-cut.log", {{h100(), efa_3200g()}, gigabits_per_second(400), {}}},
      {"b200x8-allreduce-half.log", {{b200(), {}}, gigabits_per_second(400), {}}},
      {"b200x16-allreduce-lambda.log", {{b200(), infiniband()}, gigabits_per_second(400), {}}},
      {"gb200x72-allreduce-nvl72.log", {{gb200(), {}}, gigabits_per_second(400), {}, 72}},
      {"gb200x1440-allreduce-20rack.log", {{gb200(), between_racks()}, gigabits_per_second(400), {}, 72}},
      {"mi300x8-allreduce-rccl.log", {{mi300x(), {}}, gigabits_per_second(400), {}}},
      {"mi300x16-allreduce-oci-rccl.log", {{mi300x(), roce()}, gigabits_per_second(400), {}}},
      {"mi325x-allreduce-grep.log", {{mi300x(), roce()}, gigabits_per_second(400), {}}},
  };
  return all;
}

struct Point {
  std::string log;
  Collective op{};
  std::uint32_t ranks = 0;
  Bytes size;
  double seconds = 0;
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

/// Points of 1 KiB and more of the logs in `systems()`.
std::vector<Point> read_points(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = cells_of(line);
  std::map<std::string, std::size_t> column;
  for (std::size_t i = 0; i < header.size(); ++i) column[header[i]] = i;
  std::vector<Point> points;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = cells_of(line);
    const auto cell = [&](const char* name) { return cells.at(column.at(name)); };
    const auto known = systems().find(cell("source"));
    const Bytes size = bytes(std::stoll(cell("bytes")));
    if (known == systems().end() || size < kibibytes(1) || cell("time_us").empty()) continue;
    points.push_back({.log = cell("source"),
                      .op = op_of(cell("op")),
                      .ranks = static_cast<std::uint32_t>(std::stoul(cell("n_gpus"))),
                      .size = size,
                      .seconds = std::stod(cell("time_us")) * 1e-6 - known->second.launch_extra.seconds()});
  }
  return points;
}

/// |predicted / measured - 1| of each point, by log.
std::map<std::string, std::vector<std::pair<Point, double>>> errors_by_log(const std::vector<Point>& points) {
  struct Built {
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Router> router;
  };
  std::map<std::pair<std::string, std::uint32_t>, Built> built;
  std::map<std::string, std::vector<std::pair<Point, double>>> errors;
  for (const Point& point : points) {
    const System& system = systems().at(point.log);
    Built& here = built[{point.log, point.ranks}];
    if (!here.fabric) {
      here.fabric = std::make_unique<Fabric>(hand_made({.nodes = point.ranks / system.gpus_a_node,
                                                        .gpus = system.gpus_a_node,
                                                        .spines = 4,
                                                        .nvlink = system.transport.node.line,
                                                        .nic = system.nic}));
      here.router = make_router(Routing::spread, *here.fabric, 1);
    }
    const IdleCall call =
        idle_call(*here.fabric, system.transport, *here.router, point.op, point.size, first_gpus(point.ranks), {});
    errors[point.log].emplace_back(point, call.time.seconds() / point.seconds - 1);
  }
  return errors;
}

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

TEST(CollectivesReference, TimesOfPublishedLogs) {
  const std::filesystem::path file =
      std::filesystem::path(FORETRAIN_SOURCE_DIR) / "../shared/reference/collective_points.csv";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no reference points at " << file;
  std::vector<double> large;
  std::vector<double> all;
  fmt::print("{:42} {:>6} {:>8} {:>8} {:>8}   median |error| of time, %\n", "log", "points", "1K-1M", "1M-64M",
             ">=64M");
  for (const auto& [log, errors] : errors_by_log(read_points(file))) {
    std::vector<double> small_here;
    std::vector<double> middle_here;
    std::vector<double> large_here;
    for (const auto& [point, error] : errors) {
      const double size = std::abs(error);
      all.push_back(size);
      (point.size < mebibytes(1) ? small_here : point.size < mebibytes(64) ? middle_here : large_here).push_back(size);
    }
    large.insert(large.end(), large_here.begin(), large_here.end());
    fmt::print("{:42} {:6} {:8.1f} {:8.1f} {:8.1f}\n", log, errors.size(), 100 * quantile(small_here, 0.5),
               100 * quantile(middle_here, 0.5), 100 * quantile(large_here, 0.5));
  }
  fmt::print(">= 64 MiB: {} points, median {:.1f} %, p90 {:.1f} %\n", large.size(), 100 * quantile(large, 0.5),
             100 * quantile(large, 0.9));
  fmt::print(">= 1 KiB:  {} points, median {:.1f} %, p90 {:.1f} %\n", all.size(), 100 * quantile(all, 0.5),
             100 * quantile(all, 0.9));
  // The aims set for these points: median 3 and p90 8 % from 64 MiB, 5 and 20 % from 1 KiB.
  EXPECT_GT(large.size(), 200U);
  EXPECT_LE(quantile(large, 0.5), 0.03);
  EXPECT_LE(quantile(large, 0.9), 0.08);
  EXPECT_LE(quantile(all, 0.5), 0.05);
  EXPECT_LE(quantile(all, 0.9), 0.20);
}

}  // namespace
}  // namespace foretrain
