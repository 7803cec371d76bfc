#include <fmt/format.h>

#include <boost/program_options/value_semantic.hpp>
#include <limits>
#include <ostream>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/named.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/commands/command.h"
#include "tools/output/topology_table.h"
#include "topology/analysis.h"
#include "topology/collisions.h"

namespace foretrain {
namespace {

Syntax topology_syntax() {
  Syntax syntax("topology", "topology CLUSTER [options]",
                "counts, radix, bisection, oversubscription a tier and diameter of a cluster's network");
  syntax.positional("cluster", "CLUSTER");
  const std::string routings = "routing of --collisions (default ecmp): " + names_of(all_routings);
  const std::string patterns =
      "who sends in --collisions: ring, each GPU to the next node (default), or a random permutation: " +
      names_of(all_traffic_patterns);
  syntax.options.add_options()("gpus", po::value<std::int64_t>()->value_name("N"),
                               "GPUs in it (default: all that it can have)")(
      "dot", po::value<std::string>()->value_name("FILE"), "write the graph for Graphviz; - is standard output")(
      "json", po::value<std::string>()->value_name("FILE"), "write the numbers as JSON; - is standard output");
  add_shape_option(syntax);
  syntax.options.add_options()("collisions", "flows that meet on links between switches, and the bandwidth that costs")(
      "routing", po::value<std::string>()->value_name("NAME"), routings.c_str())(
      "pattern", po::value<std::string>()->value_name("NAME"), patterns.c_str())(
      "flows", po::value<std::int64_t>()->value_name("N"), "flows a pair, each hashed by itself (default 1)")(
      "seed", po::value<std::int64_t>()->value_name("N"), "of the hash and the permutation (default 1)");
  syntax.examples = {"topology dgx-h100-ndr --gpus 1024", "topology tpu-v4-pod --shape 4x4x8",
                     "topology h100-roce-clos --gpus 64 --dot fabric.dot --json -",
                     "topology dgx-h100-ndr --gpus 1024 --collisions --flows 16"};
  return syntax;
}

std::string file_of(const po::variables_map& values, const char* option) {
  return values.count(option) > 0 ? values[option].as<std::string>() : std::string();
}

struct Allowed {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

std::int64_t integer_of(const Syntax& syntax, const po::variables_map& values, const char* option, Allowed allowed,
                        std::int64_t otherwise) {
  const std::int64_t value = values.count(option) > 0 ? values[option].as<std::int64_t>() : otherwise;
  if (value < allowed.least || value > allowed.most) {
    throw syntax.error(fmt::format("--{} {}: allowed: {} to {}", option, value, allowed.least, allowed.most));
  }
  return value;
}

/// How to look for collisions; nothing without --collisions.
struct CollisionQuestion {
  Routing routing{};
  TrafficPattern pattern{};
  RouterOptions options;
};

std::optional<CollisionQuestion> collision_question(const Syntax& syntax, const po::variables_map& values) {
  if (values.count("collisions") == 0) {
    for (const char* option : {"routing", "pattern", "flows", "seed"}) {
      if (values.count(option) > 0) throw syntax.error(fmt::format("--{} needs --collisions", option));
    }
    return std::nullopt;
  }
  const auto flows = integer_of(syntax, values, "flows", {1, flows_per_pair_most}, 1);
  const auto seed = integer_of(syntax, values, "seed", {0, std::numeric_limits<std::int64_t>::max()}, 1);
  return CollisionQuestion{
      .routing = named(syntax, values, "routing", all_routings).value_or(Routing::ecmp),
      .pattern = named(syntax, values, "pattern", all_traffic_patterns).value_or(TrafficPattern::ring),
      .options = {.seed = static_cast<std::uint64_t>(seed), .flows_per_pair = static_cast<std::uint32_t>(flows)}};
}

CollisionTable collisions_of(const Fabric& fabric, const CollisionQuestion& question) {
  const std::vector<GpuPair> pairs =
      question.pattern == TrafficPattern::ring ? ring_pairs(fabric) : permutation_pairs(fabric, question.options.seed);
  CollisionTable table{.pattern = question.pattern,
                       .routing = question.routing,
                       .seed = question.options.seed,
                       .report = find_collisions(fabric, pairs, question.routing, question.options),
                       .busiest = {}};
  if (table.report.busiest) table.busiest = fabric.name(*table.report.busiest);
  return table;
}

}  // namespace

int show_topology(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = topology_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const std::string dot = file_of(*values, "dot");
  const std::string json = file_of(*values, "json");
  if (!dot.empty() && dot == json) throw syntax.error("--dot and --json cannot both write '" + dot + "'");
  for (const std::string& file : {dot, json}) {
    if (!file.empty() && file != "-") check_writable(file);
  }
  const auto question = collision_question(syntax, *values);
  const auto gpus = values->count("gpus") > 0 ? std::optional((*values)["gpus"].as<std::int64_t>()) : std::nullopt;
  const ClusterChoice choice = choose_cluster(syntax, *values, gpus);
  const Fabric fabric = fabric_of(syntax, choice);
  const TopologyReport report = analyse(fabric);
  const auto collisions = question ? std::optional(collisions_of(fabric, *question)) : std::nullopt;
  if (!dot.empty()) write_text(dot, to_dot(fabric), console.out);
  if (!json.empty()) write_text(json, topology_json(choice.cluster.name, report, collisions), console.out);
  if (dot != "-" && json != "-") {
    console.out << topology_text(choice.cluster.name, report) << (collisions ? collisions_text(*collisions) : "");
  }
  return 0;
}

}  // namespace foretrain
