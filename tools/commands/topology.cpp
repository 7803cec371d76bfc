#include <boost/program_options/value_semantic.hpp>
#include <ostream>

#include "scenarios/scenario.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/commands/command.h"
#include "tools/output/topology_table.h"
#include "topology/analysis.h"

namespace foretrain {
namespace {

Syntax topology_syntax() {
  Syntax syntax("topology", "topology CLUSTER [options]",
                "counts, radix, bisection, oversubscription a tier and diameter of a cluster's network");
  syntax.positional("cluster", "CLUSTER");
  syntax.options.add_options()("gpus", po::value<std::int64_t>()->value_name("N"),
                               "GPUs in it (default: all that it can have)")(
      "dot", po::value<std::string>()->value_name("FILE"), "write the graph for Graphviz; - is standard output")(
      "json", po::value<std::string>()->value_name("FILE"), "write the numbers as JSON; - is standard output");
  syntax.examples = {"topology dgx-h100-ndr --gpus 1024",
                     "topology h100-roce-clos --gpus 64 --dot fabric.dot --json -"};
  return syntax;
}

std::string file_of(const po::variables_map& values, const char* option) {
  return values.count(option) > 0 ? values[option].as<std::string>() : std::string();
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
  const std::string name = (*values)["cluster"].as<std::string>();
  const auto gpus = values->count("gpus") > 0 ? std::optional((*values)["gpus"].as<std::int64_t>()) : std::nullopt;
  const ClusterChoice choice = choose_cluster(syntax, name, gpus);
  const Fabric fabric = fabric_of(syntax, choice);
  const TopologyReport report = analyse(fabric);
  if (!dot.empty()) write_text(dot, to_dot(fabric), console.out);
  if (!json.empty()) write_text(json, topology_json(choice.cluster.name, report), console.out);
  if (dot != "-" && json != "-") console.out << topology_text(choice.cluster.name, report);
  return 0;
}

}  // namespace foretrain
