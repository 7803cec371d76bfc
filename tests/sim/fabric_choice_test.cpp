// Does the choice of a fabric come out as the textbook says? A mixture of experts, whose all-to-alls cross the whole
// machine, prefers the fat-tree; a dense job, whose ranks talk to their neighbours, does as well on a torus of equally
// many equal cables.
//
// Two tiers of switches of r ports carry r^2/2 GPUs with a cable each and as many again between leaves and spines: 2n.
// A torus of two dimensions has 2n cables as well; its routes are spread, since ties of dimension order all go one way.
#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/sim/hand_made_fabric.h"
#include "tests/sim/usage_reading.h"
#include "topology/builders/builders.h"

namespace foretrain {
namespace {

constexpr std::uint32_t width = 8, length = 16, gpus = width * length;
constexpr double cable = 50e9;  ///< bytes a second, one direction
constexpr double n = gpus;

struct Machine {
  Fabric fabric;
  Routing routing;
};
Machine torus() { return {build_torus({.shape = {width, length}}), Routing::spread}; }
Machine fat_tree() {
  return {build_fat_tree({.node = {.gpus = 1, .nics = 1}, .gpus = gpus, .tiers = 2, .radix = 16}), Routing::spread};
}

/// Cables of the network: not those inside the accelerators' servers.
struct Cables {
  std::size_t count = 0;
  bool equal = true;
};
Cables cables_of(const Fabric& fabric) {
  Cables cables;
  for (const Link& link : fabric.links()) {
    const std::string_view tier = fabric.tiers()[link.tier.index()].name;
    if (tier != "torus" && tier != "nic" && tier != "leaf-spine") continue;
    ++cables.count;
    cables.equal = cables.equal && static_cast<double>(link.bandwidth.bytes_per_s()) == cable;
  }
  cables.count /= 2;  // two directions
  return cables;
}

/// The ranks line by line, every second line backwards: neighbours in the order are neighbours on the torus, the last
/// and the first as well.
std::vector<GpuId> in_neighbours_order() {
  std::vector<GpuId> order;
  for (std::uint32_t y = 0; y < length; ++y)
    for (std::uint32_t x = 0; x < width; ++x) order.push_back(GpuId{y * width + (y % 2 == 0 ? x : width - 1 - x)});
  return order;
}

/// Every rank computes a layer, then all call; so many layers.
struct Layers {
  std::uint32_t count = 4;
  Duration compute = microseconds(500);
  std::vector<Collective> calls;  ///< after the computation of a layer
  Bytes size;
};
Job job_of(const Layers& layers) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{"all", false}};
  ProgramBuilder b;
  for (std::uint32_t i = 0; i < layers.count; ++i) {
    b.compute(main_stream, {.label = "layer", .duration = layers.compute});
    for (const Collective op : layers.calls)
      b.communicate(main_stream, {.label = "call", .op = op, .size = layers.size});
  }
  job.programs.push_back(std::move(b).build());
  job.placement = in_neighbours_order();
  job.communicators.emplace_back();
  for (std::size_t r = 0; r < job.placement.size(); ++r) {
    job.communicators[0].members.push_back(id_at<RankId>(r));
    job.ranks.push_back({0, {CommunicatorId{0}}});
  }
  return job;
}

double step_seconds(const Machine& machine, const Layers& layers, Algorithm how) {
  SimulateOptions options{.routing = machine.routing, .forced = {how, Protocol::simple}};
  return simulate(machine.fabric, perfect_transport(), job_of(layers), options).step.seconds();
}

/// What the job takes when every call moves `rate` message bytes a second.
double expected_seconds(const Machine& machine, const Layers& layers, Algorithm how, double rate) {
  const GroupShape shape = shape_of(machine.fabric, GroupLayout(machine.fabric, in_neighbours_order()));
  double seconds = layers.compute.seconds();
  for (const Collective op : layers.calls) {
    seconds += algorithm(how).latency(op, Protocol::simple, layers.size, shape, perfect_transport()).seconds();
    seconds += static_cast<double>(layers.size.count()) / rate;
  }
  return layers.count * seconds;
}

TEST(FabricChoice, ExpertsPreferTheFatTreeAndNeighboursDoAsWellOnTheTorus) {
  const Machine ring_of_rings = torus(), tree = fat_tree();
  for (const Machine* machine : {&ring_of_rings, &tree}) {
    EXPECT_EQ(cables_of(machine->fabric).count, 2 * gpus);
    EXPECT_TRUE(cables_of(machine->fabric).equal);
  }

  // Of an all-to-all, half the machine sends n/2 n/2 parts of S/n to the other half. Cut across its length, a torus
  // has 2 width cables there: 8/length of a cable's rate a GPU. On the fat-tree the GPU's own cable carries all but the
  // GPU's own part.
  const Layers experts{.calls = {Collective::all_to_all, Collective::all_to_all}, .size = mebibytes(256)};
  const double bisection = 2 * width * cable / (n / 4);
  const double own_cable = cable * n / (n - 1);
  const double on_torus = step_seconds(ring_of_rings, experts, Algorithm::pairwise);
  const double on_tree = step_seconds(tree, experts, Algorithm::pairwise);
  EXPECT_NEAR(on_torus, expected_seconds(ring_of_rings, experts, Algorithm::pairwise, bisection), 1e-9);
  EXPECT_NEAR(on_tree, expected_seconds(tree, experts, Algorithm::pairwise, own_cable), 1e-9);
  EXPECT_DOUBLE_EQ(bisection, 8.0 / length * cable);
  EXPECT_GT(on_torus, 1.7 * on_tree);  // twice, but for computing and latencies

  // A ring goes over one cable of every GPU on both; a torus that uses all four directions is faster than that.
  const Layers dense{.calls = {Collective::reduce_scatter, Collective::all_gather}, .size = mebibytes(256)};
  for (const Machine* machine : {&ring_of_rings, &tree})
    EXPECT_NEAR(step_seconds(*machine, dense, Algorithm::ring),
                expected_seconds(*machine, dense, Algorithm::ring, own_cable), 1e-9);
  EXPECT_LT(step_seconds(ring_of_rings, dense, Algorithm::torus_ring), step_seconds(tree, dense, Algorithm::ring));
}

}  // namespace
}  // namespace foretrain
