// Do dispatch and combine of expert parallelism take what DeepEP measured? Against the README's figures for H800 nodes
// (github.com/deepseek-ai/DeepEP), which the reference folder beside the source tree holds; the cluster is the
// catalogue's h800-ib, and no constant of it was fitted to them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/simulate.h"
#include "tests/scenarios/support.h"
#include "tests/workloads/reference.h"

namespace foretrain {
namespace {

constexpr std::uint32_t node_gpus = 8;
constexpr std::uint32_t experts = 256;    ///< DeepEP's tests, tests/test_internode.py and test_low_latency.py
constexpr std::uint32_t nodes_limit = 4;  ///< "top-4 groups"

struct Row {
  std::string name;
  bool combine = false;
  std::uint32_t ranks = 0;
  double tokens = 0, hidden = 0;
  std::uint32_t top_k = 0;
  double bandwidth = 0;  ///< bytes a second
  double latency_s = 0;  ///< low-latency rows
  [[nodiscard]] std::uint32_t nodes() const { return ranks / node_gpus; }
  /// Of one copy of one token. Dispatch is FP8, a byte an element and a 4-byte scale for each 128; combine is BF16.
  [[nodiscard]] double token_bytes() const { return combine ? 2 * hidden : hidden + hidden / 128 * 4; }
  [[nodiscard]] Collective op() const { return combine ? Collective::all_to_allv_back : Collective::all_to_allv; }
};

std::vector<Row> rows_of(const std::string& mode) {
  std::vector<Row> rows;
  for (const ReferenceRow& r : reference_rows("comm_bandwidth.csv")) {
    if (r.at("mode") != mode) continue;
    rows.push_back({.name = fmt::format("{} {} EP{}", mode, r.at("op"), r.at("ep_size")),
                    .combine = r.at("op") == "combine",
                    .ranks = static_cast<std::uint32_t>(std::stoul(r.at("ep_size"))),
                    .tokens = std::stod(r.at("tokens_per_batch")),
                    .hidden = std::stod(r.at("hidden")),
                    .top_k = static_cast<std::uint32_t>(std::stoul(r.at("topk"))),
                    .bandwidth = std::stod(r.at("bandwidth_gb_s")) * 1e9,
                    .latency_s = r.at("latency_us").empty() ? 0 : std::stod(r.at("latency_us")) * 1e-6});
  }
  return rows;
}

Duration time_of(const Row& row, Algorithm how, const Exchange& exchange) {
  const Cluster cluster = load_cluster("h800-ib", testing::catalogue());
  const Fabric fabric = build_fabric(cluster, row.ranks);
  const auto router = make_router(Network{}.routing, fabric, Network{}.seed);
  std::vector<GpuId> group;
  for (std::size_t g = 0; g < row.ranks; ++g) group.push_back(id_at<GpuId>(g));
  const Bytes size = bytes(std::llround(row.tokens * row.top_k * row.token_bytes()));
  return idle_call(fabric, cluster.transport, *router, row.op(), size, group, {how, {}}, exchange).time;
}

/// Our seconds for a call over DeepEP's. Its bandwidth counts (tests/test_internode.py, test_intranode.py), over nodes,
/// a copy for every node that a token goes to, its own among them, and inside one node a copy for every rank.
double predicted_over_published(const Row& row) {
  const bool across = row.nodes() > 1;
  const std::uint32_t limit = std::min(nodes_limit, row.nodes());
  const double nodes = expected_groups(row.nodes(), limit, experts, row.top_k);
  const double ranks = expected_groups(limit * node_gpus, limit * node_gpus, limit * experts / row.nodes(), row.top_k);
  const Exchange exchange{
      .demand = {}, .copies_per_node = as_share(row.top_k / nodes), .copies_per_rank = as_share(row.top_k / ranks)};
  const double copies = across ? nodes : ranks;
  const double published = row.tokens * copies * row.token_bytes() / row.bandwidth;
  return time_of(row, Algorithm::two_hop, exchange).seconds() / published;
}

TEST(DeepEp, NormalModeOverNodesIsTwoHopsWithEveryTokenOnceANode) {
  const std::vector<Row> rows = rows_of("normal (V1)");
  if (rows.empty()) GTEST_SKIP() << "the reference tables are not there";
  for (const Row& row : rows) {
    const double ratio = predicted_over_published(row);
    fmt::print("  {:<28} {:+.1f} %\n", row.name, 100 * (ratio - 1));
    // From 32 ranks on the NICs bind: ours run at 95 % of their line rate, DeepEP's at 86 to 92. With 8 and 16 NVLink
    // binds: a token goes to 5 or 6 ranks but to 2 nodes at most. Ours runs it at the 160 GB/s of which the README says
    // that they are the most, DeepEP's 24 multiprocessors copy 120 to 135.
    const bool nics_bind = row.nodes() > 2;
    EXPECT_LT(ratio, 1) << row.name;
    EXPECT_GT(ratio, nics_bind ? 0.90 : 0.77) << row.name;
  }
}

TEST(DeepEp, LowLatencyModeSendsEveryCopyByItself) {
  const std::vector<Row> rows = rows_of("low-latency (V1)");
  if (rows.empty()) GTEST_SKIP() << "the reference tables are not there";
  for (const Row& row : rows) {
    if (row.nodes() == 1) continue;  // partly over the NICs even so
    const double ratio = time_of(row, Algorithm::pairwise, {}).seconds() / row.latency_s;
    fmt::print("  {:<28} {:+.1f} %\n", row.name, 100 * (ratio - 1));
    EXPECT_NEAR(ratio, 1, 0.17) << row.name;
  }
}

}  // namespace
}  // namespace foretrain
