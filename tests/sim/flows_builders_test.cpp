// `flows` against `fluid` on the other builders, and with two collectives at once: every algorithm, 8 to 128 ranks.
// What can agree agrees within 2 %; where it cannot, the difference is bounded from both sides.
#include <gtest/gtest.h>

#include "tests/sim/flows_support.h"

namespace foretrain {
namespace {

/// The builders that `every_builder` leaves out, 128 GPUs each.
std::vector<Setting> other_builders() {
  std::vector<Setting> all;
  all.push_back(
      {"leaf-spine",
       build_leaf_spine({.gpus = 128, .leaves = 8, .leaf_ports = 16, .spines = 4, .uplink = gigabits_per_second(800)}),
       Routing::spread});
  all.push_back({"rail only", build_rail_only({.gpus = 128}), Routing::rail});
  all.push_back(
      {"dragonfly",
       build_dragonfly({.node = {.gpus = 1, .nics = 1}, .gpus = 128, .routers = 4, .hosts = 4, .global_links = 4}),
       Routing::minimal});
  all.push_back(
      {"dragonfly+",
       build_dragonfly_plus(
           {.node = {.gpus = 1, .nics = 1}, .gpus = 128, .leaves = 4, .spines = 4, .hosts = 4, .global_links = 2}),
       Routing::minimal});
  all.push_back({"pod tree",
                 build_pod_tree(
                     {.levels = {{.fan_out = 8, .bandwidth = gigabytes_per_second(450), .latency = nanoseconds(500)},
                                 {.fan_out = 16, .bandwidth = gigabytes_per_second(1800), .latency = nanoseconds(500)}},
                      .gpus = 128}),
                 Routing::spread});
  all.push_back(
      {"sites",
       build_sites({.site = FatTreeSpec{.tiers = 2, .radix = 32}, .gpus = 128, .sites = 2, .gpus_per_site = 64}),
       Routing::spread});
  return all;
}

/// Those of a group that are worth a row: all-to-alls of equal parts are the same under three names.
std::vector<Way> rows_of(const Fabric& fabric, const Group& group) {
  std::vector<Way> rows = ways_of(fabric, group);
  std::erase_if(rows, [](const Way& way) {
    return way.protocol != Protocol::simple || (is_all_to_all(way.op) && way.op != Collective::all_to_all);
  });
  return rows;
}

/// The algorithm's latency in seconds.
double latency_of(const Setting& s, const Way& way, Bytes size, const Group& group) {
  const GroupShape shape = shape_of(s.fabric, GroupLayout(s.fabric, group));
  return algorithm(way.algorithm).latency(way.op, way.protocol, size, shape, sharp()).seconds();
}

/// Within 2 %, but for what phases and pieces cannot help: a phase that waits for the one before is never later than
/// step by step, a message in P pieces never later than its fill. `calls` of the same way share all links.
void expect_agreement(const Setting& s, const Way& way, const Group& group, Bytes size, std::size_t calls) {
  constexpr std::uint32_t pieces = 16;
  const std::vector<Call> all(calls, Call{way.op, group, size});
  const Both both = play(s, all, {way.algorithm, way.protocol}, pieces);
  const double together = static_cast<double>(calls);
  const double latency = latency_of(s, way, size, group);
  const double transfer = both.fluid.step.seconds() - latency;
  const SendGraph graph = graph_of(s, way, size, group, pieces);
  EXPECT_GE(both.flows.step.seconds(), (graph.launch.seconds() + transfer) * (1 - 1e-9));
  if (way.phased()) {
    // A torus' ranks that are ahead hold up others, and lockstep bounds nothing: flows_test.cpp.
    if (!s.fabric.torus()) {
      EXPECT_LE(both.flows.step.seconds(), (latency + together * step_by_step(s, graph)) * (1 + 1e-9));
    }
  } else if (way.piped()) {
    const double fill = static_cast<double>(longest_chain(graph).sends - 1) / pieces * transfer;
    EXPECT_LE(both.flows.step.seconds(), (latency + transfer + fill) * (1 + 1e-9));
  } else {
    EXPECT_NEAR(both.ratio(), 1, 0.02);
  }
}

TEST(FlowsOnBuilders, EveryAlgorithmAgreesWithFluidOrIsBounded) {
  for (const Setting& s : other_builders())
    for (const std::size_t n : {8UL, 16UL, 128UL}) {
      const Group group = first_gpus(n);
      for (const Way& way : rows_of(s.fabric, group)) {
        SCOPED_TRACE(s.name + ", " + std::to_string(n) + ", " + way.name());
        expect_agreement(s, way, group, gibibytes(8), 1);
      }
    }
}

TEST(FlowsOnBuilders, TwoCallsThatShareAllLinksAgreeWithFluidOrAreBounded) {
  std::vector<Setting> settings = every_builder();
  for (Setting& other : other_builders()) settings.push_back(std::move(other));
  for (const Setting& s : settings)
    for (const std::size_t n : {8UL, 32UL}) {
      const Group group = first_gpus(n);
      for (const Way& way : rows_of(s.fabric, group)) {
        SCOPED_TRACE(s.name + ", " + std::to_string(n) + ", " + way.name());
        expect_agreement(s, way, group, gibibytes(8), 2);
      }
    }
}

/// Trees, chains and relays in fine pieces: within 2 % with another of their kind on the same links.
TEST(FlowsOnBuilders, TwoCallsInFinePiecesAgreeWithinTwoPercent) {
  for (const Setting& s : other_builders()) {
    const Group group = first_gpus(16);
    for (const Way& way : rows_of(s.fabric, group)) {
      if (!way.piped()) continue;
      SCOPED_TRACE(s.name + ", " + way.name());
      const bool chain = way.algorithm == Algorithm::ring;  // up to 15 hops that nothing overlaps
      const Call call{way.op, group, gibibytes(16)};
      EXPECT_NEAR(play(s, {call, call}, {way.algorithm, way.protocol}, chain ? 1024U : 128U).ratio(), 1, 0.02);
    }
  }
}

}  // namespace
}  // namespace foretrain
