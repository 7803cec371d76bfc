// Scenario: one question, as checked values: a model, a training step, a plan, a cluster, how its network routes.
//
//   Scenario s = load_scenario("scenarios/llama3-405b.yaml", {"network.routing=ecmp"}, default_catalogue());
//   Result r = rehearse(s);
//
// Everything wrong with a file is thrown at once, as one InputError of lines `file:line:column: what; what is allowed`.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "sim/simulate.h"
#include "topology/builders/builders.h"
#include "topology/faults.h"
#include "workloads/gpu.h"
#include "workloads/plan.h"

namespace foretrain {

/// The shape of a cluster's network; its `gpus` is filled in by the scenario.
using FabricSpec = std::variant<RailSpec, FatTreeSpec, MetaClosSpec, TorusSpec, RailOnlySpec, LeafSpineSpec,
                                DragonflySpec, DragonflyPlusSpec, PodTreeSpec, SitesSpec, GraphSpec>;

/// Servers with GPUs of one kind, one after the other.
struct NodeGroup {
  std::int64_t gpus = 0;  ///< of the last group: 0 = all that remain
  Gpu gpu;
};

struct Cluster {
  std::string name;
  Gpu gpu;                        ///< of a mixed cluster: its first group's
  std::vector<NodeGroup> groups;  ///< of a mixed cluster, in the order of the GPUs; their servers: NodeSpec::others
  FabricSpec fabric;
  Transport transport;
  double jitter = 0.005;      ///< slowdown of compute a doubling of nodes (straggler_slowdown)
  std::int64_t max_gpus = 0;  ///< that the shape can carry
};
[[nodiscard]] Fabric build_fabric(const Cluster& cluster, std::int64_t gpus);
/// The groups that the first `gpus` GPUs of a cluster are in, with their numbers: one where it is not mixed.
[[nodiscard]] std::vector<NodeGroup> groups_of(const Cluster& cluster, std::int64_t gpus);

/// What is broken or slow: the section `faults` of a scenario (docs/faults.md).
struct GpuSlowdown {
  std::string gpu;  ///< "node5/gpu2"
  double factor = 1;
  friend bool operator==(const GpuSlowdown&, const GpuSlowdown&) = default;
};
struct Faults {
  std::vector<FabricFault> fabric;
  std::vector<GpuSlowdown> gpus;
  double jitter = 0;  ///< spread of the GPUs' pace: each computes exp(jitter z) times as long, z standard normal
  std::uint64_t jitter_seed = 1;
  friend bool operator==(const Faults&, const Faults&) = default;
};

struct Network {
  Routing routing = Routing::spread;
  Fidelity fidelity = Fidelity::fluid;
  std::uint64_t seed = 1;
  std::uint32_t flows_per_pair = 1;  ///< that hash each by itself (RouterOptions)
};

struct Scenario {
  std::string name;  ///< of the file, without folder and ending
  Model model;
  Cluster cluster;
  std::int64_t gpus = 0;
  Training training;
  Plan plan;
  Network network;
  Faults faults;
};

/// The fabric that a scenario runs on: its cluster's, with its faults. Throws std::invalid_argument when these cut it
/// apart or name what is not there.
[[nodiscard]] Fabric build_fabric(const Scenario& scenario);
/// By GPU of the fabric: how much longer it computes; empty when no fault says so (Job::pace, but by GPU).
[[nodiscard]] std::vector<Pace> gpu_paces(const Faults& faults, const Fabric& fabric);

/// One or many mistakes of the user, a line each, each ending without newline; exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The folder that holds gpus/, clusters/ and models/: $FORETRAIN_CATALOGUE, else `scenarios` beside or above the
/// program, else the source tree.
[[nodiscard]] std::filesystem::path default_catalogue();

/// `sets` are "a.b=c" overrides (YAML values), laid over the file; a mistake in one is reported as `--set a.b=c: ...`.
[[nodiscard]] Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& sets,
                                     const std::filesystem::path& catalogue);
/// The same from text; `name` stands for the file in messages. Used by tests and the fuzzer.
[[nodiscard]] Scenario parse_scenario(const std::string& text, const std::string& name,
                                      const std::vector<std::string>& sets, const std::filesystem::path& catalogue);
/// A cluster by catalogue name or path.
/// A slice of a torus by its shape, such as "4x4x8", if that is given.
[[nodiscard]] Cluster load_cluster(const std::string& name, const std::filesystem::path& catalogue,
                                   const std::string& shape = {});

/// Canonical form: every value that decided the run, defaults included, as YAML that loads back to the same Scenario
/// when the catalogue is at hand.
[[nodiscard]] std::string to_yaml(const Scenario& scenario);

}  // namespace foretrain
